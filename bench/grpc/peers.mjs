/**
 * The peers, which are programs of Go and Rust: each by its path, or from the PATH. Each has one
 * core, like every subject, and the same limits as Sluice.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../../tools/ports.mjs'
import { startProgram } from '../gateway/processes.mjs'
import { isAnswering } from './client.mjs'
import { DOMAIN, KEYS, PLENTY } from './messages.mjs'
import { GUBERNATOR, RATE_LIMIT_SERVICE } from './services.mjs'
import { DOMAIN_FILE } from './sluice.mjs'

const HOST = '127.0.0.1'
const HOUR_S = 3600
/** More than a run of the benchmark has entries. */
const CACHE_BYTES = 1_000_000
/** Go runs as many threads at once as it has cores, which it does not know of taskset. */
const ONE_CORE = { GOMAXPROCS: '1' }
/** Where a gubernator finds itself; it listens on this port whatever is configured. */
const MEMBERS = `${HOST}:7946`

const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-peers-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))

/** Whether a program is there, under its path or on the PATH. */
export function isInstalled(program) {
  return spawnSync('which', [program]).status === 0
}

/** Answers from its cache without Redis only what is refused, so only that needs a cache. */
export async function startRateLimit(program, { redis, pipelineWindow, hasCache = false }) {
  const config = join(folder, 'ratelimit', 'config')
  mkdirSync(config, { recursive: true })
  writeFileSync(join(config, 'bench.yaml'), DOMAIN_FILE)
  const [port, httpPort, debugPort] = [await freePort(), await freePort(), await freePort()]
  const env = {
    ...ONE_CORE,
    HOST,
    PORT: `${httpPort}`,
    GRPC_HOST: HOST,
    GRPC_PORT: `${port}`,
    DEBUG_HOST: HOST,
    DEBUG_PORT: `${debugPort}`,
    RUNTIME_ROOT: folder,
    RUNTIME_SUBDIRECTORY: 'ratelimit',
    RUNTIME_WATCH_ROOT: 'false',
    USE_STATSD: 'false',
    LOG_LEVEL: 'error',
    BACKEND_TYPE: 'redis',
    REDIS_SOCKET_TYPE: 'tcp',
    REDIS_URL: redis.replace('redis://', ''),
    ...(pipelineWindow && { REDIS_PIPELINE_WINDOW: pipelineWindow, REDIS_PIPELINE_LIMIT: '0' }),
    ...(hasCache && { LOCAL_CACHE_SIZE_IN_BYTES: `${CACHE_BYTES}` }),
  }
  return start(program, { env, port, service: RATE_LIMIT_SERVICE })
}

export async function startLimitador(program, { redis }) {
  const limits = join(folder, 'limitador.yaml')
  const limitOf = (key, max) => ({
    namespace: DOMAIN,
    max_value: max,
    seconds: HOUR_S,
    conditions: [],
    variables: [`descriptors[0].${key}`],
  })
  const all = [limitOf(KEYS.admitted, PLENTY), limitOf(KEYS.refused, 1)]
  writeFileSync(limits, JSON.stringify(all))
  const [port, httpPort] = [await freePort(), await freePort()]
  const listen = ['--rls-ip', HOST, '--rls-port', `${port}`, '--http-ip', HOST]
  const store = redis === undefined ? ['memory'] : ['redis', redis]
  const args = [...listen, '--http-port', `${httpPort}`, limits, ...store]
  const env = { TOKIO_WORKER_THREADS: '1', RUST_LOG: 'error' }
  return start(program, { args, env, port, service: RATE_LIMIT_SERVICE })
}

export async function startGubernator(program) {
  const [port, httpPort] = [await freePort(), await freePort()]
  const config = join(folder, 'gubernator.conf')
  const lines = [
    `GUBER_GRPC_ADDRESS=${HOST}:${port}`,
    `GUBER_HTTP_ADDRESS=${HOST}:${httpPort}`,
    `GUBER_ADVERTISE_ADDRESS=${HOST}:${port}`,
    'GUBER_PEER_DISCOVERY_TYPE=member-list',
    `GUBER_MEMBERLIST_ADDRESS=${MEMBERS}`,
    `GUBER_MEMBERLIST_ADVERTISE_ADDRESS=${MEMBERS}`,
    `GUBER_MEMBERLIST_KNOWN_NODES=${MEMBERS}`,
    'GUBER_LOG_LEVEL=error',
  ]
  writeFileSync(config, `${lines.join('\n')}\n`)
  // Spans are for a collector, of which there is none.
  const env = { ...ONE_CORE, OTEL_TRACES_EXPORTER: 'none' }
  const args = ['-config', config]
  return start(program, { args, env, port, service: GUBERNATOR })
}

async function start(program, { args, env, port, service }) {
  const url = `http://${HOST}:${port}`
  const { path, request, kindOf } = service
  const call = { url, path, request: request('admitted'), kindOf, wanted: 'admitted' }
  const isReady = () => isAnswering(call)
  const { pid } = await startProgram('subject', program, { args, env, isReady })
  return { pid, url }
}
