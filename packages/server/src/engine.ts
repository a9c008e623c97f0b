/** The engine: everything between a call and its decision, without any listener. */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { createLimiter, type Limiter, type LimiterOptions } from '@sluice/limiter'
import { loopLoad } from '@sluice/limiter/node'
import { monotonicMs, type WallClock, wallClock } from './lib/wall-clock.js'
import { Closers } from './lib/closers.js'
import type { Config } from './config/config.js'
import { createDecider, type Decider } from './decide.js'
import { type FileWatcher, watchFile } from '@sluice/limiter/internal'
import { createIdentifier, type Identifier } from './identity/identify.js'
import { RegisteredKeys } from './identity/api-keys/known-keys.js'
import { createTokenVerifier } from './identity/jwt/token-verifier.js'
import { createDegradedLog, type DegradedLog } from './observability/log/degraded-log.js'
import { UpstreamHealth } from './entrypoints/gateway/upstream-health.js'
import type { Log } from './observability/log/logger.js'
import { createRefusalLog, type RefusalLog } from './observability/log/refusal-log.js'
import { createDecisionMetrics } from './observability/metrics/decision-metrics.js'
import type { ReadableHistogram } from './observability/metrics/histogram.js'
import { createRegistry, type Registry } from './observability/metrics/registry.js'
import { SheddingMetrics } from './observability/metrics/shedding-metrics.js'
import {
  type Observability,
  openObservability,
  type WorkerDeps,
} from './observability/observability.js'
import type { RulesFileContent } from './startup/preflight.js'
import {
  describeNode,
  type NodeInfo,
  openRuleFollower,
  type SharedStore,
} from './rules/sync/open-rule-follower.js'
import type { RuleFollower } from './rules/sync/rule-follower.js'
import type { RingPlace } from './counter-store/open-ring.js'
import { type CounterStore, openStore } from './counter-store/open-store.js'
import { openTelemetry, type Telemetry } from './observability/tracing/telemetry.js'

export interface Engine {
  readonly decider: Decider
  readonly identifier: Identifier
  readonly registry: Registry
  readonly ruleFollower: RuleFollower
  readonly node: NodeInfo
  readonly counterStore: CounterStore
  readonly refusals: RefusalLog
  readonly degraded: DegradedLog
  readonly upstreamHealth: UpstreamHealth
  readonly observability: Observability
  /** Undefined: no spans. */
  readonly telemetry: Telemetry | undefined
  close(): Promise<void>
}

/** How long to wait for a store on close; one that does not answer expires this node itself. */
const CLOSE_MS_MAX = 250
/** The same where other regions are told what they do not know yet, which is given a second. */
const CLOSE_REGIONS_MS_MAX = 1250
/** Histogram buckets from 5 us, above a decision in memory, to 1 s. */
const SECONDS = [
  0.000005, 0.00001, 0.000025, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
  0.1, 0.25, 0.5, 1,
]

export interface EngineOptions {
  /** The rules file, already read; undefined: rules are in a rule store. */
  readonly rules: RulesFileContent | 'none' | undefined
  /** Whether nothing is configured, so that a new rule store starts with the example rules. */
  readonly isExample: boolean
  /** The rule store that the primary process has open for its workers. */
  readonly store?: SharedStore | undefined
  /** Undefined where there is only one process. */
  readonly worker?: (WorkerDeps & RingPlace) | undefined
}

export async function startEngine(
  config: Config,
  log: Log,
  options: EngineOptions,
): Promise<Engine> {
  const closers = new Closers()
  try {
    return await openEngine(config, options, { log, closers })
  } catch (error) {
    return closers.closeAndThrow(error)
  }
}

