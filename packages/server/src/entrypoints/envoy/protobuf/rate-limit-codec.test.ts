import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { propertyRuns } from '../../../../../../tools/property-runs.js'
import { GrpcError } from '../grpc-error.js'
import {
  DESCRIPTORS_MAX,
  ENTRIES_MAX,
  type JsonValue,
  type LimitUnit,
  type RateLimitRequest,
  type RateLimitResponse,
} from '../rate-limit-messages.js'
import { encodeRequest, lengthDelimited } from './official-messages.test-helper.js'
import { officialMessage } from './official-protos.test-helper.js'
import { ProtoError } from './proto-reader.js'
import { decodeRateLimitRequest, encodeRateLimitResponse } from './rate-limit-codec.js'

const REQUEST = officialMessage('envoy.service.ratelimit.v3.RateLimitRequest')
const RESPONSE = officialMessage('envoy.service.ratelimit.v3.RateLimitResponse')

const UINT32_MAX = 2 ** 32 - 1
/** Units that the official definition of a request knows. */
const UNITS: readonly LimitUnit[] = ['unknown', 'second', 'minute', 'hour', 'day', 'month', 'year']

const bytesOf = (hex: string) => Buffer.from(hex.replaceAll(' ', ''), 'hex')
const text = fc.oneof(
  fc.string({ maxLength: 40 }),
  fc.string({ unit: 'grapheme', maxLength: 200 }).filter((value) => !/\p{Surrogate}/u.test(value)),
)
const uint32 = fc.integer({ min: 0, max: UINT32_MAX })
const uint53 = fc.oneof(fc.integer({ min: 0, max: 300 }), fc.maxSafeNat())

const request = fc.record({
  domain: text,
  hitsAddend: uint32,
  descriptors: fc.array(
    fc.record({
      entries: fc.array(fc.record({ key: text, value: text }), { maxLength: 6 }),
      limit: fc.option(fc.record({ requestsPerUnit: uint32, unit: fc.constantFrom(...UNITS) }), {
        nil: undefined,
      }),
      hitsAddend: fc.option(uint53, { nil: undefined }),
      isNegativeHits: fc.boolean(),
    }),
    { maxLength: 6 },
  ),
})

