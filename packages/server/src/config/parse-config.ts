/**
 * Parses the configuration of a server: a YAML or JSON file, overridden by the environment, over
 * defaults. Like the reader of rules, it reports all problems at once, each with its place.
 */
import { dirname, resolve } from 'node:path'
import {
  reportAt,
  createDiagnostics,
  DOCUMENT,
  fieldOf,
  type MapNode,
  type Problem,
  readBoolean,
  readDocument,
  readOptional,
  type Located,
} from '@sluice/core/config-reader'
import { MEMORY_COUNTERS_DEFAULT, MEMORY_COUNTERS_MAX } from '@sluice/limiter'
import { checkSettings } from './cross-field-checks.js'
import type { Config } from './config.js'
import { readEnvironment } from './environment.js'
import { emptyMap, readFields, readExplicit, readSection, resolveSetting } from './fields.js'
import { readAdmin, readApi, type ConfigSources } from './parse-listeners.js'
import { readAlerts } from './parse-alerts.js'
import { readDecisionLog } from './parse-decision-log.js'
import { readDatabase } from './parse-database.js'
import { readEnvoy } from './parse-envoy.js'
import { readGateway } from './parse-gateway.js'
import { readIdentity } from './parse-identity.js'
import { readRedis } from './parse-redis.js'
import { readRegionsConfig } from './parse-regions.js'
import { readRing } from './parse-ring.js'
import { readTrustedProxies } from './trusted-proxies.js'
import { readDuration, readFileName, readStatus, readInteger, readWord, WORKERS } from './values.js'
import type { Environment } from './variables.js'

/** The maximum size of a file: 10,000 keys with their users take less than half of it. */
const TEXT_LENGTH_MAX = 4 * 1024 * 1024
const DATA_DIR = '.sluice'
const MAX_COUNTERS = { least: 1000, most: MEMORY_COUNTERS_MAX }
const FORWARDED_HEADERS = ['x-forwarded-for', 'forwarded'] as const
const POSTURE_STATUSES = [429, 503] as const
const LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const
const CALLERS = ['hash', 'clear'] as const
const DELAY = { least: '0ms', most: '60s' }
const DELAY_MS_DEFAULT = 1000
/** The minimum is the number of versions that are kept whatever their age. */
const HISTORY_VERSIONS = { least: 100, most: 1_000_000 }
const HISTORY_VERSIONS_DEFAULT = 10_000
const HISTORY_AGE = { least: '1d', most: '3650d' }
const WITHIN = { least: '1s', most: '10m' }
const WITHIN_MS_DEFAULT = 10_000

const FIELDS: readonly string[] = [
  'rules',
  'allowNoRules',
  'rulesHistory',
  'dataDir',
  'workers',
  'trustedProxies',
  'forwardedHeader',
  'maxCounters',
  'redis',
  'region',
  'ring',
  'regions',
  'database',
  'gateway',
  'api',
  'envoy',
  'admin',
  'identity',
  'refusals',
  'log',
  'alerts',
  'decisionLog',
  'telemetry',
  'shutdown',
]

/** `field` is a field of the file, or the name of a variable. */
type ConfigProblem = Omit<Problem, 'rule'>

export interface ParseConfigOptions {
  /** The file of the text. Messages name it, and relative file names start at its folder. */
  readonly file: string | undefined
  readonly env: Environment
  /** Reads the files of tokens; may throw. */
  readonly readFile: (path: string) => string
}

export interface ParsedConfig {
  /** Undefined if there are errors. */
  readonly config: Config | undefined
  readonly errors: readonly ConfigProblem[]
  readonly warnings: readonly ConfigProblem[]
}

/** Never throws. Without a text, every value is from the environment or the default. */
export function parseConfig(text: string | undefined, options: ParseConfigOptions): ParsedConfig {
  const { file, env, readFile } = options
  // Some editors begin a file with a byte order mark, which is not part of the first line.
  const plain = (text ?? '').replace(/^\ufeff/, '')
  const collector = createDiagnostics({ file, strict: false, text: plain })
  const environment = readEnvironment(env)
  const root = readRoot(plain, collector.report)
  const folder = file === undefined ? '.' : dirname(file)
  const { overrides } = environment
  const config = root && readConfig(root, { folder, readFile, overrides, file })
  const own = collector.finish()
  const others = environment.finish()
  const errors = [...own.errors, ...others.errors]
  const warnings = [...own.warnings, ...others.warnings]
  return { config: errors.length === 0 ? config : undefined, errors, warnings }
}

function readRoot(text: string, report: Located['report']): Located<MapNode> | undefined {
  if (text.length > TEXT_LENGTH_MAX) {
    const found = `${text.length} characters`
    const accepted = `up to ${TEXT_LENGTH_MAX} characters`
    return report({ code: 'too-large', at: 0, field: DOCUMENT, found, accepted })
  }
  const tree = readDocument(text)
  if (tree.root === undefined) {
    for (const problem of tree.problems) report({ field: DOCUMENT, ...hideSource(problem) })
    return undefined
  }
  const { root } = tree
  // A file with only comments means the defaults.
  if (root.kind === 'scalar' && root.value === null) return emptyMap(DOCUMENT, report)
  return readFields({ node: root, field: DOCUMENT, report }, FIELDS)
}

/** Text that cannot be parsed may be a secret: the problem shows its place and no text. */
function hideSource<T extends { readonly found: string; readonly why?: string }>(problem: T): T {
  const found = problem.found.startsWith('"') ? 'this place' : problem.found
  const shown = found.startsWith('the tag ') ? 'a tag' : found
  const { why } = problem
  if (why === undefined) return { ...problem, found: shown }
  return { ...problem, found: shown, why: why.replace(/(: | sequence ).*$/s, '') }
}

