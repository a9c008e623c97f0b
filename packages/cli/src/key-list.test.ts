import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readCsvLine } from './csv.js'
import { readKeyList } from './key-list.js'

const SHA = 'ab'.repeat(32)
const OTHER = 'cd'.repeat(32)

describe('a line of CSV', () => {
  test.each([
    ['a,b', ['a', 'b']],
    ['a,', ['a', '']],
    [',', ['', '']],
    ['"a,b", c', ['a,b', 'c']],
    ['"a,b",c', ['a,b', 'c']],
    ['"a ""b""",', ['a "b"', '']],
    ['""', ['']],
    ['"a', undefined],
    ['a"b', undefined],
    [' a , b ', ['a', 'b']],
  ])('is parsed into its fields: %j', (line, fields) => {
    expect(readCsvLine(line)).toEqual(fields)
  })

  test('keeps quoted values unchanged', () => {
    const field = fc.string().filter((text) => !/[\r\n]/.test(text))
    fc.assert(
      fc.property(fc.array(field, { minLength: 1 }), (fields) => {
        const line = fields.map((text) => `"${text.replaceAll('"', '""')}"`).join(',')
        expect(readCsvLine(line)).toEqual(fields)
      }),
    )
  })
})

describe('a list of keys', () => {
  test('may be CSV with a head line, in any order, without empty cells', () => {
    const text = `\ufeffPlan,sha256,user\r\npro,${SHA},acme\r\n\r\n,${OTHER},\r\n`
    expect(readKeyList(text, 'k.csv')).toEqual({
      keys: [
        { line: 2, key: { plan: 'pro', sha256: SHA, user: 'acme' } },
        { line: 4, key: { sha256: OTHER } },
      ],
      problems: [],
    })
  })

  test('may be JSON lines', () => {
    const text = `{"key":"sk_0123456789abcd","user":"u"}\n{"sha256":"${SHA}","state":"disabled"}\n`
    expect(readKeyList(text, 'k').keys.map(({ key }) => key)).toEqual([
      { key: 'sk_0123456789abcd', user: 'u' },
      { sha256: SHA, state: 'disabled' },
    ])
  })

  test.each([
    ['user,plan\na,b', 'k:1: found a first line without names'],
    ['sk_live_secret,acme', 'k:1: found a first line without names'],
    ['key,key\na,b', 'k:1: found a first line without names'],
    ['key,user\na', 'k:2: found 1 fields; accepted: 2'],
    ['key,user\n"a,b', 'k:2: found a quote'],
    ['key,sha256\nsk_secret,x', 'k:2: found neither or both'],
    ['key,state\nsk_secret_0123456789,off', 'k:2: state: found "off"'],
    ['{"key":1}', 'k:1: found a value that is no text'],
    ['{"kye":"sk_secret"}', 'k:1: found "kye"'],
    ['{"key":"sk_secret"', 'k:1: found no JSON'],
    [`key\n${'x'.repeat(513)}`, 'k:2: key: found 513 characters, not shown; accepted: 16 to 512'],
    ['key\nsk_secret', 'k:2: key: found 9 characters, not shown'],
    ['{"key":""}', 'k:1: key: found 0 characters'],
    [`sha256,name\n${SHA},${'x'.repeat(129)}`, 'k:2: name: accepted: 1 to 128'],
    [`{"sha256":"${SHA}"}\n[]`, 'k:2: found no object'],
    [`sha256\n${OTHER}\n${SHA}\n${SHA.toUpperCase()}`, 'k:4: found the key of line 3 again'],
    ['', 'k:1: found nothing'],
    ['\n\n', 'k:1: found nothing'],
  ])('reports %j by its line, without any key', (text, message) => {
    const { problems } = readKeyList(text, 'k')
    expect(problems[0]).toContain(message)
    expect(problems.join('')).not.toContain('secret')
  })
})