describe('a request', () => {
  test('is read from the bytes that Envoy sends', () => {
    const golden = '0a 05 62 61 73 69 63 12 0d 0a 0b 0a 04 6b 65 79 31 12 03 66 6f 6f 18 01'
    expect(decodeRateLimitRequest(bytesOf(golden))).toEqual({
      domain: 'basic',
      descriptors: [
        {
          entries: [{ key: 'key1', value: 'foo' }],
          limit: undefined,
          hitsAddend: undefined,
          isNegativeHits: false,
        },
      ],
      hitsAddend: 1,
    })
  })

  test('is read as the official codec wrote it', () => {
    const check = (sent: RateLimitRequest) => {
      expect(decodeRateLimitRequest(encodeRequest(sent))).toEqual(sent)
    }
    fc.assert(fc.property(request, check), { numRuns: propertyRuns(2000) })
  })

  test('without any field is empty', () => {
    expect(decodeRateLimitRequest(Buffer.alloc(0))).toEqual({
      domain: '',
      descriptors: [],
      hitsAddend: 0,
    })
  })

  test('keeps a cost of 0 apart from none', () => {
    const [unset, zero] = ['12 00', '12 02 1a 00'].map((hex) =>
      decodeRateLimitRequest(bytesOf(hex)),
    )
    expect(unset?.descriptors[0]?.hitsAddend).toBeUndefined()
    expect(zero?.descriptors[0]?.hitsAddend).toBe(0)
  })

  test.each([
    ['the largest number of 64 bits', 'ff ff ff ff ff ff ff ff ff 01'],
    ['2^53', '80 80 80 80 80 80 80 10'],
    ['2^53 - 1', 'ff ff ff ff ff ff ff 0f'],
  ])('has at most 2^53 - 1 hits for %s', (_name, hex) => {
    const wrapped = Buffer.concat([Buffer.from([8]), bytesOf(hex)])
    const descriptor = lengthDelimited(3, wrapped)
    const { descriptors } = decodeRateLimitRequest(lengthDelimited(2, descriptor))
    expect(descriptors[0]?.hitsAddend).toBe(Number.MAX_SAFE_INTEGER)
  })

  test('has the low 32 bits of hits that exceed 32 bits', () => {
    const bytes = bytesOf('18 85 80 80 80 10')
    expect(decodeRateLimitRequest(bytes).hitsAddend).toBe(5)
    expect(REQUEST.decode(bytes)).toMatchObject({ hits_addend: 5 })
  })

  test('has the last of several values of a field, and the sum of several messages', () => {
    const limits = [
      lengthDelimited(2, bytesOf('08 05 10 01')),
      lengthDelimited(2, bytesOf('10 02')),
      lengthDelimited(3, bytesOf('08 07')),
      lengthDelimited(3, Buffer.alloc(0)),
    ]
    const parts = [
      lengthDelimited(1, Buffer.from('first')),
      lengthDelimited(2, Buffer.concat(limits)),
      lengthDelimited(1, Buffer.from('last')),
    ]
    expect(decodeRateLimitRequest(Buffer.concat(parts))).toMatchObject({
      domain: 'last',
      descriptors: [{ limit: { requestsPerUnit: 5, unit: 'minute' }, hitsAddend: 7 }],
    })
  })

  test('may have fields of later versions, of every type, in every message', () => {
    const unknown = bytesOf('f8 06 ff ff ff ff ff ff ff ff ff 01 f9 06 01 02 03 04 05 06 07 08')
    const more = bytesOf('fa 06 03 01 02 03 fd 06 01 02 03 04')
    const inside = Buffer.concat([unknown, more, lengthDelimited(1, Buffer.from('k')), more])
    const descriptor = Buffer.concat([more, lengthDelimited(1, inside), unknown])
    const message = Buffer.concat([unknown, lengthDelimited(2, descriptor), more])
    expect(decodeRateLimitRequest(message).descriptors[0]?.entries).toEqual([
      { key: 'k', value: '' },
    ])
  })

  test('has a field of another wire type than its own skipped', () => {
    const message = Buffer.concat([bytesOf('08 01 1a 01 61'), lengthDelimited(1, Buffer.from('d'))])
    expect(decodeRateLimitRequest(message)).toMatchObject({ domain: 'd', hitsAddend: 0 })
  })

  test('has no unit for a number without a name', () => {
    const bytes = lengthDelimited(2, lengthDelimited(2, bytesOf('10 e7 07')))
    expect(decodeRateLimitRequest(bytes).descriptors[0]?.limit?.unit).toBe('unknown')
  })

  test('keeps a byte order mark in a text', () => {
    const bytes = lengthDelimited(1, Buffer.from('\ufeffd'))
    expect(decodeRateLimitRequest(bytes).domain).toBe('\ufeffd')
  })
})

