import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { startTestServer, type TestServer } from '../../serve.test-helper.js'
import { closeAfterEach, eventually, SERVERS, TestClient } from './envoy.test-helper.js'
import { TestControlPlane } from './xds/control-plane.test-helper.js'

closeAfterEach()

const servers: TestServer[] = []
const folder = mkdtempSync(join(tmpdir(), 'sluice-envoy-'))
afterAll(async () => {
  await Promise.all(servers.map((server) => server.close()))
  rmSync(folder, { recursive: true })
})

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

test.each(SERVERS)('%s decides the same calls over gRPC and over /json', async (kind) => {
  const server = await start({ config: { envoy: { server: kind } } })
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

test('the health of a server without streams follows readiness until it has stopped', async () => {
  const config = { shutdown: { delay: '300ms' }, envoy: { server: 'own' } }
  const unready = await start({ rules: [], config })
  const client = new TestClient(unready.grpc)
  expect(await client.check('')).toMatchObject({ response: { status: 'NOT_SERVING' } })
  const ready = await start({ config })
  const other = new TestClient(ready.grpc)
  expect(await other.check('ratelimit')).toMatchObject({ response: { status: 'SERVING' } })
  const stopped = ready.stop()
  expect(await other.check('')).toMatchObject({ response: { status: 'NOT_SERVING' } })
  expect(await stopped).toEqual({ cut: 0 })
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

const fileOf = (key: string, metadata: object) => ({
  domain: 'edge',
  descriptors: [{ key, rate_limit: { unit: 'day', requests_per_unit: 1 }, metadata }],
})

/** A server with two files of one domain, and a function that sends one descriptor to it. */
async function startMerged(settings: object) {
  const config = mkdtempSync(join(folder, 'config-'))
  writeFileSync(join(config, 'users.yaml'), JSON.stringify(fileOf('user', { tier: 'user' })))
  writeFileSync(join(config, 'plans.yaml'), JSON.stringify(fileOf('plan', { tier: 'plan' })))
  const server = await start({ config: { envoy: { config, mergeDomains: true, ...settings } } })
  return async (key: string) => {
    const body = JSON.stringify({ domain: 'edge', descriptors: [{ entries: [{ key }] }] })
    const answered = await fetch(`${server.api}/json`, { method: 'POST', body })
    return { status: answered.status, answer: (await answered.json()) as JsonAnswer }
  }
}

test('headers, metadata and merged domains are as configured', async () => {
  const ask = await startMerged({ headers: 'standard', metadata: true })
  const { answer } = await ask('user')
  const names = answer.responseHeadersToAdd?.map(({ key }) => key)
  expect(names?.toSorted()).toEqual(['RateLimit', 'RateLimit-Policy'])
  expect(answer.dynamicMetadata).toMatchObject({ domain: 'edge', metadata: { tier: 'user' } })
  expect((await ask('user')).status).toBe(429)
  expect((await ask('plan')).answer.dynamicMetadata).toMatchObject({ metadata: { tier: 'plan' } })
})

test('in shadow no request is refused, and statuses say what would have been', async () => {
  const ask = await startMerged({ shadow: true })
  expect(await ask('user')).toMatchObject({ status: 200, answer: { statuses: [{ code: 'OK' }] } })
  const over = await ask('user')
  expect(over).toMatchObject({ status: 200, answer: { statuses: [{ code: 'OVER_LIMIT' }] } })
  expect(over.answer.dynamicMetadata).toBeUndefined()
})

interface JsonAnswer {
  readonly responseHeadersToAdd?: readonly { readonly key: string }[]
  readonly dynamicMetadata?: object
}

const QUOTAS = 'envoy.service.rate_limit_quota.v3.RateLimitQuotaService'
const REPORT = {
  domain: 'edge',
  bucket_quota_usages: [
    { bucket_id: { bucket: { remote_address: '192.0.2.1' } }, num_requests_allowed: 1 },
  ],
}

test('quotas are drawn from the same limits as requests, and their streams end with the server', async () => {
  const server = await start()
  const client = new TestClient(server.grpc)
  const stream = client.stream(QUOTAS, 'StreamRateLimitQuotas')
  const ended = new Promise((resolve) => stream.once('end', resolve))
  const assigned = new Promise((resolve) => stream.once('data', resolve))
  stream.write(REPORT)
  // One call is reported, two are drawn: the limit of three an hour is used up.
  const lease = { rate_limit_strategy: { token_bucket: { max_tokens: 2 } } }
  expect(await assigned).toMatchObject({
    bucket_action: [{}, { quota_assignment_action: lease }],
  })
  const { response } = await client.shouldRateLimit(REQUEST)
  expect(response).toMatchObject({ overall_code: 'OVER_LIMIT' })
  const metrics = await metricsOf(server)
  expect(metrics).toContain('sluice_rlqs_streams 1\n')
  expect(metrics).toContain('sluice_rlqs_held_calls 2\n')
  await server.close()
  await ended
})

test('a server without streams has no quotas', async () => {
  const server = await start({ config: { envoy: { server: 'own' } } })
  const stream = new TestClient(server.grpc).stream(QUOTAS, 'StreamRateLimitQuotas')
  const failed = new Promise((resolve) => stream.once('error', resolve))
  stream.write(REPORT)
  expect(await failed).toMatchObject({ code: 12 })
  expect(await metricsOf(server)).not.toContain('sluice_rlqs')
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
  expect(await answer).toMatchObject({ list_services_response: { service: { length: 3 } } })
  answers.end()
})

test('a server that follows a control plane is ready with the first configuration', async () => {
  const plane = await new TestControlPlane().start()
  const xds = { server: `127.0.0.1:${plane.port}`, nodeId: 'envoy-ratelimit' }
  const server = await start({ rules: [], config: { envoy: { xds } } })
  const readiness = async () => (await fetch(`${server.api}/readyz`)).status
  expect(await readiness()).toBe(503)
  const limit = { unit: 'MINUTE', requests_per_unit: 1 }
  const descriptors = [{ key: 'remote_address', rate_limit: limit }]
  await plane.answerOf(await plane.send('v1', [{ name: 'edge', domain: 'edge', descriptors }]))
  expect(await readiness()).toBe(200)
  const client = new TestClient(server.grpc)
  const ask = async () => (await client.shouldRateLimit(REQUEST)).response
  expect([await ask(), await ask()]).toMatchObject([
    { overall_code: 'OK' },
    { overall_code: 'OVER_LIMIT' },
  ])
  const metrics = await metricsOf(server)
  expect(metrics).toContain('sluice_envoy_xds_connected 1\n')
  expect(metrics).toContain('sluice_envoy_xds_streams_lost_total 0\n')
  expect(metrics).toContain('ratelimit_service_config_load_success 1\n')
  const empty = await plane.answerOf(await plane.send('v2', []))
  expect(empty).toMatchObject({ version_info: 'v2', error_detail: null })
  expect(await readiness()).toBe(200)
})
