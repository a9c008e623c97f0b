import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseCall, attributesText } from './parse-call.js'
import { shellWords } from './shell-words.js'

const read = (text: string) => parseCall(text).attributes

describe('attributes line by line', () => {
  test('are names and values, with blanks, comments and quotes', () => {
    expect(
      read('# who\nuser=u1\n ip = 203.0.113.7 \n\npath=/v1/orders?x=1\nua="Mozilla 5"'),
    ).toEqual({
      user: 'u1',
      ip: '203.0.113.7',
      path: '/v1/orders?x=1',
      ua: 'Mozilla 5',
    })
  })

  test('may stand in one line, as the command line takes them', () => {
    expect(read('user=u1 method=GET path=/v1/a')).toEqual({
      user: 'u1',
      method: 'GET',
      path: '/v1/a',
    })
    expect(read('agent=a b c user=u1')).toEqual({ agent: 'a b c', user: 'u1' })
  })

  test('may have a colon; what is empty is absent', () => {
    expect(read('user: u1\nip: 2001:db8::1\nplan=')).toEqual({ user: 'u1', ip: '2001:db8::1' })
  })

  test('a name that is none is told with what was found', () => {
    expect(parseCall('Us er').problem).toMatch(/"Us er"/)
    expect(parseCall('User=u1').problem).toMatch(/"User"/)
    expect(parseCall('user').problem).toMatch(/"user"/)
  })
})

describe('a JSON object', () => {
  test('is attributes, or a call with a cost', () => {
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

  test('says what is wrong with it', () => {
    expect(parseCall('{"user": "u1"').problem).toMatch(/begins like JSON/)
    expect(parseCall('{"user": ["u1"]}').problem).toMatch(/^user: found a list/)
    const many = Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`a${i}`, 'x']))
    expect(parseCall(JSON.stringify(many)).problem).toMatch(/65 attributes/)
  })
})

describe('a line of our log', () => {
  const line = {
    level: 'info',
    rule: 'login',
    limit: 'x',
    way: 'gateway',
    method: 'POST',
    path: '/l',
  }

  test('with a hash has method and path, and says that a hash cannot be looked up', () => {
    const asked = parseCall(JSON.stringify({ ...line, caller: 'e7dn3k' }))
    expect(asked.attributes).toEqual({ method: 'POST', path: '/l' })
    expect(asked.notes[0]).toMatch(/hash, e7dn3k.*cannot be turned back/)
  })

  test('with a caller in clear has all', () => {
    const asked = parseCall(JSON.stringify({ ...line, caller: { ip: '203.0.113.7' } }))
    expect(asked).toEqual({
      attributes: { ip: '203.0.113.7', method: 'POST', path: '/l' },
      notes: [],
    })
  })
})

describe('a curl command', () => {
  test('has method, path and key', () => {
    const text = `curl -sS -X delete 'https://api.example/v1/orders/7?x=1' \\\n  -H 'X-Api-Key: k_1' -H "X-Forwarded-For: 1.1.1.1, 203.0.113.7"`
    expect(read(text)).toEqual({
      method: 'DELETE',
      path: '/v1/orders/7',
      api_key: 'k_1',
      ip: '203.0.113.7',
    })
  })

  test('with data is a POST; what it cannot say is told', () => {
    const asked = parseCall(
      `$ curl api.example/v1/login -d '{"a":1}' -H 'Authorization: Bearer x' -o out`,
    )
    expect(asked.attributes).toEqual({ method: 'POST', path: '/v1/login' })
    expect(asked.notes.join(' ')).toMatch(/token.*address/)
  })

  test('that asks Sluice has the attributes in its body', () => {
    const text = `curl http://127.0.0.1:8081/v1/check -d '{"attributes":{"user":"u1"},"cost":2}'`
    expect(parseCall(text)).toMatchObject({ attributes: { user: 'u1' }, cost: 2 })
  })

  test('without an address is told', () => {
    expect(parseCall('curl -v').problem).toMatch(/without an address/)
    expect(parseCall('curl http://[').problem).toMatch(/as the address/)
  })

  test('its words are those of a shell', () => {
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

test('what is written into the field is read back', () => {
  fc.assert(
    fc.property(fc.dictionary(name, value, { maxKeys: 6 }), (attributes) => {
      const kept = Object.fromEntries(
        Object.entries(attributes).filter(([, each]) => each.trim() !== ''),
      )
      expect(read(attributesText(kept))).toEqual(kept)
    }),
  )
})

test('nothing that is pasted throws, and no attribute has a bad name', () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 200 }), (text) => {
      for (const given of [text, `{${text}`, `curl ${text}`]) {
        for (const each of Object.keys(read(given)))
          expect(each).toMatch(/^[a-z][a-z0-9_.-]{0,63}$/)
      }
    }),
  )
})
