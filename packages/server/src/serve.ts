/** One server process: gateway, decision API and admin listener over one limiter. */
import { setTimeout as sleep } from 'node:timers/promises'
import { openAdmin } from './entrypoints/admin/open-admin.js'
import type { Readiness } from './entrypoints/decision-api/decision-api.js'
import { wallClock } from './lib/wall-clock.js'
import type { Config } from './config/config.js'
import { upstreamAt } from './config/parse-gateway.js'
import { type StoredSecret, loadOrCreateAdminToken } from './startup/stored-secrets.js'
import { drain, type DrainResult } from './shutdown.js'
import { startEcho } from './startup/echo.js'
import { type Engine, secretAttributes, startEngine } from './engine.js'
import {
  addressDescriber,
  shortRequestOptions,
  type EntryPointDeps,
  respondOnError,
  openDecisionApi,
  openGateway,
  openListener,
} from './entrypoints/entrypoint.js'
import { exampleKeys, isUnconfigured } from './startup/example.js'
import type { HttpListener } from './entrypoints/http/http-listener.js'
import { createSecretMasker } from './identity/masked-value.js'
import type { Log } from './observability/log/logger.js'
import { registerListenerMetrics } from './observability/metrics/listener-metrics.js'
import { type RulesFileContent, readRules } from './startup/preflight.js'
import { connectIpcStore } from './rules/store/ipc/ipc-store.js'
import { registerServerMetrics } from './observability/metrics/server-metrics.js'
import type { RuleFollower } from './rules/sync/rule-follower.js'
import { responseClock } from './counter-store/response-clock.js'
import { warmUp } from './warm-up/warm-up.js'
import type { WorkerSide } from './workers.js'

export interface ServeOptions {
  readonly log: Log
  /** The user's own rules, if they were read before; else they are read now. */
  readonly rules?: RulesFileContent | undefined
  /** Made by the first of several processes, where no disk keeps it for them. */
  readonly adminToken?: string | undefined
  /** Set in one of several processes behind the same listeners. */
  readonly worker?: WorkerSide | undefined
  /** How long warm-up may take. @default 1000 */
  readonly warmUpMs?: number | undefined
}

export interface RunningServer {
  readonly gateway: string
  readonly api: string
  readonly admin: string
  readonly adminToken: StoredSecret
  /** What the gateway forwards to, for people. */
  readonly upstream: string
  /** Where rules come from, for people. */
  readonly rules: string
  /** Where counters live, for people. */
  readonly store: string
  /** Whether nothing is configured, so that the example runs. */
  readonly isExample: boolean
  /** Set where this node started without rules, and is not ready for that reason. */
  readonly missingRules: MissingRules | undefined
  /** Finishes what is under way and closes; `atOnce` takes no more calls from the first moment. */
  stop(options?: { readonly atOnce?: boolean }): Promise<DrainResult>
}

/** Where the first rule goes: into the file, or to the admin API. */
export interface MissingRules {
  readonly file: string | undefined
}

export async function serve(initialConfig: Config, options: ServeOptions): Promise<RunningServer> {
  const isExample = isUnconfigured(initialConfig)
  const closers: (() => void | Promise<void>)[] = []
  try {
    const config = await withEcho(initialConfig, isExample, closers)
    return await start(config, { ...options, isExample }, closers)
  } catch (error) {
    await closeAll(closers)
    throw error
  }
}

/** The last that was opened is closed first. */
async function closeAll(closers: (() => void | Promise<void>)[]): Promise<void> {
  for (const close of closers.reverse()) await close()
}

/** Where no upstream is configured, the built-in one. */
async function withEcho(
  config: Config,
  isExample: boolean,
  closers: (() => void | Promise<void>)[],
): Promise<Config> {
  const { gateway, identity } = config
  const keys = isExample ? [...exampleKeys, ...identity.keys] : identity.keys
  if (gateway.upstreams.length > 0) return { ...config, identity: { ...identity, keys } }
  const echo = await startEcho()
  closers.push(() => echo.close())
  return {
    ...config,
    gateway: { ...gateway, upstreams: [upstreamAt(echo.origin)] },
    identity: { ...identity, keys },
  }
}

async function start(
  config: Config,
  options: ServeOptions & { readonly isExample: boolean },
  closers: (() => void | Promise<void>)[],
): Promise<RunningServer> {
  const { log, worker, isExample } = options
  const engine = await startEngine(config, log, {
    rules: options.rules ?? (await readRules(config)),
    isExample,
    store: worker && config.rules === undefined ? await connectIpcStore(worker.rules) : undefined,
    worker,
  })
  closers.push(() => engine.close())
  const { registry } = engine
  const adminToken = adminTokenOf(config, options)
  const allowsNoRules = config.allowNoRules || worker?.hadRules === true
  const state = { isDraining: false, allowsNoRules }
  worker?.reportRules(() => engine.ruleFollower.hasHadRules())
  const { gateway, api, admin } = openEntryPoints(config, engine, {
    log,
    adminToken: adminToken.text,
    state,
  })
  worker?.shareMetrics(() => registry.text())
  const adminHandler = openAdmin(config, engine, {
    log,
    rootToken: adminToken.text,
    metricsText: () => worker?.allMetrics() ?? registry.text(),
    fleetStats: engine.observability.fleet,
    alerts: engine.observability.alerts,
  })
  closers.push(() => adminHandler.close())
  const handleAdmin = respondOnError(
    (request, response) => adminHandler.handle(request, response),
    log,
  )
  admin.serve(handleAdmin)
  closers.push(() => gateway.close())
  // Nobody can connect before: with several workers each takes calls once it is warm itself.
  await warmUp(config, engine.counterStore.store, options.warmUpMs)
  const [gatewayUrl, apiUrl, adminUrl] = [
    await startListener(gateway.listener, closers),
    await startListener(api, closers),
    await startListener(admin, closers),
  ]
  const missingRules = findMissingRules(config, engine, { log, state })
  return {
    gateway: gatewayUrl,
    api: apiUrl,
    admin: adminUrl,
    adminToken,
    upstream: describeUpstreams(config),
    rules: engine.ruleFollower.name,
    store: engine.counterStore.name,
    isExample,
    missingRules,
    async stop({ atOnce = false } = {}) {
      state.isDraining = true
      const { delayMs, withinMs } = config.shutdown
      const drained = await drain([gateway, api], {
        clock: wallClock,
        delayMs: atOnce ? 0 : delayMs,
        withinMs,
        sleep,
        onStopped: gateway.goAway,
      })
      await closeAll(closers)
      return drained
    },
  }
}

