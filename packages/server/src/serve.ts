/** One server process: gateway, decision API and admin listener over one limiter. */
import { setTimeout as sleep } from 'node:timers/promises'
import { openAdmin } from './admin/open-admin.js'
import type { Readiness } from './api/api.js'
import { wallClock } from './clock.js'
import type { Config } from './config/config.js'
import { type Kept, keptAdminToken } from './data-dir.js'
import { drain, type Drained } from './drain.js'
import { startEcho } from './echo.js'
import { type Engine, secretAttributes, startEngine } from './engine.js'
import {
  BRIEF,
  type EntryPointDeps,
  guarded,
  openApi,
  openGateway,
  openListener,
} from './entry-points.js'
import { exampleKeys } from './example.js'
import type { Listener } from './http/listener.js'
import { secretHider } from './identity/secret-form.js'
import type { Log } from './log/logger.js'
import { type ReadRules, readRules } from './preflight.js'
import { connectIpcStore } from './rule-store/ipc/ipc-store.js'
import { registerServerMetrics } from './server-metrics.js'
import { responseClock } from './store/response-clock.js'
import { warmUp } from './warm-up/warm-up.js'
import type { WorkerSide } from './workers.js'

export interface ServeOptions {
  readonly log: Log
  /** Nothing was configured: the example's keys are known. */
  readonly isExample?: boolean | undefined
  /** The user's own rules, if they were read before; else they are read now. */
  readonly rules?: ReadRules | undefined
  /** Set in one of several processes behind the same listeners. */
  readonly worker?: WorkerSide | undefined
}

export interface RunningServer {
  readonly gateway: string
  readonly api: string
  readonly admin: string
  readonly adminToken: Kept
  /** What the gateway forwards to, for people. */
  readonly upstream: string
  /** Where rules come from, for people. */
  readonly rules: string
  /** Where counters live, for people. */
  readonly store: string
  /** Finishes what is under way and closes; `atOnce` takes no more calls from the first moment. */
  stop(options?: { readonly atOnce?: boolean }): Promise<Drained>
}

export async function serve(given: Config, options: ServeOptions): Promise<RunningServer> {
  const { isExample = false } = options
  const closers: (() => void | Promise<void>)[] = []
  try {
    const config = await withEcho(given, isExample, closers)
    return await start(config, options, closers)
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
  const upstream = { prefix: '/', origin: echo.origin, host: 'preserve', connections: 256 } as const
  return {
    ...config,
    gateway: { ...gateway, upstreams: [upstream] },
    identity: { ...identity, keys },
  }
}

async function start(
  config: Config,
  options: ServeOptions,
  closers: (() => void | Promise<void>)[],
): Promise<RunningServer> {
  const { log } = options
  const { worker } = options
  const engine = await startEngine(config, log, {
    rules: options.rules ?? (await readRules(config)),
    store: worker && config.rules === undefined ? await connectIpcStore(worker.rules) : undefined,
    worker,
  })
  closers.push(() => engine.close())
  const { registry } = engine
  const adminToken =
    config.admin.token === undefined
      ? keptAdminToken(config.dataDir, log)
      : { text: config.admin.token, file: undefined, state: 'given' as const }
  const state = { isDraining: false }
  const { gateway, api } = openEntryPoints(config, engine, {
    log,
    adminToken: adminToken.text,
    state,
  })
  const admin = openListener(config.admin.listen, undefined, { config, log, ...BRIEF })
  worker?.share(() => registry.text())
  const adminHandler = openAdmin(config, engine, {
    log,
    rootToken: adminToken.text,
    metricsText: () => worker?.allMetrics() ?? registry.text(),
    sight: engine.observation.fleet,
    alerts: engine.observation.alerts,
  })
  closers.push(() => adminHandler.close())
  const handleAdmin = guarded((request, response) => adminHandler.handle(request, response), log)
  admin.server.on('request', handleAdmin)
  admin.server.on('checkContinue', handleAdmin)
  closers.push(() => gateway.close())
  // Nobody can connect before: with several workers each takes calls once it is warm itself.
  await warmUp(config, engine.opened.store)
  const [gatewayUrl, apiUrl, adminUrl] = [
    await startListener(gateway.listener, closers),
    await startListener(api, closers),
    await startListener(admin, closers),
  ]
  const { upstreams } = config.gateway
  return {
    gateway: gatewayUrl,
    api: apiUrl,
    admin: adminUrl,
    adminToken,
    upstream: upstreams.map(({ prefix, origin }) => `${prefix} ${origin}`).join(', '),
    rules: engine.source.name,
    store: engine.opened.name,
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
  const deps = {
    decider: engine.decider,
    identifier: engine.identifier,
    telemetry: engine.telemetry,
    responseClock: responseClock(engine.opened.store, wallClock),
    log,
  }
  const gateway = openCountedGateway(config, engine, deps)
  const api = openApi(config, {
    ...deps,
    adminToken,
    hideSecrets: secretHider(engine.opened.secret, secretAttributes(config)),
    readiness: () => readinessOf(engine, state),
  })
  return { gateway, api }
}

/** Opens the gateway, with the metrics of what it does. */
function openCountedGateway(config: Config, engine: Engine, deps: EntryPointDeps) {
  const { registry } = engine
  const failures = registry.counter(
    'sluice_upstream_failures_total',
    'Calls that the upstream did not answer, by the status they got.',
    ['status'],
  )
  const gateway = openGateway(config, {
    ...deps,
    onUpstreamFailure: ({ status }) => failures.labels(String(status)).inc(),
  })
  const { held, websockets } = gateway
  registerServerMetrics(registry, { ...engine, log: deps.log, held, websockets })
  return gateway
}

interface ServingState {
  readonly isDraining: boolean
}

function readinessOf({ source, opened }: Engine, state: ServingState): Readiness {
  const reasons = [
    ...(state.isDraining ? ['shutting down'] : []),
    ...(source.isReady() ? [] : [`no rules yet: ${source.problem() ?? ''}`]),
  ]
  return { ready: reasons.length === 0, reasons, store: opened.describe() }
}

async function startListener(
  listener: Listener,
  closers: (() => void | Promise<void>)[],
): Promise<string> {
  const { url } = await listener.start()
  closers.push(async () => {
    await listener.stopAccepting()
    listener.destroyAll()
  })
  return url
}