function readConfig(
  root: Located<MapNode>,
  { file, ...sources }: ConfigSources & { readonly file: string | undefined },
): Config {
  const { overrides, folder } = sources
  const readFileIn = (located: Located) => readFileName(located, folder)
  const rules = readExplicit(root, 'rules', readFileIn)
  const allowNoRules = readExplicit(root, 'allowNoRules', readBoolean)
  const dataDir = readExplicit(root, 'dataDir', readFileIn)
  const workers = readExplicit(root, 'workers', (located) => readInteger(located, WORKERS))
  const proxies = readExplicit(root, 'trustedProxies', readTrustedProxies)
  const maxCounters = readOptional(root, 'maxCounters', (located) =>
    readInteger(located, MAX_COUNTERS),
  )
  const forwardedHeader = readOptional(root, 'forwardedHeader', (located) =>
    readWord(located, FORWARDED_HEADERS),
  )
  const resolved = {
    workers: resolveSetting(overrides.workers, workers, 1),
    trustedProxies: resolveSetting(overrides.trustedProxies, proxies, []),
  }
  const redis = readRedis(root, sources)
  const database = readDatabase(root, sources)
  const gateway = readGateway(root, sources)
  const api = readApi(root, sources)
  const envoy = readEnvoy(root, sources)
  const admin = readAdmin(root, sources)
  const hasUsage = gateway.config.upstreams.some(({ usage }) => usage !== undefined)
  const identity = readIdentity(root, { folder, hasUsage })
  const config: Config = {
    file,
    rules: (overrides.rules ?? rules)?.value,
    allowNoRules: resolveSetting(overrides.allowNoRules, allowNoRules, false).value,
    dataDir: resolveSetting(overrides.dataDir, dataDir, resolve(DATA_DIR)).value,
    workers: resolved.workers.value,
    trustedProxies: resolved.trustedProxies.value,
    forwardedHeader: forwardedHeader ?? 'x-forwarded-for',
    keySecret: overrides.keySecret?.value,
    maxCounters: maxCounters ?? MEMORY_COUNTERS_DEFAULT,
    redis: redis.config,
    ring: readRing(root, { ...sources, redisUrl: redis.url, workers: resolved.workers }),
    regions: readRegionsConfig(root, { ...sources, redisUrl: redis.url }),
    database: database.config,
    rulesHistory: readRulesHistory(root),
    gateway: gateway.config,
    api: api.config,
    envoy: envoy.config,
    admin: admin.config,
    identity: identity.config,
    alerts: readAlerts(root, sources),
    decisionLog: readDecisionLog(root, folder),
    telemetry: readOptional(root, 'telemetry', readBoolean) ?? true,
    ...readRuntimeSettings(root),
  }
  checkSettings({
    ...resolved,
    databaseUrl: database.url,
    rules: resolveSetting<string | undefined>(overrides.rules, rules, undefined),
    gatewayListen: gateway.listen,
    apiListen: api.listen,
    apiToken: api.token,
    grpcListen: envoy.listen,
    envoy: envoy.config,
    reflection: envoy.reflection,
    adminListen: admin.listen,
    adminToken: admin.token,
    proxyHeaders: identity.proxyHeaders,
  })
  return config
}

function readRulesHistory(root: Located<MapNode>): Config['rulesHistory'] {
  const map = readSection(root, 'rulesHistory', ['versions', 'age'])
  return {
    versions:
      readOptional(map, 'versions', (located) => readInteger(located, HISTORY_VERSIONS)) ??
      HISTORY_VERSIONS_DEFAULT,
    ageMs: readOptional(map, 'age', (located) => readDuration(located, HISTORY_AGE)),
  }
}

/** Settings of refusals, logs and shutdown. */
function readRuntimeSettings(
  root: Located<MapNode>,
): Pick<Config, 'refusals' | 'log' | 'shutdown'> {
  const refusals = readSection(root, 'refusals', ['postureStatus', 'shedStatus', 'jitter'])
  const log = readSection(root, 'log', ['level', 'callers'])
  return {
    refusals: {
      postureStatus:
        readOptional(refusals, 'postureStatus', (located) =>
          readStatus(located, POSTURE_STATUSES),
        ) ?? 429,
      shedStatus:
        readOptional(refusals, 'shedStatus', (located) => readStatus(located, POSTURE_STATUSES)) ??
        429,
      jitter: readOptional(refusals, 'jitter', readBoolean) ?? true,
    },
    log: {
      level: readOptional(log, 'level', (located) => readWord(located, LEVELS)) ?? 'info',
      callers: readOptional(log, 'callers', (located) => readWord(located, CALLERS)) ?? 'hash',
    },
    shutdown: readShutdown(root),
  }
}

function readShutdown(root: Located<MapNode>): Config['shutdown'] {
  const map = readSection(root, 'shutdown', ['delay', 'within'])
  const read = (key: string, bounds: typeof DELAY) =>
    readExplicit(map, key, (located) => readDuration(located, bounds))
  const delay = resolveSetting(undefined, read('delay', DELAY), DELAY_MS_DEFAULT)
  const within = resolveSetting(undefined, read('within', WITHIN), WITHIN_MS_DEFAULT)
  const [delayMs, withinMs] = [delay.value, within.value]
  if (delay.isRead && within.isRead && delayMs >= withinMs) {
    const located = delay.located ?? within.located ?? fieldOf(root, 'shutdown') ?? root
    const accepted = `a delay shorter than within: ${delayMs} ms is not below ${withinMs} ms`
    reportAt(located, 'bad-value', { accepted })
  }
  return { delayMs, withinMs }
}
