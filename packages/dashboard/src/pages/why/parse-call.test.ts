import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseCall, attributesText } from './parse-call.js'
import { shellWords } from './shell-words.js'

const read = (text: string) => parseCall(text).attributes

describe('attributes as lines', () => {
  test('names and values may have spaces, comments and quotes', () => {
    expect(
      read('# who\nuser=u1\n ip = 203.0.113.7 \n\npath=/v1/orders?x=1\nua="Mozilla 5"'),
    ).toEqual({
      user: 'u1',
      ip: '203.0.113.7',
      path: '/v1/orders?x=1',
      ua: 'Mozilla 5',
    })
  })

  test('several attributes may be in one line, as on the command line', () => {
    expect(read('user=u1 method=GET path=/v1/a')).toEqual({
      user: 'u1',
      method: 'GET',
      path: '/v1/a',
    })
    expect(read('agent=a b c user=u1')).toEqual({ agent: 'a b c', user: 'u1' })
  })

  test('a colon separates too, and an empty value is absent', () => {
    expect(read('user: u1\nip: 2001:db8::1\nplan=')).toEqual({ user: 'u1', ip: '2001:db8::1' })
  })

  test('an invalid name is reported', () => {
    expect(parseCall('Us er').problem).toMatch(/"Us er"/)
    expect(parseCall('User=u1').problem).toMatch(/"User"/)
    expect(parseCall('user').problem).toMatch(/"user"/)
  })
})

describe('a JSON object', () => {
  test('an object is attributes, or a call with a cost', () => {
    expect(read('{"user":"u1","port":80,"beta":true,"plan":null}')).toEqual({
      user: 'u1',
      port: '80',
      beta: 'true',
    })
    expect(parseCall('{"attributes":{"user":"u1"},"cost":3}')).toEqual({
      attributes: { user: 'u1' },
      cost: 3,
      notes: [],
    })
  })

  test('invalid JSON is reported', () => {
    expect(parseCall('{"user": "u1"').problem).toMatch(/^Invalid JSON/)
    expect(parseCall('{"user": ["u1"]}').problem).toMatch(/^user: lists and objects/)
    const many = Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`a${i}`, 'x']))
    expect(parseCall(JSON.stringify(many)).problem).toMatch(/65 attributes/)
  })
})

describe('a log line', () => {
  const line = {
    level: 'info',
    rule: 'login',
    limit: 'x',
    way: 'gateway',
    method: 'POST',
    path: '/l',
  }

  test('a log line with a hash gives method and path, and a note about the hash', () => {
    const call = parseCall(JSON.stringify({ ...line, caller: 'e7dn3k' }))
    expect(call.attributes).toEqual({ method: 'POST', path: '/l' })
    expect(call.notes[0]).toMatch(/hash, e7dn3k.*cannot be turned back/)
  })

  test('a log line with a caller in clear gives all attributes', () => {
    const call = parseCall(JSON.stringify({ ...line, caller: { ip: '203.0.113.7' } }))
    expect(call).toEqual({
      attributes: { ip: '203.0.113.7', method: 'POST', path: '/l' },
      notes: [],
    })
  })
})

describe('a curl command', () => {
  test('a curl command gives method, path and key', () => {
    const text = `curl -sS -X delete 'https://api.example/v1/orders/7?x=1' \\\n  -H 'X-Api-Key: k_1' -H "X-Forwarded-For: 1.1.1.1, 203.0.113.7"`
    expect(read(text)).toEqual({
      method: 'DELETE',
      path: '/v1/orders/7',
      api_key: 'k_1',
      ip: '203.0.113.7',
    })
  })

  test('a curl command with data is a POST, with notes about what is missing', () => {
    const call = parseCall(
      `$ curl api.example/v1/login -d '{"a":1}' -H 'Authorization: Bearer x' -o out`,
    )
    expect(call.attributes).toEqual({ method: 'POST', path: '/v1/login' })
    expect(call.notes.join(' ')).toMatch(/token.*address/)
  })

  test('a curl command to the decision API has the attributes in its body', () => {
    const text = `curl http://127.0.0.1:8081/v1/check -d '{"attributes":{"user":"u1"},"cost":2}'`
    expect(parseCall(text)).toMatchObject({ attributes: { user: 'u1' }, cost: 2 })
  })

  test('a curl command without a URL is reported', () => {
    expect(parseCall('curl -v').problem).toMatch(/has no URL/)
    expect(parseCall('curl http://[').problem).toMatch(/is not a URL/)
  })

  test('words are split as by a shell', () => {
    expect(shellWords(`a 'b c' "d \\"e\\"" f\\ g $'h\\n' ''`)).toEqual([
      'a',
      'b c',
      'd "e"',
      'f g',
      'h\n',
      '',
    ])
    expect(shellWords('a\\\n b')).toEqual(['a', 'b'])
  })
})

const name = fc.stringMatching(/^[a-z][a-z0-9_.-]{0,10}$/)
const value = fc.stringMatching(/^[!-~ ]{1,30}$/).filter((each) => !/["']/.test(each))

test('attributes written as text are parsed back unchanged', () => {
  fc.assert(
    fc.property(fc.dictionary(name, value, { maxKeys: 6 }), (attributes) => {
      const kept = Object.fromEntries(
        Object.entries(attributes).filter(([, each]) => each.trim() !== ''),
      )
      expect(read(attributesText(kept))).toEqual(kept)
    }),
  )
})

test('no input throws, and every attribute has a valid name', () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 200 }), (text) => {
      for (const given of [text, `{${text}`, `curl ${text}`]) {
        for (const each of Object.keys(read(given)))
          expect(each).toMatch(/^[a-z][a-z0-9_.-]{0,63}$/)
      }
    }),
  )
})
