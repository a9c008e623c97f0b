/**
 * Opens the entry points: the gateway, the decision API with forward-auth, the rate limit service
 * for Envoy, and the admin API.
 */
import { randomInt } from 'node:crypto'
import type { RequestListener } from 'node:http'
import { formatHash, hashTexts, sipKey } from '@sluice/core'
import { type DecisionApiDeps, createApi } from './decision-api/decision-api.js'
import { wallClock, type WallClock } from '../lib/wall-clock.js'
import type { Closers } from '../lib/closers.js'
import type { Config, ListenAddress, TlsFiles } from '../config/config.js'
import { responseClock } from '../counter-store/response-clock.js'
import type { Decider } from '../decide.js'
import { type Engine, secretAttributes } from '../engine.js'
import { openAdmin } from './admin/open-admin.js'
import { openEnvoy } from './envoy/open-envoy.js'
import { openQuotaService, openRateLimitService } from './envoy/open-service.js'
import type { EnvoyConfigSource } from './envoy/config/config-source.js'
import type { UpstreamFailure } from './gateway/forward.js'
import { Gateway } from './gateway/gateway.js'
import { createLimitsPage } from './gateway/limits-page.js'
import { Upgrades } from './gateway/upgrade.js'
import { createUpstreams } from './gateway/upstreams.js'
import { Metering } from './gateway/usage/metering.js'
import { exemptAddresses } from './http/address-bounds.js'
import { ErrorReporter } from './http/error-reporter.js'
import { sendProblem } from './http/responses.js'
import { createListener, type HttpListener } from './http/http-listener.js'
import type { Identifier } from '../identity/identify.js'
import { createSecretMasker } from '../identity/masked-value.js'
import type { Log } from '../observability/log/logger.js'
import { registerListenerMetrics } from '../observability/metrics/listener-metrics.js'
import { registerServerMetrics } from '../observability/metrics/server-metrics.js'
import { UsageMetrics } from '../observability/metrics/usage-metrics.js'
import type { Telemetry } from '../observability/tracing/telemetry.js'

interface ListenerSettings {
  readonly listen: ListenAddress
  readonly tls: TlsFiles | undefined
  readonly requestMs: number
  readonly stallMs: number
  readonly maxCallsPerAddress: number
}

type ListenerName = 'gateway' | 'api' | 'admin'

export const SHORT_REQUEST_MS = 30_000

/**
 * Only the gateway accepts large, slow bodies. The clients of the other listeners are few and
 * known, and one of them may make all calls of a machine. Their requests take no connection to an
 * upstream, so an address may have as many requests in flight as it may have connections.
 */
const LISTENERS: Readonly<Record<ListenerName, (config: Config) => ListenerSettings>> = {
  gateway: ({ gateway: { listen, tls, timeouts, maxCallsPerAddress } }) => ({
    listen,
    tls,
    requestMs: timeouts.requestMs,
    stallMs: timeouts.stallMs,
    maxCallsPerAddress,
  }),
  api: ({ api: { listen, tls }, gateway }) => ({
    listen,
    tls,
    requestMs: SHORT_REQUEST_MS,
    stallMs: SHORT_REQUEST_MS,
    maxCallsPerAddress: gateway.maxConnectionsPerAddress,
  }),
  admin: ({ admin: { listen }, gateway }) => ({
    listen,
    tls: undefined,
    requestMs: SHORT_REQUEST_MS,
    stallMs: SHORT_REQUEST_MS,
    maxCallsPerAddress: gateway.maxConnectionsPerAddress,
  }),
}

export interface EntryPointOptions {
  readonly log: Log
  readonly adminToken: string
  readonly readiness: DecisionApiDeps['readiness']
  /** The metrics of all workers. */
  readonly metricsText: () => string | Promise<string>
  /** The configuration of envoyproxy/ratelimit; undefined: the rules of Sluice decide. */
  readonly envoyConfig: EnvoyConfigSource | undefined
}

