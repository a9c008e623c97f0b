/** One server process: gateway, decision API and admin listener over one limiter. */
import { randomInt } from 'node:crypto'
import type { RequestListener } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { openAdmin } from './admin/open-admin.js'
import { createApi } from './api/api.js'
import { wallClock } from './clock.js'
import type { Config, ListenAddress, TlsFiles } from './config/config.js'
import { type Kept, keptAdminToken } from './data-dir.js'
import { drain, type Drained } from './drain.js'
import { startEcho } from './echo.js'
import { type Engine, secretAttributes, startEngine } from './engine.js'
import { exampleKeys } from './example.js'
import { Gateway } from './gateway/gateway.js'
import { createLimitsPage } from './gateway/limits-page.js'
import { Upgrades } from './gateway/upgrade.js'
import { createUpstreams } from './gateway/upstreams.js'
import { answerProblem } from './http/answer.js'
import { createListener, type Listener } from './http/listener.js'
import { secretHider } from './identity/secret-form.js'
import type { Log } from './log/logger.js'
import { type ReadRules, readRules } from './preflight.js'
import { connectIpcStore } from './rule-store/ipc/ipc-store.js'
import { registerServerMetrics } from './server-metrics.js'
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
  const gateway = openGateway(config, engine, log)
  const api = openApi(config, engine, { log, adminToken: adminToken.text, state })
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

function openGateway(config: Config, engine: Engine, log: Log) {
  const { decider, identifier, registry } = engine
  const upstreams = createUpstreams(config.gateway.upstreams, config.gateway.timeouts)
  const failures = registry.counter(
    'sluice_upstream_failures_total',
    'Calls that the upstream did not answer, by the status they got.',
    ['status'],
  )
  const listener = openListener(config.gateway.listen, config.gateway.tls, { config, log })
  const clock = wallClock
  const refusalOptions = () => ({ nowMs: clock.now(), fraction: random(), ...config.refusals })
  const gateway = new Gateway({
    config,
    decider,
    identifier,
    upstreams,
    limitsPage: createLimitsPage(decider.limiter, refusalOptions),
    clock,
    random,
    log,
    telemetry: engine.telemetry,
    onUpstreamFailure: ({ status }) => failures.labels(String(status)).inc(),
  })
  const upgrades = new Upgrades(gateway)
  listener.server.on('request', (request, response) => void gateway.handle(request, response))
  listener.server.on('checkContinue', (request, response) => void gateway.handle(request, response))
  listener.server.on(
    'upgrade',
    (request, socket, head) => void upgrades.handle(request, socket, head),
  )
  registerServerMetrics(registry, {
    ...engine,
    log,
    held: () => gateway.holds.count(),
    websockets: () => upgrades.count(),
  })
  return {
    listener,
    beginDraining: () => listener.beginDraining(),
    stopAccepting: () => listener.stopAccepting(),
    closeIdle: () => listener.closeIdle(),
    inFlight: () => listener.inFlight() + upgrades.count(),
    destroyAll() {
      gateway.holds.abandon()
      listener.destroyAll()
    },
    goAway: () => upgrades.goAway(),
    close: () => upstreams.close(),
  }
}

interface ApiState {
  readonly log: Log
  readonly adminToken: string
  readonly state: { readonly isDraining: boolean }
}

function openApi(config: Config, engine: Engine, { log, adminToken, state }: ApiState): Listener {
  const listener = openListener(config.api.listen, config.api.tls, { config, log, ...BRIEF })
  const api = createApi({
    config,
    decider: engine.decider,
    identifier: engine.identifier,
    clock: wallClock,
    random,
    log,
    adminToken,
    telemetry: engine.telemetry,
    hideSecrets: secretHider(engine.opened.secret, secretAttributes(config)),
    readiness: () => {
      const reasons = [
        ...(state.isDraining ? ['shutting down'] : []),
        ...(engine.source.isReady() ? [] : [`no rules yet: ${engine.source.problem() ?? ''}`]),
      ]
      return { ready: reasons.length === 0, reasons, store: engine.opened.describe() }
    },
  })
  const handle = guarded((request, response) => api.handle(request, response), log)
  listener.server.on('request', handle)
  listener.server.on('checkContinue', handle)
  return listener
}

/** A mistake in one answer must not end the process, and with it everybody's calls. */
function guarded(
  handle: (...args: Parameters<RequestListener>) => void | Promise<void>,
  log: Log,
): RequestListener {
  return (request, response) => {
    const fail = (error: unknown) => {
      log.error({ error: String(error) }, 'a request failed')
      if (response.headersSent) response.destroy()
      else answerProblem(response, { status: 500, detail: 'The log says how.', error: 'internal' })
    }
    try {
      handle(request, response)?.catch(fail)
    } catch (error) {
      fail(error)
    }
  }
}

/** Jitter: not a secret, but not to be guessed from the clock either. */
function random(): number {
  return randomInt(2 ** 31) / 2 ** 31
}

interface ListenerParts {
  readonly config: Config
  readonly log: Log
  readonly requestMs?: number | undefined
}

/** Bodies of the gateway may be large and slow; those of the others are not. */
const BRIEF = { requestMs: 30_000 }

function openListener(
  listen: ListenAddress,
  tls: TlsFiles | undefined,
  { config, log, requestMs }: ListenerParts,
): Listener {
  const { timeouts, maxConnections } = config.gateway
  return createListener({
    listen,
    tls,
    timeouts: { ...timeouts, requestMs: requestMs ?? timeouts.requestMs },
    maxConnections,
    log,
  })
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
