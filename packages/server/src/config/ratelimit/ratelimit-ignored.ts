/**
 * Variables of envoyproxy/ratelimit that have no effect here, grouped by the reason. One that is
 * set to more than its default is logged, so that nobody relies on it.
 */
import type { Environment } from '../variables.js'

/** Variables that were set and have no effect, with one reason for all of them. */
export interface IgnoredVariables {
  readonly variables: readonly string[]
  readonly why: string
}

interface IgnoredGroup {
  readonly names: readonly string[]
  readonly why: string
}

const GROUPS: readonly IgnoredGroup[] = [
  {
    names: [
      'USE_STATSD',
      'STATSD_HOST',
      'STATSD_PORT',
      'USE_DOG_STATSD',
      'USE_DOG_STATSD_MOGRIFIERS',
      'EXTRA_TAGS',
      'STATS_FLUSH_INTERVAL',
      'DISABLE_STATS',
    ],
    why: 'metrics are not sent to statsd; USE_PROMETHEUS=true serves them',
  },
  {
    names: ['PROMETHEUS_MAPPER_YAML', 'PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS'],
    why: 'metrics have the names and units of the built-in mapping',
  },
  {
    names: [
      'REDIS_POOL_SIZE',
      'REDIS_PIPELINE_WINDOW',
      'REDIS_PIPELINE_LIMIT',
      'REDIS_POOL_ON_EMPTY_BEHAVIOR',
      'REDIS_CLUSTER_PIPELINE_PARALLELISM',
      'REDIS_STARTUP_INITIAL_INTERVAL',
      'REDIS_STARTUP_MAX_INTERVAL',
      'REDIS_STARTUP_MAX_ELAPSED_TIME',
    ],
    why: 'one connection to each Redis node carries all requests in batches',
  },
  {
    names: ['REDIS_TIMEOUT', 'REDIS_HEALTH_CHECK_ACTIVE_CONNECTION'],
    why:
      'a request waits for Redis until its deadline (SLUICE_STORE_DEADLINE_MS), and is decided ' +
      'without it after that; Redis has no part in the health',
  },
  {
    names: [
      'REDIS_PERSECOND',
      'REDIS_PERSECOND_SOCKET_TYPE',
      'REDIS_PERSECOND_TYPE',
      'REDIS_PERSECOND_URL',
      'REDIS_PERSECOND_AUTH',
      'REDIS_PERSECOND_SENTINEL_AUTH',
      'REDIS_PERSECOND_TLS',
      'REDIS_PERSECOND_POOL_SIZE',
      'REDIS_PERSECOND_PIPELINE_WINDOW',
      'REDIS_PERSECOND_PIPELINE_LIMIT',
      'REDIS_PERSECOND_TIMEOUT',
      'REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR',
    ],
    why: 'there is no second Redis: limits per second are counted in that of REDIS_URL too',
  },
  {
    names: ['EXPIRATION_JITTER_MAX_SECONDS', 'LOCAL_CACHE_SIZE_IN_BYTES'],
    why: 'refusals are cached for up to a second, and keys expire with their windows',
  },
  {
    names: [
      'CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL',
      'XDS_CLIENT_BACKOFF_RANDOM_FACTOR',
      'XDS_CLIENT_BACKOFF_JITTER',
    ],
    why: 'pauses between streams double, and half of each is random',
  },
  {
    names: ['RUNTIME_IGNOREDOTFILES', 'RUNTIME_WATCH_ROOT'],
    why: 'hidden files are never read, and every change of the directory is noticed',
  },
  {
    names: ['GRPC_MAX_CONNECTION_AGE_GRACE'],
    why: 'a connection that is too old ends when its calls are answered',
  },
  { names: ['LOG_FORMAT'], why: 'each line of the log is JSON' },
  {
    names: [
      'TRACING_ENABLED',
      'TRACING_EXPORTER_PROTOCOL',
      'TRACING_SERVICE_NAME',
      'TRACING_SERVICE_NAMESPACE',
      'TRACING_SERVICE_INSTANCE_ID',
      'TRACING_SAMPLING_RATE',
    ],
    why: 'the rate limit service has no spans',
  },
]

/** Values that ask for what happens anyway. */
const HARMLESS: Readonly<Record<string, RegExp>> = {
  USE_STATSD: /^(?:0|f|false)$/i,
  USE_DOG_STATSD: /^(?:0|f|false)$/i,
  DISABLE_STATS: /^(?:0|f|false)$/i,
  PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS: /^(?:0|f|false)$/i,
  REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: /^(?:0|f|false)$/i,
  REDIS_PERSECOND: /^(?:0|f|false)$/i,
  LOCAL_CACHE_SIZE_IN_BYTES: /^0$/,
  XDS_CLIENT_BACKOFF_JITTER: /^(?:1|t|true)$/i,
  RUNTIME_IGNOREDOTFILES: /^(?:1|t|true)$/i,
  RUNTIME_WATCH_ROOT: /./,
  LOG_FORMAT: /^json$/i,
  TRACING_ENABLED: /^(?:0|f|false)$/i,
}

/** A group whose first variable turns the others on: without it they mean nothing anyway. */
const SWITCHES: ReadonlySet<string> = new Set(['USE_STATSD', 'REDIS_PERSECOND', 'TRACING_ENABLED'])

export function findIgnored(env: Environment): readonly IgnoredVariables[] {
  return GROUPS.flatMap(({ names, why }) => {
    const [first = ''] = names
    const set = names.filter((name) => isSet(env, name))
    if (set.length === 0 || (SWITCHES.has(first) && isOff(env, first))) return []
    return [{ variables: set, why }]
  })
}

function isSet(env: Environment, name: string): boolean {
  const value = env[name]
  return value !== undefined && value !== '' && HARMLESS[name]?.test(value) !== true
}

/** Whether it is explicitly off, so that the others of its group are left over. */
function isOff(env: Environment, name: string): boolean {
  const value = env[name]
  return value !== undefined && HARMLESS[name]?.test(value) === true
}