async function openEngine(
  config: Config,
  options: EngineOptions,
  { log, closers }: { readonly log: Log; readonly closers: Closers },
): Promise<Engine> {
  const clock = wallClock
  const registry = createRegistry()
  const counterStore = await openStore(config, { log, clock, registry }, options.worker)
  const { secret } = counterStore
  const loop = loopLoad()
  closers.add(() => loop.close())
  const limiter = openLimiter(config, counterStore, loop.load)
  const closeMs = config.regions === undefined ? CLOSE_MS_MAX : CLOSE_REGIONS_MS_MAX
  closers.add(() => Promise.race([limiter.close(), sleep(closeMs, undefined, { ref: false })]))
  const keys = new RegisteredKeys()
  const node = describeNode(clock)
  const followerDeps = { limiter, keys, log, clock, ...options }
  const ruleFollower = await openRuleFollower(config, node, followerDeps)
  counterStore.showRulesVersion?.(() => ruleFollower.version())
  closers.add(() => ruleFollower.close())
  const identifier = await openIdentifier(config, { secret, log, keys, closers })
  const logs = openLogs(config, { registry, log, clock, closers })
  const shedding = new SheddingMetrics(registry, {
    stats: () => limiter.shedding,
    loopDelayMs: () => loop.delayMs,
  })
  const metrics = createDecisionMetrics(registry, shedding)
  const times = decisionTimes(registry)
  const observability = await openObservability(config, {
    registry,
    log,
    clock,
    node,
    ruleFollower,
    counterStore,
    metrics,
    shedding,
    inFlight: () => limiter.inFlight,
    upstreamHealth: logs.upstreamHealth,
    decisionTimes: times,
    worker: options.worker,
  })
  closers.add(() => observability.close())
  const telemetry = await openTelemetry(config.telemetry, log)
  closers.add(telemetry?.bridge(registry) ?? (() => {}))
  closers.add(counterStore.startMaintenance(limiter))
  // First of all: it releases the folder of the rule store, and a webhook may hold up the rest.
  // Closing it again in its turn does nothing.
  closers.add(() => ruleFollower.close())
  const decider = createDecider({
    limiter,
    metrics,
    observability,
    ...logs,
    times,
    nowMs: monotonicMs,
  })
  return {
    decider,
    identifier,
    registry,
    ruleFollower,
    node,
    counterStore,
    ...logs,
    observability,
    telemetry,
    close: () => closers.close(),
  }
}

/** The rule follower adds the rules; until then the limiter decides nothing. */
function openLimiter(
  config: Config,
  { store, secret }: CounterStore,
  load: LimiterOptions['load'],
): Limiter {
  const { ipv6Prefix } = config.identity
  return createLimiter({ rules: undefined, store, secret, ipv6Prefix, load })
}

interface LogDeps {
  readonly registry: Registry
  readonly log: Log
  readonly clock: WallClock
  readonly closers: Closers
}

/** Opens the logs of events that any call may cause; they log counts, not each event. */
function openLogs(config: Config, { closers, ...deps }: LogDeps) {
  const { callers } = config.log
  const { upstreams } = config.gateway
  const logs = {
    refusals: createRefusalLog({ ...deps, callers, secretAttributes: secretAttributes(config) }),
    degraded: createDegradedLog(deps),
    upstreamHealth: new UpstreamHealth({ ...deps, upstreams }),
  }
  for (const log of Object.values(logs)) closers.add(() => log.close())
  return logs
}

function decisionTimes(registry: Registry): ReadableHistogram {
  const help = 'Decision latency in seconds. Decisions in memory are sampled.'
  return registry.histogram('sluice_decision_seconds', help, SECONDS)
}

/** Attributes whose values are never shown. */
export function secretAttributes({ identity }: Config): readonly string[] {
  return ['api_key', ...identity.headers.flatMap(({ attribute, open }) => (open ? [] : attribute))]
}

interface IdentifierDeps {
  readonly secret: Uint8Array
  readonly log: Log
  readonly keys: RegisteredKeys
  readonly closers: Closers
}

async function openIdentifier(
  config: Config,
  { secret, log, keys: registered, closers }: IdentifierDeps,
): Promise<Identifier> {
  const { identity, trustedProxies, forwardedHeader } = config
  const { ipv6Prefix, jwt } = identity
  const warn = (message: string) => log.warn({}, message)
  const tokens =
    jwt === undefined
      ? undefined
      : await createTokenVerifier({ config: jwt, ipv6Prefix, clock: wallClock, warn })
  const identifier = createIdentifier({
    config: identity,
    trustedProxies,
    forwardedHeader,
    secret,
    tokens,
    registered,
  })
  closers.add(() => identifier.close())
  for (const { file } of jwt?.keys ?? []) {
    const watcher = followKeyFile(file, identifier, log)
    closers.add(() => watcher.close())
  }
  return identifier
}

/** Reloads a JWT key file when it changes; an invalid file leaves the active keys in place. */
function followKeyFile(file: string, identifier: Identifier, log: Log): FileWatcher {
  const fail = (error: unknown) =>
    log.error({ file, problem: String(error) }, 'jwt: key file rejected; the active keys stay')
  const reload = () => {
    identifier.reload().then(() => log.info({ file }, 'jwt: key file reloaded'), fail)
  }
  return watchFile(file, reload, { known: readFileSync(file, 'utf8'), onError: fail })
}
