/**
 * Sends ambiguous requests over a real socket. The parser of Node refuses most of them; the table
 * lists which ones it accepts.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sendProblem } from './responses.js'
import {
  bodyOf,
  exchange,
  startListener,
  statusOf,
  stopListeners,
} from './http-listener.test-helper.js'
import { findRequestProblem } from './strict-request.js'

let port: number
let served: string[]

beforeAll(async () => {
  served = []
  const started = await startListener({
    prepare: (server) => {
      server.on('request', (request, response) => {
        const problem = findRequestProblem(request)
        if (problem !== undefined) {
          const headers = [...(problem.headers ?? []), 'Connection', 'close', 'X-By', 'strict']
          return sendProblem(response, { ...problem, headers })
        }
        served.push(request.url ?? '')
        request.resume()
        request.on('error', () => undefined)
        request.on('end', () => response.writeHead(200, ['X-By', 'handler']).end('served'))
      })
    },
  })
  port = started.port
})

afterAll(stopListeners)

const HOST = 'Host: a.example\r\n'
const get = (headers: string, line = 'GET /x HTTP/1.1') => `${line}\r\n${headers}\r\n`
const post = (headers: string, body: string) => `POST /x HTTP/1.1\r\n${HOST}${headers}\r\n${body}`
const chunked = (body: string) => post('Transfer-Encoding: chunked\r\n', body)

/**
 * parser: Node emits no request. strict: `findRequestProblem` finds it, for some just before the
 * parser would. either: newer parsers find it, older ones do not. body: the head was valid, so the
 * request was started.
 */
type By = 'parser' | 'strict' | 'either' | 'body'