describe('bytes are refused', () => {
  test.each([
    ['a tag alone', '0a'],
    ['a text that is longer than the message', '0a 05 61'],
    ['an inner field that is longer than its message', '12 03 0a 04 61 0a 01 62'],
    ['a length of 2^32', '0a 80 80 80 80 10'],
    ['a length of 2^64 - 1', '0a ff ff ff ff ff ff ff ff ff 01'],
    ['a number that ends within', '18 80'],
    ['a number of eleven bytes', '18 80 80 80 80 80 80 80 80 80 80 01'],
    ['a number of more than 64 bits', '18 ff ff ff ff ff ff ff ff ff 02'],
    ['field number 0', '02 00'],
    ['a field number of more than 32 bits', '82 80 80 80 10 00'],
    ['the beginning of a group', '1b 1c'],
    ['the end of a group', '1c'],
    ['wire type 6', '1e 00'],
    ['wire type 7', '1f 00'],
    ['a fixed number that ends within', '21 01 02 03'],
    ['text that is not UTF-8', '0a 01 ff'],
    ['a surrogate in UTF-8', '0a 03 ed a0 80'],
    ['long text that is not UTF-8', `0a 20 ${'61 '.repeat(31)}c3`],
  ])('that have %s', (_name, hex) => {
    expect(() => decodeRateLimitRequest(bytesOf(hex))).toThrow(ProtoError)
  })

  test('with more descriptors than accepted', () => {
    const descriptors = (count: number) => Buffer.concat(Array(count).fill(bytesOf('12 00')))
    const most = decodeRateLimitRequest(descriptors(DESCRIPTORS_MAX))
    expect(most.descriptors).toHaveLength(DESCRIPTORS_MAX)
    expect(() => decodeRateLimitRequest(descriptors(DESCRIPTORS_MAX + 1))).toThrow(
      new GrpcError(3, 'too many descriptors: at most 256 are accepted'),
    )
  })

  test('with more entries in a descriptor than accepted', () => {
    const entries = (length: number) => Array.from({ length }, () => ({ key: 'k' }))
    const encode = (length: number) =>
      REQUEST.encode({ descriptors: [{ entries: entries(length) }] })
    const { descriptors } = decodeRateLimitRequest(encode(ENTRIES_MAX))
    expect(descriptors[0]?.entries).toHaveLength(ENTRIES_MAX)
    expect(() => decodeRateLimitRequest(encode(ENTRIES_MAX + 1))).toThrow(
      'too many entries in a descriptor: at most 64 are accepted',
    )
  })

  test('or read, and never fail in another way, whatever they are', () => {
    const valid = request.map((sent) => encodeRequest(sent))
    const mutated = fc
      .tuple(
        valid,
        fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), { maxLength: 4 }),
      )
      .map(([bytes, changes]) => {
        for (const [at, byte] of changes) if (bytes.length > 0) bytes[at % bytes.length] = byte
        return bytes
      })
    const check = (bytes: Uint8Array) => {
      try {
        decodeRateLimitRequest(bytes)
      } catch (error) {
        if (!(error instanceof ProtoError || error instanceof GrpcError)) throw error
      }
    }
    const any = fc.oneof(mutated, fc.uint8Array({ maxLength: 60 }))
    fc.assert(fc.property(any, check), { numRuns: propertyRuns(5000) })
  })

  test('wherever a message is cut off, if that is within a field', () => {
    const whole = REQUEST.encode({ domain: 'd', descriptors: [{ entries: [{ key: 'key' }] }] })
    const read = Array.from({ length: whole.length + 1 }, (_, length) => {
      try {
        return decodeRateLimitRequest(whole.subarray(0, length)).descriptors.length
      } catch {
        return 'refused'
      }
    })
    // Only at the start, after the domain, and at the end.
    expect(read.map((count, length) => (count === 'refused' ? [] : [length])).flat()).toEqual([
      0,
      3,
      whole.length,
    ])
  })
})

const json: fc.Arbitrary<JsonValue> = fc.letrec<{ value: JsonValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.constant(null),
    fc.boolean(),
    fc.double({ noNaN: true }),
    text,
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(text, tie('value'), { maxKeys: 3 }),
  ),
})).value

const headers = fc
  .array(fc.tuple(text, text), { maxLength: 3 })
  .map((pairs) => pairs.flat() as readonly string[])

const code = fc.constantFrom('ok' as const, 'over-limit' as const)
const response: fc.Arbitrary<RateLimitResponse> = fc.record({
  overallCode: code,
  statuses: fc.array(
    fc.record({
      code,
      currentLimit: fc.option(
        fc.record({
          requestsPerUnit: uint32,
          unit: fc.constantFrom(...UNITS, 'week' as const),
          name: text,
        }),
        { nil: undefined },
      ),
      limitRemaining: uint32,
      resetSeconds: fc.option(uint53, { nil: undefined }),
    }),
    { maxLength: 4 },
  ),
  responseHeaders: headers,
  requestHeaders: headers,
  rawBody: text,
  dynamicMetadata: fc.option(fc.dictionary(text, json, { maxKeys: 4 }), { nil: undefined }),
})

const codeName = (value: RateLimitResponse['overallCode']) => (value === 'ok' ? 'OK' : 'OVER_LIMIT')

function officialResponse(sent: RateLimitResponse): object {
  const listHeaders = (list: readonly string[]) =>
    Array.from({ length: list.length / 2 }, (_, index) => ({
      key: list[2 * index],
      value: list[2 * index + 1],
    }))
  return {
    overall_code: codeName(sent.overallCode),
    statuses: sent.statuses.map((status) => ({
      code: codeName(status.code),
      limit_remaining: status.limitRemaining,
      ...(status.currentLimit && {
        current_limit: {
          requests_per_unit: status.currentLimit.requestsPerUnit,
          // The official definition at hand has no week.
          unit: status.currentLimit.unit === 'week' ? 7 : status.currentLimit.unit.toUpperCase(),
          name: status.currentLimit.name,
        },
      }),
      ...(status.resetSeconds !== undefined && {
        duration_until_reset: { seconds: status.resetSeconds },
      }),
    })),
    response_headers_to_add: listHeaders(sent.responseHeaders),
    request_headers_to_add: listHeaders(sent.requestHeaders),
    raw_body: Buffer.from(sent.rawBody),
    ...(sent.dynamicMetadata && { dynamic_metadata: structOf(sent.dynamicMetadata) }),
  }
}

