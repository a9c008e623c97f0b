import { afterAll, expect, test } from 'vitest'
import { startTestServer, type TestServer } from '../../serve.test-helper.js'
import { closeAfterEach, eventually, TestClient } from './envoy.test-helper.js'

closeAfterEach()

const servers: TestServer[] = []
afterAll(() => Promise.all(servers.map((server) => server.close())))

const RULES = [{ id: 'edge', match: { where: { domain: 'edge' } }, by: ['ip'], limits: ['3/hour'] }]
const REQUEST = {
  domain: 'edge',
  descriptors: [{ entries: [{ key: 'remote_address', value: '192.0.2.1' }] }],
}

async function start(options: Parameters<typeof startTestServer>[0] = {}): Promise<TestServer> {
  const server = await startTestServer({ rules: RULES, ...options })
  servers.push(server)
  return server
}

async function metricsOf({ admin }: TestServer): Promise<string> {
  const headers = { authorization: 'Bearer test-admin-token-0123456789' }
  return (await fetch(`${admin}/metrics`, { headers })).text()
}

test('a server decides the same calls over gRPC and over /json', async () => {
  const server = await start()
  const client = new TestClient(server.grpc)
  const ask = async () => {
    const { response } = await client.shouldRateLimit(REQUEST)
    return (response as { readonly overall_code: string }).overall_code
  }
  const askJson = async () => {
    const body = JSON.stringify(REQUEST)
    return (await fetch(`${server.api}/json`, { method: 'POST', body })).status
  }
  expect([await ask(), await askJson(), await ask()]).toEqual(['OK', 200, 'OK'])
  expect([await ask(), await askJson()]).toEqual(['OVER_LIMIT', 429])
  const { error } = await client.shouldRateLimit({ domain: 'edge' })
  expect(error).toMatchObject({ code: 3, details: 'rate limit descriptor list must not be empty' })
  const metrics = await metricsOf(server)
  expect(metrics).toContain('sluice_grpc_calls_total{method="ShouldRateLimit",code="0"} 3\n')
  expect(metrics).toContain('sluice_grpc_calls_total{method="ShouldRateLimit",code="3"} 1\n')
  expect(metrics).toContain('sluice_grpc_connections 1\n')
  expect(metrics).toContain('sluice_connections_refused_total{listener="grpc",reason="total"} 0\n')
})

test('the health follows readiness, and ends with the beginning of a shutdown', async () => {
  const server = await start({ rules: [], config: { shutdown: { delay: '300ms' } } })
  const client = new TestClient(server.grpc)
  expect(await client.check('')).toMatchObject({ response: { status: 'NOT_SERVING' } })
  const ready = await start({ config: { shutdown: { delay: '300ms' } } })
  const other = new TestClient(ready.grpc)
  expect(await other.check('ratelimit')).toMatchObject({ response: { status: 'SERVING' } })
  const stream = other.watch('ratelimit')
  const received: unknown[] = []
  stream.on('error', () => {})
  stream.on('data', (response: { readonly status: unknown }) => received.push(response.status))
  await eventually(() => received).toEqual(['SERVING'])
  const stopped = ready.stop()
  await eventually(() => received).toEqual(['SERVING', 'NOT_SERVING'])
  expect(await stopped).toEqual({ cut: 0 })
})

test('reflection is off unless it is configured', async () => {
  const server = await start()
  const stream = new TestClient(server.grpc).reflect('v1')
  expect(await new Promise((resolve) => stream.on('error', resolve))).toMatchObject({ code: 12 })
  const open = await start({ config: { envoy: { reflection: true } } })
  const answers = new TestClient(open.grpc).reflect('v1')
  const answer = new Promise((resolve) => answers.once('data', resolve))
  answers.on('error', () => {})
  answers.write({ list_services: '' })
  expect(await answer).toMatchObject({ list_services_response: { service: { length: 2 } } })
  answers.end()
})