function describeUpstreams({ gateway: { upstreams } }: Config): string {
  return upstreams.map(({ prefix, origin }) => `${prefix} ${origin}`).join(', ')
}

function adminTokenOf({ admin, dataDir }: Config, { adminToken, log }: ServeOptions): StoredSecret {
  if (admin.token !== undefined) return { text: admin.token, file: undefined, state: 'given' }
  if (adminToken !== undefined) return { text: adminToken, file: undefined, state: 'unkept' }
  return loadOrCreateAdminToken(dataDir, log)
}

interface EntryPointOptions {
  readonly log: Log
  readonly adminToken: string
  readonly state: ServingState
}

function openEntryPoints(
  config: Config,
  engine: Engine,
  { log, adminToken, state }: EntryPointOptions,
) {
  const describeAddress = addressDescriber(config.log.callers, engine.counterStore.secret)
  const deps = {
    decider: engine.decider,
    identifier: engine.identifier,
    telemetry: engine.telemetry,
    responseClock: responseClock(engine.counterStore.store, wallClock),
    log,
    describeAddress,
  }
  const gateway = openMeteredGateway(config, engine, deps)
  const api = openDecisionApi(config, {
    ...deps,
    adminToken,
    hideSecrets: createSecretMasker(engine.counterStore.secret, secretAttributes(config)),
    readiness: () => readinessOf(engine, state),
  })
  const options = { ...shortRequestOptions(config), log, describeAddress }
  const admin = openListener(config.admin.listen, undefined, options)
  registerListenerMetrics(engine.registry, { gateway: gateway.listener, api, admin })
  return { gateway, api, admin }
}

/** Opens the gateway, with the metrics of what it does. */
function openMeteredGateway(config: Config, engine: Engine, deps: EntryPointDeps) {
  const { registry, upstreamHealth } = engine
  const slowUploads = registry
    .counter('sluice_slow_uploads_total', 'Calls answered 408 because their body came too slowly.')
    .labels()
  const gateway = openGateway(config, {
    ...deps,
    onUpstreamCall: (upstream) => upstreamHealth.recordCall(upstream),
    onUpstreamFailure: (failure, upstream) => upstreamHealth.recordFailure(upstream, failure),
    onSlowUpload: () => slowUploads.inc(),
  })
  const { held, websockets, websocketCounts } = gateway
  const sources = { ...engine, log: deps.log, held, websockets, websocketCounts }
  registerServerMetrics(registry, sources)
  return gateway
}

interface ServingState {
  readonly isDraining: boolean
  /** By the configuration, or because this node had rules before this worker was started. */
  readonly allowsNoRules: boolean
}

function readinessOf({ ruleFollower, counterStore }: Engine, state: ServingState): Readiness {
  const reasons = [
    ...(state.isDraining ? ['shutting down'] : []),
    ...(ruleFollower.isReady() ? [] : [`no rules yet: ${ruleFollower.problem() ?? ''}`]),
    ...(lacksRules(ruleFollower, state) ? ['no rules'] : []),
  ]
  return { ready: reasons.length === 0, reasons, store: counterStore.describe() }
}

/**
 * Whether an empty set of rules looks like a mistake: a volume that was lost, a database that was
 * not filled. One that became empty while this node ran was made so by somebody.
 */
function lacksRules(ruleFollower: RuleFollower, { allowsNoRules }: ServingState): boolean {
  return ruleFollower.isReady() && !ruleFollower.hasHadRules() && !allowsNoRules
}

/** Everything is served all the same: the first rule is made through the admin listener. */
function findMissingRules(
  { rules: file }: Config,
  { ruleFollower }: Engine,
  { log, state }: { readonly log: Log; readonly state: ServingState },
): MissingRules | undefined {
  if (!lacksRules(ruleFollower, state)) return undefined
  const advice = 'make the first rule, or set allowNoRules: true'
  log.warn({ rules: ruleFollower.name }, `not ready: no rules; ${advice}`)
  return { file }
}

async function startListener(
  listener: HttpListener,
  closers: (() => void | Promise<void>)[],
): Promise<string> {
  const { url } = await listener.start()
  closers.push(async () => {
    await listener.stopAccepting()
    listener.destroyAll()
  })
  return url
}
