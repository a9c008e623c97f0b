/** The servers that are measured, and with which calls. */
import { basename } from 'node:path'
import { parseArgs } from 'node:util'
import { startServer } from '../gateway/processes.mjs'
import { isInstalled, startGubernator, startLimitador, startRateLimit } from './peers.mjs'
import { CONSTANT, GUBERNATOR, RATE_LIMIT_SERVICE } from './services.mjs'
import { startSluice } from './sluice.mjs'

const { values } = parseArgs({
  args: process.argv.slice(3),
  strict: false,
  options: {
    // The names of the programs as they are built.
    ratelimit: { type: 'string', default: 'service_cmd' },
    limitador: { type: 'string', default: 'limitador-server' },
    gubernator: { type: 'string', default: 'gubernator' },
    'pipeline-window': { type: 'string', default: '150us' },
  },
})

const constant = (name, file) => ({
  name,
  service: CONSTANT,
  calls: ['constant'],
  start: async () => {
    const { pid, urls } = await startServer('subject', file)
    return { pid, url: urls.url }
  },
})

const sluice = (server, store, headers) => ({
  name: `Sluice, ${server}${headers === 'none' ? ', no headers' : ''}`,
  store,
  service: RATE_LIMIT_SERVICE,
  calls: headers === 'none' ? ['admitted'] : ['admitted', 'refused'],
  start: (redis) => startSluice({ server, headers, redis: store === 'Redis' ? redis : undefined }),
})

const peer = (name, store, calls, options) => ({
  name,
  store,
  service: RATE_LIMIT_SERVICE,
  calls,
  ...options,
})

const BOTH = ['admitted', 'refused']

export const OWN = 'Sluice, own'
export const GRPC_JS = 'Sluice, grpc-js'

const ALL = [
  constant('http2-unary', '../grpc/lane.mjs'),
  constant('node:http2', '../grpc/node-http2.mjs'),
  constant('grpc-js', '../grpc/grpc-js.mjs'),
  sluice('own', 'memory', 'all'),
  sluice('own', 'memory', 'none'),
  sluice('grpc-js', 'memory', 'all'),
  sluice('own', 'Redis', 'all'),
  sluice('own', 'Redis', 'none'),
  sluice('grpc-js', 'Redis', 'all'),
  peer('gubernator', 'memory', BOTH, {
    service: GUBERNATOR,
    program: values.gubernator,
    start: () => startGubernator(values.gubernator),
  }),
  peer('limitador', 'memory', BOTH, {
    program: values.limitador,
    start: () => startLimitador(values.limitador, {}),
  }),
  peer('limitador', 'Redis', BOTH, {
    program: values.limitador,
    start: (redis) => startLimitador(values.limitador, { redis }),
  }),
  peer('envoyproxy/ratelimit', 'Redis', ['admitted'], {
    program: values.ratelimit,
    start: (redis) =>
      startRateLimit(values.ratelimit, { redis, pipelineWindow: values['pipeline-window'] }),
  }),
  peer('envoyproxy/ratelimit', 'Redis', ['refused'], {
    program: values.ratelimit,
    start: (redis) => startRateLimit(values.ratelimit, { redis, hasCache: true }),
  }),
]

/** Those that can be started here, and the programs that are missing. */
export function findSubjects() {
  const missing = [...new Set(ALL.map(({ program }) => program))].filter(
    (program) => program !== undefined && !isInstalled(program),
  )
  // A path that was given is of this machine only.
  const names = missing.map((program) => basename(program))
  return { subjects: ALL.filter(({ program }) => !missing.includes(program)), missing: names }
}
