/** The messages of xDS, held against the official definitions. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { propertyRuns } from '../../../../../../tools/property-runs.js'
import { decodeDiscoveryResponse, encodeDiscoveryRequest } from './discovery-codec.js'
import { officialMessage } from './official-protos.test-helper.js'
import { ProtoError } from './proto-reader.js'
import { createResourceBudget, decodeConfigResource } from './rate-limit-config-codec.js'
import {
  encodeConfig,
  type OfficialConfig,
  type OfficialDescriptor,
  protoStruct,
} from './rate-limit-config.test-helper.js'

const decodeConfig = (bytes: Uint8Array) => decodeConfigResource(bytes, createResourceBudget())

const REQUEST = officialMessage('envoy.service.discovery.v3.DiscoveryRequest')
const RESPONSE = officialMessage('envoy.service.discovery.v3.DiscoveryResponse')

const text = fc
  .string({ unit: 'grapheme', maxLength: 40 })
  .filter((value) => !/\p{Surrogate}/u.test(value))

describe('requests', () => {
  test('the official definition reads what is written', () => {
    const request = fc.record({
      versionInfo: text,
      node: fc.record({ id: text, metadata: fc.dictionary(text, text, { maxKeys: 3 }) }),
      typeUrl: text,
      responseNonce: text,
      problem: fc.option(text, { nil: undefined }),
    })
    fc.assert(
      fc.property(request, (sent) => {
        const { node, problem, ...others } = sent
        const read = REQUEST.decode(encodeDiscoveryRequest(sent))
        expect(read).toMatchObject({
          version_info: others.versionInfo,
          type_url: others.typeUrl,
          response_nonce: others.responseNonce,
          resource_names: [],
          error_detail: problem === undefined ? null : { code: 3, message: problem, details: [] },
          node: { id: node.id, cluster: '', user_agent_name: 'sluice' },
        })
        const { metadata } = (read as { readonly node: { readonly metadata: object | null } }).node
        const fields = Object.entries(node.metadata).map(([key, value]) => [
          key,
          { stringValue: value },
        ])
        expect(metadata).toEqual(
          fields.length === 0 ? null : { fields: Object.fromEntries(fields) },
        )
      }),
      { numRuns: propertyRuns(100) },
    )
  })
})

describe('responses', () => {
  test('what the official definition writes is read', () => {
    const resource = fc.record({ typeUrl: text, value: fc.uint8Array({ maxLength: 50 }) })
    const response = fc.record({
      versionInfo: text,
      typeUrl: text,
      nonce: text,
      resources: fc.array(resource, { maxLength: 4 }),
    })
    fc.assert(
      fc.property(response, (sent) => {
        const resources = sent.resources.map((each) => ({
          type_url: each.typeUrl,
          value: Buffer.from(each.value),
        }))
        const { versionInfo, typeUrl, nonce } = sent
        const message = { version_info: versionInfo, type_url: typeUrl, nonce, resources }
        const read = decodeDiscoveryResponse(
          RESPONSE.encode({ ...message, canary: true, control_plane: { identifier: 'x' } }),
        )
        const values = read.resources.map((each) => ({
          ...each,
          value: Uint8Array.from(each.value),
        }))
        expect({ ...read, resources: values }).toEqual(sent)
      }),
      { numRuns: propertyRuns(100) },
    )
  })

  test('more than ten thousand resources are refused', () => {
    const message = Buffer.alloc(2 * 10_001, Buffer.from([0x12, 0x00]))
    expect(() => decodeDiscoveryResponse(message)).toThrow('more than 10000 resources')
    expect(decodeDiscoveryResponse(message.subarray(2)).resources).toHaveLength(10_000)
  })

  test('no bytes fail in any other way than with a ProtoError', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 80 }), (bytes) => {
        for (const decode of [decodeDiscoveryResponse, decodeConfig]) {
          try {
            decode(bytes)
          } catch (error) {
            expect(error).toBeInstanceOf(ProtoError)
          }
        }
      }),
      { numRuns: propertyRuns(300) },
    )
  })
})

const UNITS = ['UNKNOWN', 'SECOND', 'MINUTE', 'HOUR', 'DAY', 'WEEK', 'MONTH', 'YEAR']
const limit = fc.record({
  unit: fc.constantFrom(...UNITS),
  requests_per_unit: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
  unlimited: fc.boolean(),
  name: text,
  replaces: fc.array(fc.record({ name: text }), { maxLength: 3 }),
})
type Limit = NonNullable<OfficialDescriptor['rate_limit']>

interface Drawn {
  readonly key: string
  readonly value: string
  readonly rate_limit: Limit | undefined
  readonly descriptors: readonly Drawn[]
  readonly shadow_mode: boolean
  readonly detailed_metric: boolean
  readonly quota_mode: boolean
  readonly metadata: object | undefined
}

/** Descriptors of up to so many levels. */
const descriptorOf: fc.Memo<Drawn> = fc.memo((levels) =>
  fc.record({
    key: text,
    value: text,
    rate_limit: fc.option<Limit, undefined>(limit, { nil: undefined }),
    descriptors: levels <= 1 ? fc.constant([]) : fc.array(descriptorOf(), { maxLength: 2 }),
    shadow_mode: fc.boolean(),
    detailed_metric: fc.boolean(),
    quota_mode: fc.boolean(),
    metadata: fc.option(fc.dictionary(text, fc.jsonValue({ maxDepth: 2 }), { maxKeys: 3 }), {
      nil: undefined,
    }),
  }),
)

