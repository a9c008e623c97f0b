import { describe, expect, test } from 'vitest'
import {
  bodyKindOf,
  readBytes,
  readIfMatch,
  readJson,
  readQuery,
  readText,
} from './read-request.js'

describe('If-Match', () => {
  test.each([
    [undefined, undefined],
    ['*', 'any'],
    ['"12"', 12],
    ['W/"12"', 12],
    ['12', 12],
    [' "0" ', 0],
  ])('%s is read as %s', (header, seen) => expect(readIfMatch(header)).toBe(seen))

  test.each(['', '"x"', '"1", "2"', '-1', '"1', '1e3', '"99999999999999999"'])(
    '%s is refused',
    (header) => expect(() => readIfMatch(header)).toThrow('accepted: one version such as "12"'),
  )
})

describe('queries', () => {
  const read = (text: string) => readQuery(new URLSearchParams(text), ['after', 'limit'])

  test('have each parameter read once', () => {
    expect(read('after=a%2Fb&limit=5')).toEqual({ after: 'a/b', limit: '5' })
  })

  test('with an unknown parameter are refused with the nearest known one', () => {
    expect(() => read('limt=5')).toThrow(
      'query: found unknown parameter "limt", did you mean "limit"?; accepted: after, limit',
    )
  })

  test('with a repeated parameter are refused', () => {
    expect(() => read('limit=5&limit=6')).toThrow('query.limit: found it twice')
  })

  test('treat __proto__ as an ordinary name', () => {
    expect(() => read('__proto__=x')).toThrow('unknown parameter "__proto__"')
  })
})

describe('content types', () => {
  test.each([
    ['application/json', 'json'],
    ['Application/JSON; charset=utf-8', 'json'],
    ['application/yaml', 'yaml'],
    ['text/yaml', 'yaml'],
    ['application/x-yaml', 'yaml'],
    [undefined, 'json'],
    ['application/x-www-form-urlencoded', 'json'],
  ])('%s is read as %s', (type, kind) => expect(bodyKindOf(type, ['json', 'yaml'])).toBe(kind))

  test('other than the accepted ones are refused, and the error lists those', () => {
    expect(() => bodyKindOf('text/plain', ['json'])).toThrow(
      'Content-Type text/plain is not supported. Send application/json',
    )
  })
})

describe('body bytes', () => {
  const streamOf = (...pieces: readonly string[]) => new Blob([...pieces]).stream()
  const inPieces = (count: number) => {
    let left = count
    return new ReadableStream<Uint8Array>({
      pull(controller) {
        if (left-- > 0) controller.enqueue(Uint8Array.of(120))
        else controller.close()
      },
    })
  }

  test('are read whole up to the bound', async () => {
    expect(String(await readBytes(streamOf('ab', 'cd'), undefined, 4))).toBe('abcd')
    expect(String(await readBytes(inPieces(1000), undefined, 1000))).toBe('x'.repeat(1000))
    expect(String(await readBytes(null, undefined, 4))).toBe('')
  })

  test('are refused beyond it, by their declared or their actual length', async () => {
    await expect(readBytes(streamOf('a'), '5', 4)).rejects.toThrow('The body exceeds 4 bytes')
    await expect(readBytes(streamOf('abcde'), undefined, 4)).rejects.toThrow(
      'The body exceeds 4 bytes',
    )
    await expect(readBytes(inPieces(5), undefined, 4)).rejects.toThrow('The body exceeds 4 bytes')
  })
})

describe('a JSON body', () => {
  const read = (text: string) => readJson(Buffer.from(text))

  test('is parsed with __proto__ as an ordinary name', () => {
    const value = read('{"__proto__":{"polluted":true},"a":[1]}') as object
    expect(Object.keys(value)).toEqual(['__proto__', 'a'])
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined()
  })

  test('is refused beyond 32 levels, whatever its length', () => {
    expect(read('['.repeat(32) + ']'.repeat(32))).toBeDefined()
    expect(() => read('['.repeat(33) + ']'.repeat(33))).toThrow('more than 32 levels')
    expect(() => read('[{"a":'.repeat(1_000_000))).toThrow('more than 32 levels')
  })

  test('may have brackets in texts, which are no levels', () => {
    expect(read(JSON.stringify(`\\"${'['.repeat(100)}"`))).toHaveLength(103)
  })

  test.each([
    ['', 'found nothing'],
    ['  ', 'found nothing'],
    ['{"a":1', 'found no JSON'],
    ['id: x', 'found no JSON'],
  ])('is refused if it is %j', (text, found) => expect(() => read(text)).toThrow(found))

  test('is refused if it is not UTF-8', () => {
    expect(() => readText(Buffer.from([0x22, 0xff, 0x22]))).toThrow('not UTF-8')
  })
})