/** Opens all entry points over an engine; none of them listens yet. */
export function openEntryPoints(
  config: Config,
  engine: Engine,
  { log, adminToken, readiness, metricsText, envoyConfig }: EntryPointOptions,
) {
  const { counterStore, observability } = engine
  const deps: EntryPointDeps = {
    decider: engine.decider,
    identifier: engine.identifier,
    telemetry: engine.telemetry,
    responseClock: responseClock(counterStore.store, wallClock),
    log,
    describeAddress: addressDescriber(config.log.callers, counterStore.secret),
  }
  const gateway = openMeteredGateway(config, engine, deps)
  const hideSecrets = createSecretMasker(counterStore.secret, secretAttributes(config))
  const { registry } = engine
  const serviceDeps = { ...deps, envoyConfig, registry, hideSecrets, random }
  const rateLimitService = openRateLimitService(config, serviceDeps)
  const fleetSize = () => counterStore.store.health?.().remote?.fleet.size ?? 1
  const quotas =
    config.envoy.server === 'own'
      ? undefined
      : openQuotaService(config, { ...serviceDeps, fleetSize })
  const apiDeps = { ...deps, adminToken, hideSecrets, readiness, rateLimitService }
  const api = openDecisionApi(config, apiDeps)
  const envoy = openEnvoy(config, {
    ...deps,
    service: rateLimitService,
    quotas,
    isReady: () => readiness().ready,
    registry,
    random,
  })
  const admin = openListener('admin', config, deps)
  const adminApi = openAdmin(config, engine, {
    log,
    rootToken: adminToken,
    metricsText,
    fleetStats: observability.fleet,
    alerts: observability.alerts,
  })
  admin.serve(respondOnError((request, response) => adminApi.handle(request, response), log))
  const listeners = { gateway: gateway.listener, api, grpc: envoy.listener, admin }
  registerListenerMetrics(engine.registry, listeners)
  return {
    listeners,
    /** Those that carry calls, and finish them before the server stops. */
    drainable: [gateway, api, envoy],
    goAway: () => gateway.goAway(),
    async close() {
      await gateway.close()
      adminApi.close()
    },
  }
}

/** Opens the gateway and registers its metrics. */
function openMeteredGateway(config: Config, engine: Engine, deps: EntryPointDeps) {
  const { registry, upstreamHealth } = engine
  const slowUploads = registry
    .counter('sluice_slow_uploads_total', 'Calls answered 408 because their body came too slowly.')
    .labels()
  const gateway = openGateway(config, {
    ...deps,
    usageMetrics: new UsageMetrics(registry),
    onUpstreamCall: (upstream) => upstreamHealth.recordCall(upstream),
    onUpstreamFailure: (failure, upstream) => upstreamHealth.recordFailure(upstream, failure),
    onSlowUpload: () => slowUploads.inc(),
  })
  const { held, websockets, websocketCounts } = gateway
  registerServerMetrics(registry, { ...engine, log: deps.log, held, websockets, websocketCounts })
  return gateway
}

/** The dependencies of every entry point. */
export interface EntryPointDeps {
  readonly decider: Decider
  readonly identifier: Identifier
  readonly log: Log
  /** For instants in responses. */
  readonly responseClock: WallClock
  /** An address as a log line may show it. */
  readonly describeAddress: (address: string) => string
  /** Undefined: no spans. */
  readonly telemetry?: Telemetry | undefined
  /** Whether a worker listens alone, and not with the others. @default false */
  readonly exclusive?: boolean | undefined
}

export interface GatewayEntryPointDeps extends EntryPointDeps {
  /** Called with the origin of the upstream before a call is sent to it. */
  readonly onUpstreamCall?: ((upstream: string) => void) | undefined
  /** Called with the origin of the upstream that did not answer a call. */
  readonly onUpstreamFailure: (failure: UpstreamFailure, upstream: string) => void
  readonly onSlowUpload: () => void
  /** Undefined: upstreams with usage are served like others. */
  readonly usageMetrics?: UsageMetrics | undefined
}

export function openGateway(config: Config, deps: GatewayEntryPointDeps) {
  const upstreams = createUpstreams(config.gateway.upstreams, config.gateway.timeouts)
  const listener = openListener('gateway', config, deps)
  const refusalOptions = () => ({
    nowMs: deps.responseClock.now(),
    fraction: random(),
    ...config.refusals,
  })
  const metering = openMetering(config, deps)
  const gateway = new Gateway({
    ...deps,
    config,
    upstreams,
    metering,
    limitsPage: createLimitsPage(deps.decider.limiter, refusalOptions),
    clock: wallClock,
    random,
  })
  const upgrades = new Upgrades(gateway)
  listener.serve((request, response) => void gateway.handle(request, response))
  listener.server.on(
    'upgrade',
    (request, socket, head) => void upgrades.handle(request, socket, head),
  )
  return {
    listener,
    held: () => gateway.heldCalls.count(),
    websockets: () => upgrades.count(),
    websocketCounts: () => upgrades.counts(),
    beginDraining: () => listener.beginDraining(),
    stopAccepting: () => listener.stopAccepting(),
    closeIdle: () => listener.closeIdle(),
    inFlight: () => listener.inFlight() + upgrades.count(),
    destroyAll() {
      gateway.heldCalls.abandon()
      listener.destroyAll()
    },
    goAway: () => upgrades.goAway(),
    async close() {
      await upstreams.close()
      await metering?.close()
    },
  }
}

