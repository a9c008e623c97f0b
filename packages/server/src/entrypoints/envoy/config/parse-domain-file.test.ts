/** Files that nobody writes by hand, and what a file may have without harm. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { propertyRuns } from '../../../../../../tools/property-runs.js'
import { parseDomainFile } from './parse-domain-file.js'

function messagesOf(text: string): readonly string[] {
  return parseDomainFile(text, { file: 'f' }).errors.map(({ message }) => message)
}

function parse(text: string) {
  const { config, errors } = parseDomainFile(text, { file: 'f' })
  expect(errors).toEqual([])
  if (config === undefined) throw new Error('there is no configuration')
  return config
}

describe('large files', () => {
  test('a file of more than 16 MiB is refused, even one of spaces', () => {
    expect(messagesOf(' '.repeat(16 * 1024 * 1024 + 1))).toEqual([
      'f:1:1: document: too large: 16777217 characters. Accepted: up to 16777216 characters',
    ])
  })

  test('more than a thousand patterns in one list are refused', () => {
    const lines = Array.from({ length: 1001 }, (_, index) => `  - { key: k, value: "${index}*" }`)
    expect(messagesOf(`domain: d\ndescriptors:\n${lines.join('\n')}`)).toEqual([
      'f:3:3: descriptors: too many: 1001 descriptors with *. Accepted: up to 1000 in a list',
    ])
  })

  test('a hundred thousand mistakes are a hundred messages and their number', () => {
    const messages = messagesOf(`domain: d\ndescriptors: [${'{},'.repeat(50_000)}]`)
    expect(messages).toHaveLength(101)
    expect(messages.at(-1)).toContain('49900 more problems')
  })

  test('thirty-two levels of descriptors with limits are read', () => {
    const open =
      '[{ key: k, rate_limit: { unlimited: true, replaces: [{ name: n }] }, descriptors: '
    const text = `domain: d\ndescriptors: ${open.repeat(32)}[]${'}]'.repeat(32)}`
    expect(parse(text).descriptors).toHaveLength(1)
    expect(
      messagesOf(`domain: d\ndescriptors: ${open.repeat(34)}[]${'}]'.repeat(34)}`)[0],
    ).toContain('nested too deeply')
  })
})

describe('values as YAML 1.1 has them', () => {
  const valueOf = (text: string) =>
    parse(`domain: d\ndescriptors:\n  - { key: k, value: ${text} }`).descriptors[0]?.value

  test.each([
    ['True', 'True'],
    ['FALSE', 'FALSE'],
    ['yes', 'yes'],
    ['007', '007'],
    ['-5', '-5'],
    ['0x1F', '0x1F'],
    ['1_000', '1_000'],
    ['&a True', 'True'],
    ['"true"', 'true'],
    ['2026-01-01', '2026-01-01'],
  ])('the value %s is the text %s', (written, text) => {
    expect(valueOf(written)).toBe(text)
  })

  test.each(['', '~', 'null', '""'])('the value %s is none', (written) => {
    expect(valueOf(written)).toBeUndefined()
  })

  test.each([
    ['true', true],
    ['Yes', true],
    ['on', true],
    ['y', true],
    ['FALSE', false],
    ['no', false],
    ['Off', false],
    ['', false],
  ])('shadow_mode: %s is %s', (written, isShadow) => {
    const text = `domain: d\ndescriptors:\n  - { key: k, shadow_mode: ${written} }`
    expect(parse(text).descriptors[0]?.isShadow).toBe(isShadow)
  })

  test('the number 1_000 is a thousand, and the largest is that of 32 bits', () => {
    const limitOf = (number: string) =>
      parse(
        `domain: d\ndescriptors:\n  - { key: k, rate_limit: { unit: day, requests_per_unit: ${number} } }`,
      ).descriptors[0]?.limit?.requestsPerUnit
    expect(limitOf('1_000')).toBe(1000)
    expect(limitOf('4294967295')).toBe(4_294_967_295)
  })

  test('a merged map has the fields of all its bases, its own first', () => {
    const text = `
domain: d
descriptors:
  - key: a
    rate_limit: &day { unit: day, requests_per_unit: 5 }
  - key: b
    rate_limit: &named { name: n, unit: hour }
  - key: c
    rate_limit:
      <<: [*named, *day]
      name: own`.replace('unit: hour }', 'unit: hour, requests_per_unit: 1 }')
    expect(parse(text).descriptors[2]?.limit).toEqual({
      unit: 'hour',
      requestsPerUnit: 1,
      isUnlimited: false,
      name: 'own',
      replaces: [],
    })
  })

  test('a byte order mark and Windows line ends are accepted', () => {
    expect(parse('\ufeffdomain: d\r\ndescriptors:\r\n  - key: k\r\n').descriptors).toHaveLength(1)
  })
})

test('the name __proto__ is a name like any other', () => {
  const text = 'domain: __proto__\ndescriptors:\n  - { key: __proto__, metadata: { __proto__: 1 } }'
  const { domain, descriptors } = parse(text)
  expect(domain).toBe('__proto__')
  expect(JSON.stringify(descriptors[0]?.metadata)).toBe('{"__proto__":1}')
  expect(messagesOf('domain: d\n__proto__: x')[0]).toContain('unknown key "__proto__"')
})

test('a message cannot contain a line of somebody else', () => {
  const messages = messagesOf('domain: d\n"x\\n2026 admin: ok": 1\ndescriptors: "a\\u001b[2J"')
  for (const message of messages) expect(message).not.toMatch(/\p{Cc}/u)
})

test('no text throws, and without an error there is a configuration', () => {
  // Pieces of YAML, split by spaces; those with spaces follow.
  const pieces =
    'domain descriptors key value rate_limit unit minute << * &a *a : - { } [ ] , " 1 1.5 true ~ # | >' +
    ' metadata replaces -1'
  const word = fc.constantFrom(
    ...pieces.split(' '),
    ': ',
    '- ',
    '? ',
    '\n',
    '\n  ',
    '\n    ',
    '\t',
    '\0',
  )
  fc.assert(
    fc.property(fc.array(word, { maxLength: 40 }), (words) => {
      const text = words.join('')
      const { config, errors } = parseDomainFile(text, { file: 'f' })
      expect(config === undefined).toBe(errors.length > 0)
    }),
    { numRuns: propertyRuns(3000) },
  )
})
