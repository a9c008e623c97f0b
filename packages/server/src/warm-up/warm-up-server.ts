/**
 * A server for warm-up alone: the code of the real entry points over a rule, a counter and an
 * upstream of its own. It has no access to the users' rules, counters, upstreams, statistics or
 * log, so a client that reached it would reach nothing; and it listens on loopback only while
 * warm-up runs.
 */
import { randomBytes } from 'node:crypto'
import { parseCidr } from '@sluice/core'
import { createLimiter, type Limiter, type Store } from '@sluice/limiter'
import { Closers } from '../lib/closers.js'
import { monotonicMs, wallClock } from '../lib/wall-clock.js'
import type { Config } from '../config/config.js'
import { upstreamAt } from '../config/parse-gateway.js'
import { createDecider, type Decider } from '../decide.js'
import { startEcho } from '../startup/echo.js'
import {
  openDecisionApi,
  openGateway,
  startClosable,
  startListener,
} from '../entrypoints/entrypoint.js'
import { openEnvoy } from '../entrypoints/envoy/open-envoy.js'
import { openRateLimitService } from '../entrypoints/envoy/open-service.js'
import { warmUpConfigSource } from '../entrypoints/envoy/warm-up-calls.js'
import { createIdentifier } from '../identity/identify.js'
import { createDegradedLog } from '../observability/log/degraded-log.js'
import { createLogger } from '../observability/log/logger.js'
import { createRefusalLog } from '../observability/log/refusal-log.js'
import { createDecisionMetrics } from '../observability/metrics/decision-metrics.js'
import { createRegistry, type Registry } from '../observability/metrics/registry.js'
import { createRemainingMetrics } from '../observability/metrics/remaining-metrics.js'
import { describeNode } from '../rules/sync/open-rule-follower.js'
import { CallerTracker } from '../observability/stats/callers/caller-tracker.js'
import { DistinctCallers } from '../observability/stats/distinct-callers.js'
import { NodeStats } from '../observability/stats/node-stats.js'
import { responseClock } from '../counter-store/response-clock.js'

/** Windows so short that counters expire by themselves soon after. */
const WINDOW = '1s'
const PLENTY = 1_000_000
const ALGORITHMS = ['fixed-window', 'token-bucket', 'sliding-window-counter'] as const
/** Its calls match the limits of all algorithms at once. */
const EVERY_LIMIT_PATH = '/every-limit'
const REFUSED_PATH = '/refused'
/** Each runs other code: one script for each algorithm, one for several limits. */
export const WARM_UP_PATHS = [
  ...ALGORITHMS.map((algorithm) => `/${algorithm}`),
  EVERY_LIMIT_PATH,
  REFUSED_PATH,
]
const RULES = [
  ...ALGORITHMS.map((algorithm) => ({
    id: `sluice-warm-up-${algorithm}`,
    match: { path: `/${algorithm}` },
    by: ['ip'],
    limits: [{ algorithm, max: PLENTY, window: WINDOW }],
  })),
  {
    id: 'sluice-warm-up-every-limit',
    match: { path: EVERY_LIMIT_PATH },
    by: ['ip'],
    limits: ALGORITHMS.map((algorithm) => ({
      name: algorithm,
      algorithm,
      max: PLENTY,
      window: WINDOW,
    })),
  },
  {
    id: 'sluice-warm-up-refused',
    match: { path: REFUSED_PATH },
    by: ['ip'],
    limits: [{ algorithm: 'fixed-window', max: 1, window: WINDOW }],
  },
]
const LOOPBACK = '127.0.0.1'
const LISTEN = { host: LOOPBACK, port: 0 }
const TOKEN_BYTES = 32

export interface WarmUpServer {
  readonly gateway: string
  readonly api: string
  /** Host and port of the rate limit service for Envoy. */
  readonly grpc: string
  /** The token of the decision API. */
  readonly token: string
  close(): Promise<void>
}