/** Undefined if no upstream has usage. */
function openMetering(
  { gateway: { upstreams } }: Config,
  { usageMetrics: metrics, decider, log }: GatewayEntryPointDeps,
): Metering | undefined {
  if (metrics === undefined || upstreams.every(({ usage }) => usage === undefined)) return undefined
  const errorReporter = new ErrorReporter({ log, clock: wallClock, component: 'usage' })
  const onError = (error: unknown) => errorReporter.log(error)
  return new Metering({ upstreams, limiter: decider.limiter, metrics, onError })
}

export type DecisionApiEntryPointDeps = EntryPointDeps &
  Pick<DecisionApiDeps, 'adminToken' | 'hideSecrets' | 'readiness' | 'rateLimitService'>

export function openDecisionApi(config: Config, deps: DecisionApiEntryPointDeps): HttpListener {
  const listener = openListener('api', config, deps)
  const api = createApi({ ...deps, config, clock: wallClock, random })
  listener.serve(respondOnError((request, response) => api.handle(request, response), deps.log))
  return listener
}

/** Answers 500 when a handler fails, so that a bug in one response does not end the process. */
export function respondOnError(
  handle: (...args: Parameters<RequestListener>) => void | Promise<void>,
  log: Log,
): RequestListener {
  return (request, response) => {
    const fail = (error: unknown) => {
      log.error({ error: String(error) }, 'http: request failed')
      if (response.headersSent) response.destroy()
      else
        sendProblem(response, {
          status: 500,
          detail: 'Internal error. See the server log.',
          error: 'internal',
        })
    }
    try {
      handle(request, response)?.catch(fail)
    } catch (error) {
      fail(error)
    }
  }
}

/** Jitter: not a secret, but not to be guessed from the clock either. */
export function random(): number {
  return randomInt(2 ** 31) / 2 ** 31
}

type ListenerDeps = Pick<EntryPointDeps, 'log' | 'describeAddress' | 'exclusive'>

function openListener(name: ListenerName, config: Config, deps: ListenerDeps): HttpListener {
  const { log, describeAddress, exclusive } = deps
  const { listen, tls, requestMs, stallMs, maxCallsPerAddress } = LISTENERS[name](config)
  const { timeouts, maxConnections, maxConnectionsPerAddress } = config.gateway
  return createListener({
    listen,
    tls,
    timeouts: { headersMs: timeouts.headersMs, requestMs, stallMs },
    maxConnections,
    perAddress: {
      maxConnections: maxConnectionsPerAddress,
      maxCalls: maxCallsPerAddress,
      isExempt: exemptAddresses(config.trustedProxies),
      describe: describeAddress,
    },
    log,
    exclusive,
  })
}

/** A listener with what it starts with: its address as a URL, or as gRPC clients name it. */
interface Startable<Started> {
  start(): Promise<Started>
  stopAccepting(): Promise<void>
  destroyAll(): void
}

/** Starts listening; `closers` stops it. Resolves to the address as a URL. */
export async function startListener(listener: HttpListener, closers: Closers): Promise<string> {
  return (await startClosable(listener, closers)).url
}

/** Starts listening; `closers` stops it. */
export async function startClosable<Started>(
  listener: Startable<Started>,
  closers: Closers,
): Promise<Started> {
  closers.add(async () => {
    await listener.stopAccepting()
    listener.destroyAll()
  })
  return listener.start()
}

/**
 * The form in which refusals name a caller counted by `ip`: its hash, unless clear text is
 * configured.
 */
export function addressDescriber(
  callers: Config['log']['callers'],
  secret: Uint8Array,
): (address: string) => string {
  const key = sipKey(secret)
  return callers === 'clear'
    ? (address) => address
    : (address) => formatHash(hashTexts(key, [address]))
}
