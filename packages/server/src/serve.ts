/** One server process: gateway, decision API and admin listener over one limiter. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Readiness } from './entrypoints/decision-api/decision-api.js'
import { Closers } from './lib/closers.js'
import { wallClock } from './lib/wall-clock.js'
import type { Config } from './config/config.js'
import { upstreamAt } from './config/parse-gateway.js'
import { type StoredSecret, loadOrCreateAdminToken } from './startup/stored-secrets.js'
import { drain, type DrainResult } from './shutdown.js'
import { startEcho } from './startup/echo.js'
import { type Engine, startEngine } from './engine.js'
import { openEntryPoints, startListener } from './entrypoints/entrypoint.js'
import { exampleKeys, isUnconfigured } from './startup/example.js'
import type { Log } from './observability/log/logger.js'
import { type RulesFileContent, readRules } from './startup/preflight.js'
import { connectIpcStore } from './rules/store/ipc/ipc-store.js'
import type { RuleFollower } from './rules/sync/rule-follower.js'
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
  const closers = new Closers()
  try {
    const config = await withEcho(initialConfig, isExample, closers)
    return await start(config, { ...options, isExample }, closers)
  } catch (error) {
    await closers.close()
    throw error
  }
}

/** Where no upstream is configured, the built-in one. */
async function withEcho(config: Config, isExample: boolean, closers: Closers): Promise<Config> {
  const { gateway, identity } = config
  const keys = isExample ? [...exampleKeys, ...identity.keys] : identity.keys
  if (gateway.upstreams.length > 0) return { ...config, identity: { ...identity, keys } }
  const echo = await startEcho()
  closers.add(() => echo.close())
  return {
    ...config,
    gateway: { ...gateway, upstreams: [upstreamAt(echo.origin)] },
    identity: { ...identity, keys },
  }
}

async function start(
  config: Config,
  options: ServeOptions & { readonly isExample: boolean },
  closers: Closers,
): Promise<RunningServer> {
  const { log, worker, isExample } = options
  const engine = await startEngine(config, log, {
    rules: options.rules ?? (await readRules(config)),
    isExample,
    store: worker && config.rules === undefined ? await connectIpcStore(worker.rules) : undefined,
    worker,
  })
  closers.add(() => engine.close())
  const { registry, ruleFollower, counterStore } = engine
  const adminToken = adminTokenOf(config, options)
  const allowsNoRules = config.allowNoRules || worker?.hadRules === true
  const state = { isDraining: false, allowsNoRules }
  worker?.reportRules(() => ruleFollower.hasHadRules())
  worker?.shareMetrics(() => registry.mergeableText())
  const entryPoints = openEntryPoints(config, engine, {
    log,
    adminToken: adminToken.text,
    readiness: () => readinessOf(engine, state),
    metricsText: () => worker?.allMetrics() ?? registry.text(),
  })
  closers.add(() => entryPoints.close())
  // Before any listener starts, so that each worker accepts calls only once it is warm itself.
  await warmUp(config, counterStore.store, options.warmUpMs)
  const { listeners } = entryPoints
  return {
    gateway: await startListener(listeners.gateway, closers),
    api: await startListener(listeners.api, closers),
    admin: await startListener(listeners.admin, closers),
    adminToken,
    upstream: describeUpstreams(config),
    rules: ruleFollower.name,
    store: counterStore.name,
    isExample,
    missingRules: findMissingRules(config, engine, { log, state }),
    async stop({ atOnce = false } = {}) {
      state.isDraining = true
      const { delayMs, withinMs } = config.shutdown
      const drained = await drain(entryPoints.drainable, {
        clock: wallClock,
        delayMs: atOnce ? 0 : delayMs,
        withinMs,
        sleep,
        onStopped: entryPoints.goAway,
      })
      await closers.close()
      return drained
    },
  }
}

function describeUpstreams({ gateway: { upstreams } }: Config): string {
  return upstreams.map(({ prefix, origin }) => `${prefix} ${origin}`).join(', ')
}

function adminTokenOf({ admin, dataDir }: Config, { adminToken, log }: ServeOptions): StoredSecret {
  if (admin.token !== undefined) return { text: admin.token, file: undefined, state: 'configured' }
  if (adminToken !== undefined) return { text: adminToken, file: undefined, state: 'ephemeral' }
  return loadOrCreateAdminToken(dataDir, log)
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
