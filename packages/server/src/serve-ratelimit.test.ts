/** A server in place of envoyproxy/ratelimit, in the process of the test. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parseRatelimitEnvironment } from './config/ratelimit/ratelimit-environment.js'
import {
  closeAfterEach,
  closeAfterTest,
  eventually,
  TestClient,
} from './entrypoints/envoy/envoy.test-helper.js'
import { createMemoryLog } from './observability/log/memory-log.test-helper.js'
import { serveRatelimit } from './serve-ratelimit.js'

closeAfterEach()

const CONFIG = `domain: edge
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 1 }
`
const ANY_PORTS = {
  HOST: '127.0.0.1',
  PORT: '0',
  GRPC_HOST: '127.0.0.1',
  GRPC_PORT: '0',
  DEBUG_HOST: '127.0.0.1',
  DEBUG_PORT: '0',
}

async function start(env: Record<string, string> = {}, text: string | undefined = CONFIG) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-ratelimit-'))
  closeAfterTest(() => rmSync(folder, { recursive: true }))
  const directory = join(folder, 'app', 'config')
  mkdirSync(directory, { recursive: true })
  const write = (changed: string) => writeFileSync(join(directory, 'edge.yaml'), changed)
  write(text)
  const { config, errors } = parseRatelimitEnvironment({
    ...ANY_PORTS,
    BACKEND_TYPE: 'memory',
    RUNTIME_ROOT: folder,
    RUNTIME_SUBDIRECTORY: 'app',
    SLUICE_DATA_DIR: join(folder, 'data'),
    ...env,
  })
  if (config === undefined) throw new Error(errors.join('\n'))
  const { log } = createMemoryLog()
  const server = await serveRatelimit(config, { log })
  closeAfterTest(async () => {
    await server.stop({ atOnce: true })
  })
  const { http, grpc, debug } = server.addresses
  const post = async (request: object) => {
    const body = JSON.stringify(request)
    const answered = await fetch(`${http}/json`, { method: 'POST', body })
    return { status: answered.status, text: await answered.text() }
  }
  const ask = (domain = 'edge', hitsAddend = 1) =>
    post({ domain, hitsAddend, descriptors: [{ entries: [{ key: 'user', value: 'u1' }] }] })
  const health = async () => (await fetch(`${http}/healthcheck`)).status
  return { server, http, grpc, debug, post, ask, health, write }
}

test('a directory is served on the ports of HTTP and gRPC, with the counters of both', async () => {
  const { http, grpc, ask } = await start()
  const health = await fetch(`${http}/healthcheck`)
  expect([health.status, await health.text()]).toEqual([200, 'OK'])
  const client = new TestClient(grpc)
  const request = {
    domain: 'edge',
    descriptors: [{ entries: [{ key: 'user', value: 'u1' }] }],
  }
  expect(await client.shouldRateLimit(request)).toMatchObject({ response: { overall_code: 'OK' } })
  expect((await ask()).status).toBe(429)
  expect(await client.check('ratelimit')).toMatchObject({ response: { status: 'SERVING' } })
})

test('a domain without a configuration is not limited', async () => {
  const { ask } = await start()
  const answers = [await ask('other'), await ask('other')]
  expect(answers.map(({ status }) => status)).toEqual([200, 200])
  expect(JSON.parse(answers[1]?.text ?? '')).toEqual({
    overallCode: 'OK',
    statuses: [{ code: 'OK' }],
  })
})

test('a server without a configuration is unhealthy until it has one, unless it may start without', async () => {
  const waiting = await start({}, 'domain: [')
  expect(await waiting.health()).toBe(500)
  expect((await waiting.ask()).status).toBe(400)
  waiting.write(CONFIG)
  await eventually(waiting.health).toBe(200)
  const free = await start({ FORCE_START_WITHOUT_INITIAL_CONFIG: 'true' }, 'domain: [')
  expect(await free.health()).toBe(200)
  const healthyWith = {
    FORCE_START_WITHOUT_INITIAL_CONFIG: 'true',
    HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED: 'true',
  }
  expect(await (await start(healthyWith, 'domain: [')).health()).toBe(500)
})

test('refused requests stay counted, unless counting stops at the limit', async () => {
  const exact = await start()
  expect([(await exact.ask('edge', 2)).status, (await exact.ask()).status]).toEqual([429, 429])
  const stopping = await start({ STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: 'true' })
  const refused = await stopping.ask('edge', 2)
  expect([refused.status, (await stopping.ask()).status]).toEqual([429, 200])
})

test('quota, shadow, metadata and headers are those of the variables', async () => {
  const shadow = await start({ SHADOW_MODE: 'true' })
  await shadow.ask()
  expect((await shadow.ask()).status).toBe(200)
  const quota = await start({ QUOTA_MODE: 'true' })
  const entry = (value: string) => ({ entries: [{ key: 'user', value }] })
  const alternatives = { domain: 'edge', descriptors: [entry('u1'), entry('u2')] }
  await quota.ask()
  expect((await quota.ask()).status).toBe(429)
  expect((await quota.post(alternatives)).status).toBe(200)
  const headers = await start({
    LIMIT_RESPONSE_HEADERS_ENABLED: 'true',
    LIMIT_LIMIT_HEADER: 'x-limit',
    RESPONSE_DYNAMIC_METADATA: 'true',
  })
  const answer = JSON.parse((await headers.ask()).text) as {
    readonly responseHeadersToAdd: readonly { readonly key: string }[]
    readonly dynamicMetadata: object
  }
  expect(answer.responseHeadersToAdd.map(({ key }) => key)).toEqual([
    'x-limit',
    'RateLimit-Remaining',
    'RateLimit-Reset',
  ])
  expect(answer.dynamicMetadata).toMatchObject({ domain: 'edge' })
})

test('metrics are served on their own address only if they are asked for', async () => {
  expect((await start()).server.addresses.metrics).toBeUndefined()
  const env = { USE_PROMETHEUS: 'true', PROMETHEUS_ADDR: '127.0.0.1:0', PROMETHEUS_PATH: '/m' }
  const { server, ask } = await start(env)
  await ask()
  const response = await fetch(`${server.addresses.metrics}/m`)
  expect(response.headers.get('content-type')).toContain('text/plain; version=0.0.4')
  const metrics = await response.text()
  expect(metrics).toContain(
    'ratelimit_service_rate_limit_total_hits{domain="edge",key1="user",key2=""} 1\n',
  )
  expect(metrics).toContain('sluice_decisions_total')
  expect((await fetch(`${server.addresses.metrics}/metrics`)).status).toBe(404)
})

test('the debug port lists the limits that are active', async () => {
  const { debug } = await start()
  expect(await (await fetch(`${debug}/rlconfig`)).text()).toBe(
    'edge.user: unit=YEAR requests_per_unit=1, shadow_mode: false, quota_mode: false\n',
  )
  expect((await fetch(`${debug}/stats`)).status).toBe(404)
})

test('requests over HTTP that are no requests are answered 400, and other paths 404', async () => {
  const { http } = await start()
  const bad = await fetch(`${http}/json`, { method: 'POST', body: '{' })
  expect([bad.status, await bad.text()]).toEqual([400, 'Bad Request\n'])
  expect((await fetch(`${http}/admin/v1/rules`)).status).toBe(404)
  const large = await fetch(`${http}/json`, { method: 'POST', body: 'x'.repeat(300_000) })
  expect(large.status).toBe(413)
})