function structOf(fields: Readonly<Record<string, JsonValue>>): object {
  const pairs = Object.entries(fields).map(([key, value]) => [key, valueOf(value)] as const)
  return { fields: Object.fromEntries(pairs) }
}

function valueOf(value: JsonValue): object {
  if (value === null) return { nullValue: 'NULL_VALUE' }
  if (typeof value === 'number') return { numberValue: value }
  if (typeof value === 'string') return { stringValue: value }
  if (typeof value === 'boolean') return { boolValue: value }
  if (Array.isArray(value)) return { listValue: { values: value.map(valueOf) } }
  return { structValue: structOf(value as Readonly<Record<string, JsonValue>>) }
}

describe('a response', () => {
  test('is written as the bytes that Envoy expects', () => {
    const bytes = encodeRateLimitResponse({
      overallCode: 'ok',
      statuses: [
        {
          code: 'ok',
          currentLimit: { requestsPerUnit: 50, unit: 'second', name: '' },
          limitRemaining: 49,
          resetSeconds: 1,
        },
      ],
      responseHeaders: [],
      requestHeaders: [],
      rawBody: '',
      dynamicMetadata: undefined,
    })
    const golden = '08 01 12 0e 08 01 12 04 08 32 10 01 18 31 22 02 08 01'
    expect(bytes).toEqual(bytesOf(golden))
  })

  test('is read by the official codec as it was written', () => {
    const check = (sent: RateLimitResponse) => {
      const official = RESPONSE.decode(RESPONSE.encode(officialResponse(sent)))
      expect(RESPONSE.decode(encodeRateLimitResponse(sent))).toEqual(official)
    }
    fc.assert(fc.property(response, check), { numRuns: propertyRuns(1000) })
  })

  test('has at most 2^32 - 1 in its numbers', () => {
    const limit = { requestsPerUnit: 2 ** 40, unit: 'day', name: 'n' } as const
    const status = { code: 'ok', currentLimit: limit, limitRemaining: 2 ** 33 } as const
    const bytes = encodeRateLimitResponse({
      overallCode: 'ok',
      statuses: [{ ...status, resetSeconds: undefined }],
      responseHeaders: [],
      requestHeaders: [],
      rawBody: '',
      dynamicMetadata: undefined,
    })
    expect(RESPONSE.decode(bytes)).toMatchObject({
      statuses: [{ current_limit: { requests_per_unit: UINT32_MAX }, limit_remaining: UINT32_MAX }],
    })
  })

  test('never has a raw value of a header', () => {
    expect(officialHeader(['content-type', 'application/problem+json'])).toEqual({
      key: 'content-type',
      value: 'application/problem+json',
      raw_value: Buffer.alloc(0),
    })
  })

  test('after one that could not be written is not damaged by it', () => {
    const loop: Record<string, JsonValue> = {}
    loop['loop'] = loop
    const empty = { statuses: [], responseHeaders: [], requestHeaders: [], rawBody: '' }
    expect(() =>
      encodeRateLimitResponse({ ...empty, overallCode: 'ok', dynamicMetadata: loop }),
    ).toThrow(RangeError)
    const next = { ...empty, overallCode: 'over-limit', dynamicMetadata: undefined } as const
    expect(encodeRateLimitResponse(next)).toEqual(bytesOf('08 02'))
  })
})

function officialHeader(responseHeaders: readonly string[]): object | undefined {
  const bytes = encodeRateLimitResponse({
    overallCode: 'ok',
    statuses: [],
    responseHeaders,
    requestHeaders: [],
    rawBody: '',
    dynamicMetadata: undefined,
  })
  const { response_headers_to_add: list } = RESPONSE.decode(bytes) as {
    readonly response_headers_to_add: readonly object[]
  }
  return list[0]
}
