/** Tests what a whole server reports about an upstream that does not answer. */
import { connect } from 'node:net'
import { afterEach, expect, test, vi } from 'vitest'
import { readMetrics, valueOf } from '../../observability/metrics/read-metrics.test-helper.js'
import {
  startTestServer,
  type TestServer,
  type TestServerOptions,
} from '../../serve.test-helper.js'

const SOON = { timeout: 20_000, interval: 20 }

let server: TestServer | undefined
afterEach(async () => {
  await server?.close()
  server = undefined
})

async function start(options: TestServerOptions) {
  const started = await startTestServer(options)
  server = started
  const upstream = `http://127.0.0.1:${(started.upstreamServer.address() as { port: number }).port}`
  const read = async (name: string, labels: Readonly<Record<string, string>>) => {
    const text = await (await fetch(`${started.admin}/metrics`)).text()
    return valueOf(readMetrics(text), name, { upstream, ...labels })
  }
  const logged = () => started.lines.filter(({ msg }) => String(msg).startsWith('upstream: '))
  return { ...started, upstream, read, logged }
}

test('calls that an upstream breaks off are counted, and logged once a second', async () => {
  const { gateway, upstream, read, logged } = await start({
    upstream: (request) => request.socket.destroy(),
  })
  const statuses = await Promise.all(
    Array.from({ length: 5 }, async () => (await fetch(`${gateway}/a`, { method: 'POST' })).status),
  )
  expect(statuses).toEqual([502, 502, 502, 502, 502])
  expect(await read('sluice_upstream_failures_total', { status: '502' })).toBe(5)
  expect(await read('sluice_upstream_failures_total', { status: '504' })).toBe(0)
  expect(await read('sluice_upstream_calls_total', {})).toBe(5)
  const [first] = logged()
  expect(first).toMatchObject({ level: 'warn', upstream, status: 502 })
  expect(first?.['code']).toMatch(/^(UND_ERR_SOCKET|ECONNRESET)$/)
  // Those of the same second are logged as a count.
  await vi.waitFor(() => {
    const counts = logged().map(({ msg, rest }) => Number(rest) + Number(msg === first?.msg))
    expect(counts.reduce((a, b) => a + b, 0)).toBe(5)
  }, SOON)
})

test('an upstream that exceeds the response timeout is a 504 with its code', async () => {
  const { gateway, read, logged } = await start({
    upstream: () => {},
    config: { gateway: { timeouts: { response: '1s' } } },
  })
  expect((await fetch(`${gateway}/a`)).status).toBe(504)
  expect(await read('sluice_upstream_failures_total', { status: '504' })).toBe(1)
  expect(logged()).toMatchObject([{ status: 504, code: 'RESPONSE_TIMEOUT' }])
})

test('a response of an upstream is no failure, whatever its status', async () => {
  const { gateway, read, logged } = await start({
    upstream: (_, response) => void response.writeHead(503).end('busy'),
  })
  expect((await fetch(`${gateway}/a`)).status).toBe(503)
  expect(await read('sluice_upstream_calls_total', {})).toBe(1)
  expect(await read('sluice_upstream_failures_total', { status: '503' })).toBe(0)
  expect(logged()).toEqual([])
})

test('a client that disconnects, before its body is whole or after, is no upstream failure', async () => {
  const { gatewayPort, calls, read, logged } = await start({ upstream: () => {} })
  const heads = [
    'GET /waits HTTP/1.1\r\nHost: a\r\n\r\n',
    'POST /half HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nhalf of it',
    'POST /bad HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n',
  ]
  const clients = heads.map((head) => {
    const client = connect(gatewayPort, '127.0.0.1')
    client.on('error', () => {}).resume()
    client.write(head)
    return client
  })
  await vi.waitFor(() => expect(calls).toHaveLength(heads.length), SOON)
  // The last one sends an invalid chunk; the others disconnect.
  clients[2]?.write('not a chunk\r\n\r\n')
  clients[0]?.destroy()
  clients[1]?.destroy()
  await vi.waitFor(() => expect(clients.every(({ closed }) => closed)).toBe(true), SOON)
  const { upstreamServer } = server ?? {}
  await vi.waitFor(async () => {
    const open = await new Promise((resolve) =>
      upstreamServer?.getConnections((_, count) => resolve(count)),
    )
    expect(open).toBe(0)
  }, SOON)
  for (const status of ['502', '503', '504']) {
    expect(await read('sluice_upstream_failures_total', { status })).toBe(0)
  }
  expect(logged()).toEqual([])
})