/** The bytes, which check refused them, and with which status. */
const REFUSED: readonly [string, string, By, number][] = [
  ['bare LF as line end', 'GET /x HTTP/1.1\nHost: a.example\n\n', 'parser', 400],
  ['bare LF after one header', get('Host: a.example\nX: b\r\n'), 'parser', 400],
  ['bare LF as the end of the head', 'GET /x HTTP/1.1\r\nHost: a\r\n\n', 'parser', 400],
  ['bare CR as line end', 'GET /x HTTP/1.1\rHost: a\r\r', 'parser', 400],
  ['bare CR in a value', get(`${HOST}X: a\rY: b\r\n`), 'parser', 400],
  ['a folded line', get(`${HOST}X: a\r\n b\r\n`), 'parser', 400],
  ['a folded Host', get('Host:\r\n\ta\r\n'), 'parser', 400],
  ['a space before the colon', get('Host : a\r\n'), 'parser', 400],
  ['a tab before the colon', post('Transfer-Encoding\t: chunked\r\n', '0\r\n\r\n'), 'parser', 400],
  ['a space before the first header', get(` ${HOST}`), 'parser', 400],
  ['a header without a colon', get(`${HOST}X\r\n`), 'parser', 400],
  ['a header without a name', get(`${HOST}: x\r\n`), 'parser', 400],
  ['a space in a name', get(`${HOST}X Y: a\r\n`), 'parser', 400],
  ['NUL in a value', get(`${HOST}X: a\0b\r\n`), 'parser', 400],
  ['NUL in a name', get(`${HOST}X\0: a\r\n`), 'parser', 400],
  ['a control character in a value', get(`${HOST}X: a\x01b\r\n`), 'parser', 400],
  ['DEL in a value', get(`${HOST}X: a\x7fb\r\n`), 'parser', 400],

  [
    'Content-Length, then Transfer-Encoding',
    post('Content-Length: 5\r\nTransfer-Encoding: chunked\r\n', '0\r\n\r\n'),
    'parser',
    400,
  ],
  [
    'Transfer-Encoding, then Content-Length',
    post('Transfer-Encoding: chunked\r\nContent-Length: 5\r\n', '0\r\n\r\n'),
    'parser',
    400,
  ],
  ['two lengths, the same', post('Content-Length: 5\r\n'.repeat(2), 'hello'), 'parser', 400],
  [
    'two lengths, different',
    post('Content-Length: 5\r\nContent-Length: 6\r\n', 'hello!'),
    'parser',
    400,
  ],
  ['a length of +5', post('Content-Length: +5\r\n', 'hello'), 'parser', 400],
  ['a length of -1', post('Content-Length: -1\r\n', 'hello'), 'parser', 400],
  ['a length of 0x5', post('Content-Length: 0x5\r\n', 'hello'), 'parser', 400],
  ['a length of 1e1', post('Content-Length: 1e1\r\n', 'hello'), 'parser', 400],
  ['a length of 5, 5', post('Content-Length: 5, 5\r\n', 'hello'), 'parser', 400],
  ['a length of 5 5', post('Content-Length: 5 5\r\n', 'hello'), 'parser', 400],
  ['an empty length', post('Content-Length:\r\n', ''), 'parser', 400],
  ['a length beyond 2^64', post('Content-Length: 99999999999999999999\r\n', ''), 'parser', 400],
  ['a length beyond 2^53', post('Content-Length: 9007199254740993\r\n', ''), 'strict', 400],
  ['a length of 005', post('Content-Length: 005\r\n', 'hello'), 'strict', 400],

  ['xchunked', post('Transfer-Encoding: xchunked\r\n', '0\r\n\r\n'), 'strict', 400],
  ['identity', post('Transfer-Encoding: identity\r\n', '0\r\n\r\n'), 'strict', 400],
  [
    'chunked, identity',
    post('Transfer-Encoding: chunked, identity\r\n', '0\r\n\r\n'),
    'parser',
    400,
  ],
  ['chunked, chunked', post('Transfer-Encoding: chunked, chunked\r\n', '0\r\n\r\n'), 'parser', 400],
  ['chunked twice', post('Transfer-Encoding: chunked\r\n'.repeat(2), '0\r\n\r\n'), 'parser', 400],
  ['chunked and a tab', post('Transfer-Encoding: chunked\t\r\n', '0\r\n\r\n'), 'body', 400],
  ['VT and chunked', post('Transfer-Encoding: \x0bchunked\r\n', '0\r\n\r\n'), 'parser', 400],
  ['an unknown encoding of a GET', get(`${HOST}Transfer-Encoding: foo\r\n`), 'strict', 400],
  ['gzip, chunked', post('Transfer-Encoding: gzip, chunked\r\n', '0\r\n\r\n'), 'strict', 400],
  [
    'identity, then chunked',
    post('Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n', '0\r\n\r\n'),
    'strict',
    400,
  ],
  ['an empty encoding', post('Transfer-Encoding:\r\n', ''), 'either', 400],
  [
    'chunked with HTTP/1.0',
    `POST /x HTTP/1.0\r\n${HOST}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    'strict',
    400,
  ],
  ['a chunk that ends with bare LF', chunked('5\nhello\r\n0\r\n\r\n'), 'body', 400],
  ['a chunk extension with bare LF', chunked('5;a\nhello\r\n0\r\n\r\n'), 'body', 400],
  ['a chunk longer than its size', chunked('5\r\nhello!\r\n0\r\n\r\n'), 'body', 400],
  ['a chunk of 0x5', chunked('0x5\r\nhello\r\n0\r\n\r\n'), 'body', 400],
  ['a chunk size and a space', chunked('5 \r\nhello\r\n0\r\n\r\n'), 'body', 400],
  ['a length in a trailer', chunked('0\r\nContent-Length: 4\r\n\r\n'), 'body', 400],
  ['17 KiB of chunk extensions', chunked(`5;${'a'.repeat(17_000)}\r\nhello`), 'body', 413],

  ['a method in lower case', get(HOST, 'get /x HTTP/1.1'), 'parser', 400],
  ['an unknown method', get(HOST, 'FOO /x HTTP/1.1'), 'parser', 400],
  ['a method of RTSP', get(HOST, 'DESCRIBE /x RTSP/1.0'), 'strict', 400],
  ['TRACE', get(HOST, 'TRACE /x HTTP/1.1'), 'strict', 405],
  ['CONNECT', get(HOST, 'CONNECT a.example:443 HTTP/1.1'), 'parser', 405],
  ['tabs in the first line', get(HOST, 'GET\t/x\tHTTP/1.1'), 'parser', 400],
  ['a space in the target', get(HOST, 'GET /x y HTTP/1.1'), 'parser', 400],
  ['a control character in the target', get(HOST, 'GET /\x01 HTTP/1.1'), 'parser', 400],
  ['a byte above ASCII in the target', get(HOST, 'GET /\xe4 HTTP/1.1'), 'parser', 400],
  ['a target without a slash', get(HOST, 'GET x HTTP/1.1'), 'parser', 400],
  ['a target of host and port', get(HOST, 'GET a.example:80 HTTP/1.1'), 'parser', 400],
  ['* for OPTIONS', get(HOST, 'OPTIONS * HTTP/1.1'), 'strict', 400],
  ['* for GET', get(HOST, 'GET * HTTP/1.1'), 'strict', 400],
  ['a fragment', get(HOST, 'GET /x#y HTTP/1.1'), 'strict', 400],
  ['another host in the target', get(HOST, 'GET http://b.example/x HTTP/1.1'), 'strict', 400],
  ['another port in the target', get(HOST, 'GET http://a.example:81/x HTTP/1.1'), 'strict', 400],
  ['a user in the target', get(HOST, 'GET http://u@a.example/x HTTP/1.1'), 'strict', 400],
  ['another scheme in the target', get(HOST, 'GET ftp://a.example/x HTTP/1.1'), 'strict', 400],
  ['a bad host in the target of 1.0', get('', 'GET http://a@b/x HTTP/1.0'), 'strict', 400],

  ['two hosts', get(HOST.repeat(2)), 'strict', 400],
  ['two hosts, different', get(`${HOST}host: b.example\r\n`), 'strict', 400],
  ['no host', get(''), 'strict', 400],
  ['an empty host', get('Host:\r\n'), 'strict', 400],
  ['a host with a space', get('Host: a b\r\n'), 'strict', 400],
  ['a host with @', get('Host: a@b\r\n'), 'strict', 400],
  ['a host with a slash', get('Host: a/b\r\n'), 'strict', 400],
  ['a host with a comma', get('Host: a,b\r\n'), 'strict', 400],
  ['a host without a name', get('Host: :80\r\n'), 'strict', 400],
  ['a host with a port that is none', get('Host: a:b\r\n'), 'strict', 400],
  ['a host of 300 characters', get(`Host: ${'a'.repeat(300)}\r\n`), 'strict', 400],
  ['two authorizations', get(`${HOST}${'Authorization: Bearer a\r\n'.repeat(2)}`), 'strict', 400],

  ['a request of HTTP/0.9', 'GET /x\r\n\r\n', 'strict', 505],
  ['HTTP/0.9 by name', get(HOST, 'GET /x HTTP/0.9'), 'strict', 505],
  ['HTTP/1.2', get(HOST, 'GET /x HTTP/1.2'), 'parser', 400],
  ['HTTP/1.10', get(HOST, 'GET /x HTTP/1.10'), 'parser', 400],
  ['HTTP/2.0', get(HOST, 'GET /x HTTP/2.0'), 'strict', 505],
  ['HTTP/3.0', get(HOST, 'GET /x HTTP/3.0'), 'parser', 400],
  ['http/1.1', get(HOST, 'GET /x http/1.1'), 'parser', 400],
  ['ICE/1.0', get(HOST, 'SOURCE /x ICE/1.0'), 'strict', 400],
  ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'parser', 400],
  ['the hello of TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 'parser', 400],
  ['a space before the method', ` ${get(HOST)}`, 'parser', 400],

  ['101 headers', get(`${HOST}${'a: b\r\n'.repeat(100)}`), 'strict', 400],
  ['2001 headers', get(`${HOST}${'a:b\r\n'.repeat(2000)}`), 'strict', 400],
  ['a header of 17 KB', get(`${HOST}X: ${'a'.repeat(17_000)}\r\n`), 'parser', 431],
  ['a target of 17 KB', get(HOST, `GET /${'a'.repeat(17_000)} HTTP/1.1`), 'parser', 431],
]

test.each(REFUSED)('%s is refused, and the connection closed', async (_, bytes, by, status) => {
  served = []
  const answer = await exchange(port, bytes)
  expect(statusOf(answer)).toBe(status)
  expect(answer.match(/HTTP\/1\.1 /g)).toHaveLength(1)
  expect(answer).toMatch(/^Connection: close\r$/m)
  expect(served).toEqual(by === 'body' ? ['/x'] : [])
  if (by !== 'either') expect(answer.includes('X-By: strict')).toBe(by === 'strict')
  expect(answer).toMatch(/^Content-Type: application\/problem\+json\r$/m)
  expect(bodyOf(answer)).toMatchObject({ type: 'about:blank', status })
})

const SERVED: readonly [string, string][] = [
  ['a plain request', get(`${HOST}Connection: close\r\n`)],
  ['HTTP/1.0 without a host', 'GET /x HTTP/1.0\r\n\r\n'],
  ['HTTP/1.0 with an absolute target', 'GET http://a.example/x HTTP/1.0\r\n\r\n'],
  ['an absolute target', get(`${HOST}Connection: close\r\n`, 'GET http://A.example/x HTTP/1.1')],
  [
    'an absolute target of https',
    get(`${HOST}Connection: close\r\n`, 'GET https://a.example/x HTTP/1.1'),
  ],
  [
    'an absolute target without a path',
    get(`${HOST}Connection: close\r\n`, 'GET http://a.example HTTP/1.1'),
  ],
  ['an IPv6 host', get('Host: [::1]:8080\r\nConnection: close\r\n')],
  ['an IPv4 host and port', get('Host: 127.0.0.1:8080\r\nConnection: close\r\n')],
  ['a host with an underscore', get('Host: my_service\r\nConnection: close\r\n')],
  ['empty lines before the request', `\r\n\r\n${get(`${HOST}Connection: close\r\n`)}`],
  ['two spaces before the target', get(`${HOST}Connection: close\r\n`, 'GET  /x HTTP/1.1')],
  [
    'a tab before chunked',
    post('Transfer-Encoding:\tchunked\r\nConnection: close\r\n', '0\r\n\r\n'),
  ],
  [
    'chunked and a space',
    post('Transfer-Encoding: chunked \r\nConnection: close\r\n', '0\r\n\r\n'),
  ],
  ['CHUNKED', post('Transfer-Encoding: CHUNKED\r\nConnection: close\r\n', '0\r\n\r\n')],
  [
    'a chunk extension',
    post('Transfer-Encoding: chunked\r\nConnection: close\r\n', '5;a=b\r\nhello\r\n0\r\n\r\n'),
  ],
  ['a length and a space', post('Content-Length: 5 \r\nConnection: close\r\n', 'hello')],
  ['a length of 0', post('Content-Length: 0\r\nConnection: close\r\n', '')],
  ['100 headers', get(`${HOST}Connection: close\r\n${'a: b\r\n'.repeat(98)}`)],
  ['bytes above ASCII in a value', get(`${HOST}Connection: close\r\nX: \xe4\r\n`)],
  ['two cookies', get(`${HOST}Connection: close\r\n${'Cookie: a=b\r\n'.repeat(2)}`)],
  ['an upgrade that nobody takes up', get(`${HOST}Connection: upgrade, close\r\nUpgrade: h2c\r\n`)],
  ['a method of WebDAV', get(`${HOST}Connection: close\r\n`, 'PROPFIND /x HTTP/1.1')],
]

test.each(SERVED)('%s is served', async (_, bytes) => {
  const answer = await exchange(port, bytes)
  expect(statusOf(answer)).toBe(200)
  expect(answer).toContain('X-By: handler')
})

test('a problem quotes an invalid value, shortened', async () => {
  const detail = async (bytes: string) =>
    (bodyOf(await exchange(port, bytes)) as { detail: string }).detail
  expect(await detail(get('Host: a b\r\n'))).toBe(
    'The Host header is not a valid host and port: a b',
  )
  expect(await detail(get(`${HOST}${'a: b\r\n'.repeat(149)}`))).toBe(
    'Requests may have at most 100 header lines.',
  )
  expect((await detail(get(`Host: ${'@'.repeat(5000)}\r\n`))).length).toBeLessThan(150)
})
