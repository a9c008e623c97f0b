import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { propertyRuns } from '../../../../tools/property-runs.js'
import { block, type Field, integer } from '../conversation.test-helper.js'
import { ConnectionError } from '../errors.js'
import { BLOCK_BYTES_MAX, HpackDecoder, staticEntries, TABLE_BYTES_MAX } from './decoder.js'
import { FieldNames, Role } from './field-names.js'

const METADATA = ['custom-key', 'cache-control', 'x-a', 'x-b', 'x-c', 'location', 'set-cookie']

function createDecoder(): HpackDecoder {
  const names = new FieldNames(METADATA)
  return new HpackDecoder(names, staticEntries(names))
}

interface Found {
  readonly role: number
  readonly value: string
  readonly bytes: number
}

function decode(decoder: HpackDecoder, bytes: Buffer): readonly Found[] {
  const found: Found[] = []
  decoder.decode(bytes, 0, bytes.length, {
    onField: (role, value, size) => found.push({ role, value, bytes: size }),
  })
  return found
}

const hex = (text: string) => Buffer.from(text.replaceAll(/\s/g, ''), 'hex')
const roleOf = (name: string) => Role.metadata + METADATA.indexOf(name)

/** The examples of RFC 7541, appendix C: each one a connection with three blocks. */
const REQUESTS = {
  'without Huffman code': [
    '8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d',
    '8286 84be 5808 6e6f 2d63 6163 6865',
    '8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65',
  ],
  'with Huffman code': [
    '8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff',
    '8286 84be 5886 a8eb 1064 9cbf',
    '8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf',
  ],
}
const RESPONSES = {
  'without Huffman code': [
    '4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d',
    '4803 3330 37c1 c0bf',
    '88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31',
  ],
  'with Huffman code': [
    '4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3',
    '4883 640e ffc1 c0bf',
    '88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07',
  ],
}

describe.each(Object.entries(REQUESTS))('the requests of RFC 7541 %s', (_kind, blocks) => {
  test('are read, with the sizes of the table', () => {
    const decoder = createDecoder()
    const [first, second, third] = blocks.map((text) => {
      const fields = decode(decoder, hex(text)).map(({ role, value }) => [role, value])
      return { fields, table: decoder.tableBytes }
    })
    expect(first).toEqual({
      fields: [
        [Role.method, 'GET'],
        [Role.scheme, 'http'],
        [Role.path, '/'],
        [Role.authority, ''],
      ],
      table: 57,
    })
    expect(second?.fields.at(-1)).toEqual([roleOf('cache-control'), 'no-cache'])
    expect(second?.table).toBe(110)
    expect(third?.fields.at(-1)).toEqual([roleOf('custom-key'), 'custom-value'])
    expect(third?.table).toBe(164)
  })
})

describe.each(Object.entries(RESPONSES))('the responses of RFC 7541 %s', (_kind, blocks) => {
  test('are read with a table of 256 bytes, from which entries are removed', () => {
    const decoder = createDecoder()
    decode(decoder, hex('3fe1 01'))
    const [first, second, third] = blocks.map((text) => {
      const fields = decode(decoder, hex(text)).map(({ role, value }) => [role, value])
      return { fields, table: decoder.tableBytes }
    })
    expect(first?.table).toBe(222)
    expect(second?.table).toBe(222)
    expect(third?.table).toBe(215)
    const location = [roleOf('location'), 'https://www.example.com']
    expect(first?.fields.at(-1)).toEqual(location)
    expect(second?.fields.at(-1)).toEqual(location)
    expect(third?.fields.at(-1)).toEqual([
      roleOf('set-cookie'),
      'foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1',
    ])
  })
})

describe('a block that breaks RFC 7541', () => {
  test.each([
    ['the index 0', '80'],
    ['an index after the static table, while the other is empty', 'be'],
    ['an index of a name that no table has', '7f 01 00'],
    ['an index that is not complete', 'ff'],
    ['a number of more than 24 bits', 'ff ff ff ff ff 7f'],
    ['a number that has no end', 'ff 80 80 80 80 80 80 80 80'],
    ['a string that exceeds the block', '00 05 61 62'],
    ['a name without a value', '00 01 61'],
    ['a literal without a name', '00'],
    ['a string that is no Huffman code', '00 81 1e 00'],
    ['a table larger than the setting', '3f e2 1f'],
    ['a change of the table size after a field', '82 20'],
  ])('ends the connection: %s', (_what, text) => {
    const error = catchError(() => decode(createDecoder(), hex(text)))
    expect(error).toMatchObject({ name: 'ConnectionError', code: 9 })
  })
})

function catchError(run: () => unknown): unknown {
  try {
    return run()
  } catch (error) {
    return error
  }
}

test('two changes of the table size may begin a block: the least one, and the last one', () => {
  const decoder = createDecoder()
  decode(decoder, block([['x-a', '1']], 'indexed'))
  expect(decoder.tableBytes).toBe(36)
  const resized = Buffer.concat([hex('20'), integer(0x20, 31, TABLE_BYTES_MAX), hex('82')])
  expect(decode(decoder, resized)).toHaveLength(1)
  expect(decoder.tableBytes).toBe(0)
})

test('an entry larger than the table empties it', () => {
  const decoder = createDecoder()
  decode(decoder, block([['x-a', '1']], 'indexed'))
  const [found] = decode(decoder, block([['x-b', 'b'.repeat(5_000)]], 'indexed'))
  expect(found?.value).toHaveLength(5_000)
  expect(decoder.tableBytes).toBe(0)
})

