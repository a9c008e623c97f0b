import { connect } from 'node:net'
import { describe, expect, test } from 'vitest'
import { API_TOKEN, closeAfterTests, startApi, type TestApi } from './decision-api.test-helper.js'
import { ARRAY_BYTES_MAX, OBJECT_BYTES_MAX } from './read-body.js'

closeAfterTests()

const ITEM = '{"attributes":{"user":"u1"}}'
const list = (length: number) => `[${Array.from({ length }, () => ITEM).join(',')}]`
const padded = (text: string, bytes: number) => text + ' '.repeat(bytes - text.length)

function head(headers: readonly string[], method = 'POST'): string {
  return [`${method} /v1/check HTTP/1.1`, 'host: x', ...headers, '', ''].join('\r\n')
}

/** Sends chunks one by one, each when the previous one was sent; returns everything received. */
function sendPieces(api: TestApi, pieces: Iterable<string | Buffer>): Promise<string> {
  return new Promise((resolve) => {
    let text = ''
    const left = pieces[Symbol.iterator]()
    const socket = connect(api.port, '127.0.0.1')
    socket.setNoDelay(true)
    const next = () => {
      const { value, done } = left.next()
      if (done !== true && socket.writable) socket.write(value, () => setImmediate(next))
    }
    socket.on('connect', next)
    socket.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')))
    socket.on('error', () => undefined)
    socket.on('close', () => resolve(text))
  })
}

function chunked(pieces: readonly string[]): string[] {
  return [...pieces.map((piece) => `${piece.length.toString(16)}\r\n${piece}\r\n`), '0\r\n\r\n']
}

describe('the size of a body', () => {
  test('may be 64 KB for an object, and not a byte more', async () => {
    const api = await startApi()
    expect((await api.post('/v1/check', padded(ITEM, OBJECT_BYTES_MAX))).status).toBe(200)
    const { status, body, headers } = await api.post(
      '/v1/check',
      padded(ITEM, OBJECT_BYTES_MAX + 1),
    )
    expect(status).toBe(413)
    expect(headers.connection).toBe('close')
    expect(body).toEqual({
      type: 'about:blank',
      title: 'Payload Too Large',
      status: 413,
      detail: 'The body exceeds 65536 bytes, or 262144 for a list.',
      error: 'too_large',
    })
  })

  test('may be 256 KB for a list, and not a byte more', async () => {
    const api = await startApi()
    const good = padded(list(1000), ARRAY_BYTES_MAX)
    expect((await api.post('/v1/check', good)).status).toBe(200)
    expect((await api.post('/v1/check', `\r\n\t ${good.slice(0, -4)}`)).status).toBe(200)
    expect((await api.post('/v1/check', `${good} `)).status).toBe(413)
  })

  test('is bounded like that of an object if it is only spaces', async () => {
    const api = await startApi()
    expect((await api.post('/v1/check', ' '.repeat(OBJECT_BYTES_MAX + 1))).status).toBe(413)
  })

  test('is refused by Content-Length before anything is read', async () => {
    const api = await startApi()
    const answer = await api.raw(head(['content-length: 100000000']) + ITEM)
    expect(answer).toMatch(/^HTTP\/1\.1 413 Payload Too Large\r\n/)
  })

  test('is cut off when it grows to 100 MB without a length', async () => {
    const api = await startApi()
    const piece = Buffer.from(`10000\r\n${' '.repeat(0x10000)}\r\n`)
    function* endless() {
      yield head(['transfer-encoding: chunked'])
      for (let sent = 0; sent < 100 * 1024 * 1024; sent += 0x10000) yield piece
    }
    const answer = await sendPieces(api, endless())
    expect(answer).toMatch(/^HTTP\/1\.1 413 Payload Too Large\r\n/)
    expect(answer.match(/HTTP\/1\.1/g)).toHaveLength(1)
  })

  test('is refused with a close even if the client stops sending', async () => {
    const api = await startApi()
    const most = padded(ITEM, OBJECT_BYTES_MAX + 10)
    const answer = await api.raw(head([`content-length: ${most.length}`]) + most)
    expect(answer).toMatch(/^HTTP\/1\.1 413 .*"error":"too_large"}$/s)
  })
})

describe('the chunks of a body', () => {
  test.each([
    ['one', [ITEM]],
    ['two', [ITEM.slice(0, 5), ITEM.slice(5)]],
    ['single bytes', ITEM.split('')],
    ['two halves of a list', [list(900).slice(0, 100), list(900).slice(100)]],
  ])('are joined: %s', async (_what, pieces) => {
    const api = await startApi()
    const sent = [head(['transfer-encoding: chunked', 'connection: close']), ...chunked(pieces)]
    expect(await sendPieces(api, sent)).toMatch(/^HTTP\/1\.1 200 OK\r\n.*"remaining":1/s)
  })

  test('may cut a character in two', async () => {
    const api = await startApi()
    const bytes = Buffer.from('{"attributes":{"user":"ü"}}')
    const cut = bytes.indexOf(0xc3) + 1
    const length = `content-length: ${bytes.length}`
    const pieces = [
      head([length, 'connection: close']),
      bytes.subarray(0, cut),
      bytes.subarray(cut),
    ]
    expect(await sendPieces(api, pieces)).toMatch(/"remaining":1/)
    const { body } = await api.post('/v1/check', { attributes: { user: 'ü' } })
    expect(body).toMatchObject({ remaining: 0 })
  })

  test('are released when the client disconnects in the middle', async () => {
    const api = await startApi()
    await new Promise<void>((resolve) => {
      const socket = connect(api.port, '127.0.0.1', () => {
        socket.write(`${head(['content-length: 100'])}{"attr`, () => socket.destroy())
      })
      socket.on('close', () => resolve())
    })
    expect((await api.post('/v1/peek', ITEM)).body).toMatchObject({ remaining: 2 })
    expect(api.memoryLog.lines).toEqual([])
  })
})

