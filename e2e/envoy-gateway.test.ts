/**
 * In place of the image that Envoy Gateway runs: its command, its environment, a control plane with
 * its shape of configuration, its certificates and a real Redis. Only ports and paths differ.
 */
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { credentials, ServerCredentials } from '@grpc/grpc-js'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import {
  closeAfterEach,
  eventually,
  TestClient,
} from '../packages/server/src/entrypoints/envoy/envoy.test-helper.js'
import type { OfficialConfig } from '../packages/server/src/entrypoints/envoy/protobuf/rate-limit-config.test-helper.js'
import { TestControlPlane } from '../packages/server/src/entrypoints/envoy/xds/control-plane.test-helper.js'
import { GATEWAY_CONFIG } from '../packages/server/src/entrypoints/envoy/xds/gateway-config.test-helper.js'
import { makePair } from '../packages/server/src/entrypoints/http/certificates.test-helper.js'
import { type RedisServer, startRedis } from '../tools/redis/server.mjs'
import { freePorts, makeFolder, startProgram, stopAll, waitFor } from './process.test-helper.js'

let redis: RedisServer

beforeAll(async () => {
  redis = await startRedis()
})
afterAll(() => redis.stop())
afterEach(stopAll)
closeAfterEach()

const COMMAND = fileURLToPath(new URL('../packages/cli/bin/sluice.mjs', import.meta.url))
const ROUTE = 'httproute/shop/orders/rule/0'

/** The certificates that Envoy Gateway mounts, and a control plane with its own. */
async function startControlPlane(folder: string) {
  const service = makePair(folder, 'envoy-ratelimit')
  const controller = makePair(folder, 'localhost')
  writeFileSync(join(folder, 'tls.crt'), service.cert)
  writeFileSync(join(folder, 'tls.key'), service.key)
  writeFileSync(join(folder, 'ca.crt'), controller.cert)
  const own = { cert_chain: Buffer.from(controller.cert), private_key: Buffer.from(controller.key) }
  return new TestControlPlane(
    ServerCredentials.createSsl(Buffer.from(service.cert), [own], true),
  ).start()
}

interface Ports {
  readonly http: number
  readonly grpc: number
  readonly debug: number
  readonly metrics: number
}

/** What Envoy Gateway sets, with Redis and Prometheus. */
const environmentOf = (folder: string, ports: Ports, controlPlane: number) => ({
  RUNTIME_ROOT: '/data',
  RUNTIME_SUBDIRECTORY: 'ratelimit',
  RUNTIME_IGNOREDOTFILES: 'true',
  RUNTIME_WATCH_ROOT: 'false',
  LOG_LEVEL: 'info',
  USE_STATSD: 'false',
  CONFIG_TYPE: 'GRPC_XDS_SOTW',
  CONFIG_GRPC_XDS_SERVER_URL: `localhost:${controlPlane}`,
  CONFIG_GRPC_XDS_NODE_ID: 'envoy-ratelimit',
  GRPC_SERVER_USE_TLS: 'true',
  GRPC_SERVER_TLS_CERT: join(folder, 'tls.crt'),
  GRPC_SERVER_TLS_KEY: join(folder, 'tls.key'),
  GRPC_SERVER_TLS_CA_CERT: join(folder, 'ca.crt'),
  CONFIG_GRPC_XDS_SERVER_USE_TLS: 'true',
  CONFIG_GRPC_XDS_CLIENT_TLS_CERT: join(folder, 'tls.crt'),
  CONFIG_GRPC_XDS_CLIENT_TLS_KEY: join(folder, 'tls.key'),
  CONFIG_GRPC_XDS_SERVER_TLS_CACERT: join(folder, 'ca.crt'),
  FORCE_START_WITHOUT_INITIAL_CONFIG: 'true',
  REDIS_SOCKET_TYPE: 'tcp',
  REDIS_URL: new URL(redis.url).host,
  USE_PROMETHEUS: 'true',
  PROMETHEUS_ADDR: `:${ports.metrics}`,
  PROMETHEUS_MAPPER_YAML: '/etc/statsd-exporter/conf.yaml',
  // Not those of Envoy Gateway: free ports, and no decision by posture on a busy machine.
  HOST: '127.0.0.1',
  PORT: `${ports.http}`,
  GRPC_HOST: '127.0.0.1',
  GRPC_PORT: `${ports.grpc}`,
  DEBUG_HOST: '127.0.0.1',
  DEBUG_PORT: `${ports.debug}`,
  SLUICE_STORE_DEADLINE_MS: '10000',
})

async function startRatelimit() {
  const folder = makeFolder()
  const plane = await startControlPlane(folder)
  const ports = await freePorts('http', 'grpc', 'debug', 'metrics')
  const command = join(folder, 'ratelimit')
  symlinkSync(COMMAND, command)
  const env = environmentOf(folder, ports, plane.port)
  const program = startProgram(process.execPath, [command], { cwd: folder, env })
  const healthcheck = () =>
    fetch(`http://127.0.0.1:${ports.http}/healthcheck`).catch(() => undefined)
  await waitFor(program, async () => (await healthcheck())?.status === 200)
  const trusted = credentials.createSsl(readFileSync(join(folder, 'tls.crt')))
  const client = new TestClient(`127.0.0.1:${ports.grpc}`, trusted, {
    'grpc.ssl_target_name_override': 'envoy-ratelimit',
  })
  return { plane, ports, program, client, healthcheck }
}