test('values that nothing reads are measured, and no text is made of them', () => {
  const [found] = decode(createDecoder(), block([['authorization', 'secret']]))
  expect(found).toEqual({ role: Role.other, value: '', bytes: 13 + 6 + 32 })
})

test('names and values with bytes that they may not have are malformed', () => {
  const roles = (name: string, value: string) =>
    decode(createDecoder(), block([[name, value]])).map(({ role }) => role)
  for (const name of ['X-a', '', 'a b', 'a\r', 'ä', 'a:b']) expect(roles(name, '')).toEqual([11])
  for (const value of ['a\nb', 'a\r', '\0']) expect(roles('x-a', value)).toEqual([11])
  expect(roles('x-a', 'tab\t and ÿ')).toEqual([roleOf('x-a')])
})

/** An encoder with a table of its own, which chooses freely between all forms of a field. */
class ModelEncoder {
  #table: Field[] = []
  #max = TABLE_BYTES_MAX

  resize(max: number): Buffer {
    this.#max = max
    this.evict(0)
    return integer(0x20, 31, max)
  }

  field(field: Field, form: 'indexed' | 'plain' | 'never'): Buffer {
    const known = this.#table.findIndex(([name, value]) => name === field[0] && value === field[1])
    if (known !== -1) return integer(0x80, 127, 62 + known)
    const [bits, mask] = { indexed: [0x40, 63], plain: [0, 15], never: [0x10, 15] }[form] as [
      number,
      number,
    ]
    const named = this.#table.findIndex(([name]) => name === field[0])
    const name =
      named === -1
        ? Buffer.concat([integer(bits, mask, 0), this.text(field[0])])
        : integer(bits, mask, 62 + named)
    if (form === 'indexed') this.insert(field)
    return Buffer.concat([name, this.text(field[1])])
  }

  private text(value: string): Buffer {
    return Buffer.concat([integer(0, 127, value.length), Buffer.from(value, 'latin1')])
  }

  private insert(field: Field): void {
    const size = field[0].length + field[1].length + 32
    this.evict(size)
    if (size <= this.#max) this.#table.unshift(field)
  }

  private evict(room: number): void {
    const bytes = () =>
      this.#table.reduce((sum, [name, value]) => sum + name.length + value.length + 32, 0)
    while (this.#table.length > 0 && bytes() + room > this.#max) this.#table.pop()
  }
}

const step = fc.record({
  name: fc.constantFrom('x-a', 'x-b', 'x-c', 'unread'),
  value: fc.oneof(fc.constantFrom('', '1', '2'), fc.stringMatching(/^[ -~]{0,60}$/)),
  form: fc.constantFrom('indexed' as const, 'plain' as const, 'never' as const),
})
const blocks = fc.array(
  fc.record({
    resize: fc.option(fc.integer({ min: 0, max: 300 }), { nil: undefined }),
    steps: fc.array(step, { maxLength: 20 }),
  }),
  { maxLength: 12 },
)

test('what an encoder with a table writes is read, in any form and with any table size', () => {
  fc.assert(
    fc.property(blocks, (list) => {
      const [encoder, decoder] = [new ModelEncoder(), createDecoder()]
      for (const { resize, steps } of list) {
        const size = resize === undefined ? Buffer.alloc(0) : encoder.resize(resize)
        const fields = steps.map(({ name, value, form }) => encoder.field([name, value], form))
        const found = decode(decoder, Buffer.concat([size, ...fields]))
        expect(found.map(({ value }) => value)).toEqual(
          steps.map(({ name, value }) => (name === 'unread' ? '' : value)),
        )
      }
    }),
    { numRuns: propertyRuns(1_000) },
  )
})

test('no bytes make the decoder throw anything but a ConnectionError, or its table too large', () => {
  const seeds = [...Object.values(REQUESTS), ...Object.values(RESPONSES)].flat().map(hex)
  const mutated = fc
    .tuple(fc.constantFrom(...seeds), fc.array(fc.tuple(fc.nat(80), fc.nat(255)), { maxLength: 6 }))
    .map(([seed, changes]) => {
      const bytes = Buffer.from(seed)
      for (const [at, byte] of changes) bytes[at % bytes.length] = byte
      return bytes
    })
  const random = fc.uint8Array({ maxLength: 80 }).map((bytes) => Buffer.from(bytes))
  fc.assert(
    fc.property(fc.array(fc.oneof(mutated, random), { maxLength: 8 }), (list) => {
      const decoder = createDecoder()
      for (const bytes of list) {
        const error = catchError(() => decode(decoder, bytes))
        if (error instanceof Error && !(error instanceof ConnectionError)) throw error
        expect(decoder.tableBytes).toBeLessThanOrEqual(TABLE_BYTES_MAX)
        expect(decoder.tableBytes).toBeGreaterThanOrEqual(0)
        if (error instanceof ConnectionError) return
      }
    }),
    { numRuns: propertyRuns(20_000) },
  )
})

test('the longest block of Huffman code fits the buffer that it is decoded into', () => {
  // "a" has five bits: eight of them in five bytes.
  const code = Buffer.from('18c6318c63', 'hex')
  const bytes = Math.floor((BLOCK_BYTES_MAX - 8) / 5) * 5
  const string = Buffer.concat([integer(0x80, 127, bytes), Buffer.alloc(bytes, code)])
  const [found] = decode(
    createDecoder(),
    Buffer.concat([block([['x-a', '']]).subarray(0, 5), string]),
  )
  expect(found?.value).toBe('a'.repeat((bytes / 5) * 8))
})