describe('an invalid body', () => {
  test.each([
    ['', 'body: found nothing; accepted: JSON such as {"attributes":{"user":"u1"}}'],
    [' \n', 'body: found nothing; accepted: JSON such as {"attributes":{"user":"u1"}}'],
    ['{"attributes":{}', 'body: found no JSON: '],
    ['user=u1', 'body: found no JSON: '],
    ['{"attributes":{"cost":NaN}}', 'body: found no JSON: '],
    ['null', 'body: found null; accepted: an object'],
    ['"x"', 'body: found "x"; accepted: an object'],
    ['\u0000\u001b[31m', 'body: found no JSON: '],
    ['['.repeat(60_000), 'body: found no JSON: '],
    [`${'['.repeat(60_000)}${']'.repeat(60_000)}`, '[0]: found a list; accepted: an object'],
    [
      `{"attributes":${'{"a":'.repeat(9000)}1${'}'.repeat(9000)}}`,
      'attributes.a: found an object; ',
    ],
  ])('such as %.20j is refused', async (text, detail) => {
    const api = await startApi()
    const answer = await api.post('/v1/check', text)
    expect(answer.status).toBe(400)
    expect(answer.body).toMatchObject({ error: 'CALL_INVALID' })
    expect((answer.body as { detail: string }).detail).toContain(detail)
    expect(answer.text.length).toBeLessThan(500)
  })

  test.each([
    ['a lone byte', [0xff]],
    ['an overlong slash', [0xc0, 0xaf]],
    ['a surrogate', [0xed, 0xa0, 0x80]],
    ['half a character', [0xe2, 0x82]],
  ])('with %s is refused because it is not UTF-8', async (_what, bytes) => {
    const api = await startApi()
    const [before = '', after = ''] = '{"attributes":{"user":"|"}}'.split('|')
    const sent = Buffer.concat([Buffer.from(before), Buffer.from(bytes), Buffer.from(after)])
    const { status, body } = await api.post('/v1/check', sent)
    expect(status).toBe(400)
    expect(body).toMatchObject({
      detail: 'body: found bytes that are not UTF-8; accepted: JSON in UTF-8',
    })
  })

  test('with 64 KB of names that look like numbers is refused', async () => {
    const api = await startApi()
    const names = Array.from({ length: 6000 }, (_, index) => `"${index}":1`).join()
    const { status, body } = await api.post('/v1/check', `{"attributes":{${names}}}`)
    expect(status).toBe(400)
    expect(body).toMatchObject({ detail: 'attributes: found 6000 names; accepted: up to 64' })
  })

  test('does not end its connection', async () => {
    const api = await startApi()
    const bad = 'x'
    const requests = [bad, ITEM].map((text, index) => {
      const last = index === 1 ? ['connection: close'] : []
      return head([`content-length: ${text.length}`, ...last]) + text
    })
    const answer = await api.raw(requests.join(''))
    expect(answer.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 400', 'HTTP/1.1 200'])
  })
})

describe('the headers of a body', () => {
  test.each(['application/json', 'text/plain', 'application/x-www-form-urlencoded', ''])(
    'content type %j is accepted',
    async (type) => {
      const api = await startApi()
      const answer = await api.post('/v1/check', ITEM, { headers: { 'content-type': type } })
      expect(answer.status).toBe(200)
    },
  )

  test.each([
    ['gzip', 415],
    ['br', 415],
    ['gzip, identity', 415],
    ['identity', 200],
    ['Identity', 200],
  ])('content encoding %s gets status %i', async (encoding, status) => {
    const api = await startApi()
    const answer = await api.post('/v1/check', ITEM, { headers: { 'content-encoding': encoding } })
    expect(answer.status).toBe(status)
    if (status === 415) {
      expect(answer.body).toMatchObject({ error: 'unsupported_encoding' })
      expect(answer.headers['accept-encoding']).toBe('identity')
    }
  })

  const expecting = (length: number, more: readonly string[] = []) =>
    head([`content-length: ${length}`, 'expect: 100-continue', 'connection: close', ...more])

  test('make the server send 100 Continue once', async () => {
    const api = await startApi()
    const answer = await sendPieces(api, [expecting(ITEM.length), ITEM])
    expect(answer.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 100', 'HTTP/1.1 200'])
  })

  test('make the server send no 100 Continue without a token, nor for too large a body', async () => {
    const api = await startApi({ token: API_TOKEN })
    expect(await api.raw(expecting(10))).toMatch(/^HTTP\/1\.1 401/)
    const tooMuch = expecting(1_000_000, [`authorization: Bearer ${API_TOKEN}`])
    expect(await api.raw(tooMuch)).toMatch(/^HTTP\/1\.1 413/)
  })
})