/** `store` is closed with the server. */
export async function openWarmUpServer(config: Config, store: Store): Promise<WarmUpServer> {
  const closers = new Closers()
  try {
    // Its own secret: no counter of a real rule can have the same name.
    const limiter = createLimiter({ rules: RULES, store, secret: randomBytes(16) })
    closers.add(() => limiter.close())
    const echo = await startEcho({ exclusive: true })
    closers.add(() => echo.close())
    const token = randomBytes(TOKEN_BYTES).toString('hex')
    const own = warmUpConfig(config, { token, upstream: echo.origin })
    const log = silentLog()
    const { decider, registry, close: closeDecider } = openDecider(own, limiter, log)
    closers.add(closeDecider)
    const identifier = createIdentifier({
      config: own.identity,
      trustedProxies: own.trustedProxies,
      forwardedHeader: own.forwardedHeader,
      secret: randomBytes(16),
    })
    const deps = {
      decider,
      identifier,
      log,
      describeAddress: (address: string) => address,
      responseClock: responseClock(store, wallClock),
      exclusive: true,
    }
    const gateway = openGateway(own, {
      ...deps,
      onUpstreamFailure: () => {},
      onSlowUpload: () => {},
    })
    const api = openDecisionApi(own, {
      ...deps,
      adminToken: randomBytes(TOKEN_BYTES).toString('hex'),
      hideSecrets: (attributes) => attributes,
      readiness: () => ({ ready: false, reasons: [], store: null }),
    })
    closers.add(() => gateway.close())
    const service = openRateLimitService(own, {
      ...deps,
      envoyConfig: warmUpConfigSource(),
      registry,
      hideSecrets: (attributes) => attributes,
      random: Math.random,
    })
    const envoy = openEnvoy(own, {
      ...deps,
      service,
      quotas: undefined,
      isReady: () => false,
      registry,
      random: Math.random,
    })
    return {
      gateway: await startListener(gateway.listener, closers),
      api: await startListener(api, closers),
      grpc: (await startClosable(envoy.listener, closers)).target,
      token,
      close: () => closers.close(),
    }
  } catch (error) {
    return closers.closeAndThrow(error)
  }
}

interface WarmUpSettings {
  readonly token: string
  readonly upstream: string
}

function warmUpConfig(config: Config, { token, upstream }: WarmUpSettings): Config {
  const { gateway, api, envoy, identity } = config
  const proxy = parseCidr(`${LOOPBACK}/32`)
  return {
    ...config,
    gateway: {
      ...gateway,
      listen: LISTEN,
      tls: undefined,
      upstreams: [upstreamAt(upstream)],
      requireUser: [],
    },
    api: { ...api, listen: LISTEN, tls: undefined, token },
    envoy: { ...envoy, listen: LISTEN, tls: undefined, shadow: false, domains: new Map() },
    identity: { ...identity, keys: [], jwt: undefined },
    trustedProxies: 'problem' in proxy ? [] : [proxy],
  }
}

/** Observes decisions like the real server, with statistics that are dropped. */
function openDecider(
  config: Config,
  limiter: Limiter,
  log: ReturnType<typeof silentLog>,
): { readonly decider: Decider; readonly registry: Registry; readonly close: () => void } {
  const registry = createRegistry()
  const clock = wallClock
  const metrics = createDecisionMetrics(registry)
  const times = registry.histogram('sluice_decision_seconds', 'Unread.', [0.001, 0.01, 0.1])
  const refusals = createRefusalLog({
    log,
    clock,
    callers: config.log.callers,
    secretAttributes: [],
  })
  const degraded = createDegradedLog({ log, clock })
  const nowMs = clock.now()
  const observability = new NodeStats({
    node: describeNode(clock),
    rulesVersion: () => 0,
    metrics,
    decisionTimes: times,
    storeTimes: undefined,
    storeHealth: () => {
      throw new Error('warm-up: nothing asks for its figures')
    },
    callers: new CallerTracker(nowMs),
    distinct: new DistinctCallers(),
    remaining: createRemainingMetrics(registry),
    nowMs,
  })
  const decider = createDecider({
    limiter,
    metrics,
    observability,
    refusals,
    degraded,
    times,
    nowMs: monotonicMs,
  })
  return {
    decider,
    registry,
    close() {
      refusals.close()
      degraded.close()
    },
  }
}

/** Log lines are formatted and dropped. */
function silentLog() {
  return createLogger({
    level: 'info',
    destination: {
      write: () => true,
      isBusy: () => false,
      flush: async () => {},
      flushNow: () => {},
      lost: () => 0,
    },
  })
}