/** A request of Envoy Gateway's proxies for the first rule of the route. */
const REQUEST = {
  domain: 'shop/eg/http',
  descriptors: [
    {
      entries: [
        { key: ROUTE, value: ROUTE },
        { key: 'rule-0-match-0', value: 'rule-0-match-0' },
      ],
    },
  ],
}

function withLimit(requests: number): OfficialConfig {
  const [route] = GATEWAY_CONFIG.descriptors ?? []
  const [first, ...others] = route?.descriptors ?? []
  const changed = { ...first, rate_limit: { unit: 'YEAR', requests_per_unit: requests } }
  return { ...GATEWAY_CONFIG, descriptors: [{ ...route, descriptors: [changed, ...others] }] }
}

test('Envoy Gateway needs another image name only: configuration, TLS, health, metrics, stop', async () => {
  const { plane, ports, program, client, healthcheck } = await startRatelimit()
  expect(await (await healthcheck())?.text()).toBe('OK')
  const decide = async () => {
    const { error, response } = await client.shouldRateLimit(REQUEST, { deadlineMs: 30_000 })
    return error?.details ?? (response as { readonly overall_code: string }).overall_code
  }
  // It starts without a configuration, as it was asked to.
  expect(await decide()).toBe('no rate limit configuration loaded')
  const first = await plane.answerOf(await plane.send('1', [withLimit(3)]))
  expect(first).toMatchObject({ version_info: '1', error_detail: null })
  expect(first.node.id).toBe('envoy-ratelimit')
  const decisions = async (count: number) => {
    const codes: string[] = []
    for (let index = 0; index < count; index++) codes.push(await decide())
    return codes
  }
  expect(await decisions(4)).toEqual(['OK', 'OK', 'OK', 'OVER_LIMIT'])
  // Refused requests stay counted, as envoyproxy/ratelimit counts them.
  await plane.answerOf(await plane.send('2', [withLimit(6)]))
  expect(await decisions(3)).toEqual(['OK', 'OK', 'OVER_LIMIT'])
  const metrics = await (await fetch(`http://127.0.0.1:${ports.metrics}/metrics`)).text()
  const labels = `domain="shop/eg/http",key1="${ROUTE}_${ROUTE}",key2="rule-0-match-0_rule-0-match-0"`
  expect(metrics).toContain(`ratelimit_service_rate_limit_total_hits{${labels}} 7\n`)
  expect(metrics).toContain(`ratelimit_service_rate_limit_over_limit{${labels}} 2\n`)
  expect(metrics).toContain('ratelimit_service_config_load_success 2\n')
  expect(metrics).toContain('sluice_envoy_xds_connected 1\n')
  const listed = await (await fetch(`http://127.0.0.1:${ports.debug}/rlconfig`)).text()
  expect(listed).toContain('unit=YEAR requests_per_unit=6, shadow_mode: false')
  program.signal('SIGTERM')
  await eventually(async () => (await healthcheck())?.status).not.toBe(200)
  expect(await program.code()).toBe(0)
  expect(program.output()).toContain('"variables":["PROMETHEUS_MAPPER_YAML"]')
})

test('a control plane that is gone leaves the limits as they were', async () => {
  const { plane, client, healthcheck } = await startRatelimit()
  await plane.answerOf(await plane.send('1', [withLimit(0)]))
  plane.stop()
  const { response } = await client.shouldRateLimit(REQUEST, { deadlineMs: 30_000 })
  expect(response).toMatchObject({ overall_code: 'OVER_LIMIT' })
  expect((await healthcheck())?.status).toBe(200)
})

test('a variable that cannot be honoured ends the start with its name, and so does --check', async () => {
  const cwd = makeFolder()
  const run = async (words: readonly string[], env: Record<string, string>) => {
    const flags = [COMMAND, 'serve', '--as-envoy-ratelimit', ...words]
    const program = startProgram(process.execPath, flags, { cwd, env })
    return { code: await program.code(), output: program.output() }
  }
  const refused = await run([], { BACKEND_TYPE: 'memcache' })
  expect(refused.code).toBe(2)
  expect(refused.output).toBe(
    'BACKEND_TYPE: bad value "memcache". Accepted: redis; memory for a single process; memcache is not supported\n',
  )
  const checked = await run(['--check'], { BACKEND_TYPE: 'memory', STATSD_HOST: 'a' })
  expect(checked.code).toBe(0)
  expect(checked.output).toContain('Configuration is valid.\n')
  expect(checked.output).toContain('STATSD_HOST: no effect: metrics are not sent to statsd')
  const named = await run(['--config', 'sluice.yaml'], { BACKEND_TYPE: 'memory' })
  expect(named).toEqual({
    code: 2,
    output: '--config: no effect with --as-envoy-ratelimit, which reads variables alone\n',
  })
})