function officialOf({ rate_limit: drawn, metadata, descriptors, ...others }: Drawn) {
  return {
    ...others,
    descriptors: descriptors.map((each): OfficialDescriptor => officialOf(each)),
    ...(drawn !== undefined && { rate_limit: drawn }),
    ...(metadata !== undefined && { metadata: protoStruct(metadata) }),
  }
}

function readOf({ rate_limit: drawn, ...sent }: Drawn): object {
  return {
    key: sent.key,
    value: sent.value,
    limit: drawn && {
      unit: String(drawn.unit).toLowerCase(),
      requestsPerUnit: drawn.requests_per_unit,
      isUnlimited: drawn.unlimited,
      name: drawn.name,
      replaces: drawn.replaces?.map(({ name }) => name),
    },
    descriptors: sent.descriptors.map(readOf),
    isShadow: sent.shadow_mode,
    detailedMetric: sent.detailed_metric,
    isQuota: sent.quota_mode,
    metadata: sent.metadata,
  }
}

describe('resources', () => {
  test('every field of a written configuration is read', () => {
    const config = fc.record({
      name: text,
      domain: text,
      descriptors: fc.array(descriptorOf(3), { maxLength: 3 }),
    })
    fc.assert(
      fc.property(config, ({ name, domain, descriptors }) => {
        const official: OfficialConfig = { name, domain, descriptors: descriptors.map(officialOf) }
        const read = decodeConfig(encodeConfig(official))
        // As JSON, which has no negative zero and no absent fields.
        const sent = { name, domain, descriptors: descriptors.map(readOf) }
        expect(JSON.parse(JSON.stringify(read))).toEqual(JSON.parse(JSON.stringify(sent)))
      }),
      { numRuns: propertyRuns(100) },
    )
  })

  test('a unit that no definition has is read as its number', () => {
    const [read] = decodeConfig(
      encodeConfig({ descriptors: [{ key: 'k', rate_limit: { unit: 99 } }] }),
    ).descriptors
    expect(read?.limit?.unit).toBe('99')
  })

  test('a limit that is sent in two parts is one limit', () => {
    const part = (fields: OfficialDescriptor) => encodeConfig({ descriptors: [fields] }).subarray(2)
    const parts = [
      part({ rate_limit: { unit: 'DAY', name: 'a' } }),
      part({ rate_limit: { requests_per_unit: 5 } }),
    ]
    const content = Buffer.concat(parts)
    const [read] = decodeConfig(
      Buffer.concat([Buffer.from([0x1a, content.length]), content]),
    ).descriptors
    expect(read?.limit).toMatchObject({ unit: 'day', name: 'a', requestsPerUnit: 5 })
  })

  function nested(levels: number): OfficialDescriptor {
    return levels === 0 ? { key: 'k' } : { key: 'k', descriptors: [nested(levels - 1)] }
  }

  test('thirty-two levels of descriptors are read, and one more is refused', () => {
    const read = (levels: number) =>
      decodeConfig(encodeConfig({ descriptors: [nested(levels - 1)] }))
    expect(read(32).descriptors).toHaveLength(1)
    expect(() => read(33)).toThrow('descriptors have more than 32 levels')
  })

  test('metadata that is nested too deeply is refused', () => {
    let metadata: object = {}
    for (let level = 0; level < 40; level++) metadata = { next: metadata }
    const config = encodeConfig({ descriptors: [{ metadata: protoStruct(metadata) }] })
    expect(() => decodeConfig(config)).toThrow('metadata has more than 32 levels')
  })

  test('more descriptors than a response may have are refused, in one resource or in several', () => {
    const half = Buffer.alloc(2 * 100_000, Buffer.from([0x1a, 0x00]))
    expect(() => decodeConfig(Buffer.concat([half, half, half]))).toThrow(
      'more than 200000 descriptors in a response',
    )
    const budget = createResourceBudget()
    for (let part = 0; part < 2; part++) {
      expect(decodeConfigResource(half, budget).descriptors).toHaveLength(100_000)
    }
    expect(() => decodeConfigResource(half, budget)).toThrow('more than 200000 descriptors')
  })

  /** A descriptor, of which each field of metadata has one value. */
  function metadataInParts(names: readonly string[]): Buffer {
    const field = (number: number, content: Buffer) =>
      Buffer.concat([Buffer.from([number * 8 + 2, content.length]), content])
    const parts = names.map((name) => field(8, field(1, field(1, Buffer.from(name)))))
    const content = Buffer.concat(parts)
    const length = [(content.length & 0x7f) | 0x80, ((content.length >> 7) & 0x7f) | 0x80]
    return Buffer.concat([Buffer.from([0x1a, ...length, content.length >> 14]), content])
  }

  test('metadata that is sent in many parts is one, in which the last value of a name stays', () => {
    const [read] = decodeConfig(metadataInParts(['a', '__proto__', 'b', 'a'])).descriptors
    expect(JSON.stringify(read?.metadata)).toBe('{"a":null,"__proto__":null,"b":null}')
  })

  test('more values of metadata than a response may have are refused', () => {
    const names = Array.from({ length: 100_001 }, (_, index) => `n${index}`)
    expect(() => decodeConfig(metadataInParts(names))).toThrow('too many values in metadata')
    const budget = createResourceBudget()
    const part = metadataInParts(names.slice(0, 60_000))
    expect(
      Object.keys(decodeConfigResource(part, budget).descriptors[0]?.metadata ?? {}),
    ).toHaveLength(60_000)
    expect(() => decodeConfigResource(part, budget)).toThrow('too many values in metadata')
  })
})
