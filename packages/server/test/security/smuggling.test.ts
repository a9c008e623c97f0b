/** Checks that no uncounted request reaches the upstream inside a counted one. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestServer, type TestServer } from '../../src/serve.test-helper.js'
import {
  type RawUpstream,
  readCarelessly,
  readRequests,
  startRawUpstream,
  exchange,
} from './raw.test-helper.js'
import { CORPUS, type Fate, HOST, NEXT } from './smuggling-corpus.test-helper.js'

let upstream: RawUpstream
let server: TestServer

beforeAll(async () => {
  upstream = await startRawUpstream()
  server = await startTestServer({ env: { SLUICE_UPSTREAM: `http://127.0.0.1:${upstream.port}` } })
})

afterAll(async () => {
  await server.close()
  await upstream.close()
})

const ALIVE = `GET /alive HTTP/1.1\r\n${HOST}\r\n`

/** The bytes sent to the upstream, as the strictest and as the most lenient parser reads them. */
function expectOne(sent: readonly string[], { line, body }: Extract<Fate, { is: 'one' }>): void {
  expect(sent).toHaveLength(1)
  for (const read of [readRequests, readCarelessly]) {
    const { requests, rest } = read(sent[0] ?? '')
    expect(requests.map((request) => ({ line: request.line, body: request.body }))).toEqual([
      { line, body },
    ])
    expect(rest).toBe('')
  }
  const names = readRequests(sent[0] ?? '').requests[0]?.headers.map(([name]) =>
    name.replace(/[_.]/g, '-'),
  )
  const framing = names?.filter((name) => name === 'content-length' || name === 'transfer-encoding')
  expect(framing?.length).toBeLessThanOrEqual(1)
  expect(names?.filter((name) => name === 'host')).toHaveLength(1)
}

test.each(CORPUS)('%s: nothing is smuggled', async (_, bytes, fate) => {
  const count = fate.is === 'one' || (fate.is === 'refused' && fate.stays) ? 1 : undefined
  const { answers, isClosed } = await exchange(server.gatewayPort, bytes, count)
  const sent = upstream.take()
  if (fate.is === 'one') {
    expect(answers.map(({ status }) => status)).toEqual([200])
    expectOne(sent, fate)
  } else if (fate.is === 'refused') {
    expect(answers.map(({ status }) => status)).toEqual([fate.status])
    expect(isClosed).toBe(fate.stays !== true)
    expect(sent).toEqual([])
  } else {
    expect(isClosed).toBe(true)
    expect(answers.every(({ status }) => status === 400)).toBe(true)
    expect(sent.flatMap((text) => readRequests(text).requests)).toEqual([])
    expect(sent.join()).not.toContain('smuggled')
  }
  const after = await exchange(server.gatewayPort, ALIVE, 1)
  expect(after.answers.map(({ status }) => status)).toEqual([200])
  expectOne(upstream.take(), { is: 'one', line: 'GET /alive', body: '' })
})

test('a body that the upstream may not read is the last on its connection', async () => {
  const head = `GET /unread HTTP/1.1\r\n${HOST}Content-Length: ${NEXT.length}\r\n\r\n`
  await exchange(server.gatewayPort, head + NEXT, 1)
  await exchange(server.gatewayPort, ALIVE, 1)
  const sent = upstream.all().filter((text) => text.includes('GET /unread '))
  expect(sent.map((text) => text.endsWith(NEXT))).toEqual([true])
})

test('a lenient upstream read a request for /smuggled on no connection', () => {
  const lines = upstream
    .all()
    .flatMap((text) => [...readRequests(text).requests, ...readCarelessly(text).requests])
    .map(({ line }) => line)
  expect(lines.length).toBeGreaterThan(2 * CORPUS.length)
  expect(lines.filter((line) => /^\S+ \/smuggled/.test(line))).toEqual([])
})

describe('pipelined requests', () => {
  const numbers = Array.from({ length: 10 }, (_, index) => index)
  const numbered = (index: number) => `GET /${index} HTTP/1.1\r\n${HOST}\r\n`
  let limited: TestServer

  beforeAll(async () => {
    limited = await startTestServer({
      rules: [
        { id: 'five', match: { path: '/:n' }, by: [], limits: [{ max: 5, window: '366d' }] },
        { id: 'free', match: { path: '/free/*' }, by: [], limits: ['9/second'] },
      ],
    })
  })
  afterAll(() => limited.close())

  test('are each counted, and answered in order', async () => {
    const { answers } = await exchange(limited.gatewayPort, numbers.map(numbered).join(''), 10)
    expect(answers.map(({ status }) => status)).toEqual([
      ...Array<number>(5).fill(200),
      ...Array<number>(5).fill(429),
    ])
    const left = answers.map(({ headers }) => headers.get('x-ratelimit-remaining'))
    expect(left).toEqual(['4', '3', '2', '1', '0', '0', '0', '0', '0', '0'])
    expect(limited.calls.map(({ url }) => url)).toEqual(['/0', '/1', '/2', '/3', '/4'])
  })

  test('are answered up to the first ambiguous one, and served no further', async () => {
    const before = limited.calls.length
    const free = (name: string, headers = HOST) => `GET /free/${name} HTTP/1.1\r\n${headers}\r\n`
    const bytes = free('a') + free('b') + free('c', HOST + HOST) + free('d') + free('e')
    const { answers, isClosed } = await exchange(limited.gatewayPort, bytes)
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 400])
    expect(isClosed).toBe(true)
    const served = limited.calls.slice(before).map(({ url }) => url)
    expect(served.sort()).toEqual(['/free/a', '/free/b'])
  })
})
