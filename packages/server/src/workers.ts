/**
 * Runs several worker processes behind the same listeners. The primary process serves no calls: it
 * starts the workers, restarts those that exit, kills those that hang, merges their metrics, and
 * stops them.
 */
import cluster, { type Worker } from 'node:cluster'
import process from 'node:process'
import type { Alert, AlertSink } from './observability/alerts/alert.js'
import type { AlertHub } from './observability/alerts/alert-hub.js'
import type { StopSignals } from './lib/stop-signals.js'
import type { Log } from './observability/log/logger.js'
import { mergeMetrics } from './observability/metrics/merge-metrics.js'
import { hostRuleStore } from './rules/store/ipc/ipc-host.js'
import type { IpcChannel, RulesMessage } from './rules/store/ipc/ipc-messages.js'
import type { RuleStore } from './rules/store/rule-store.js'
import { Announcement } from './workers/announcement.js'
import { RingMembers } from './workers/ring-members.js'
import { WorkerRing } from './workers/worker-ring.js'
import { reclaimConnections } from './workers/worker-connections.js'
import { HEARTBEAT_MS, Liveness, type LivenessOptions } from './workers/worker-liveness.js'

/** Why a worker was replaced. */
export type RestartReason = 'died' | 'hung'

export interface WorkersOptions extends LivenessOptions {
  readonly count: number
  readonly log: Log
  readonly signals: StopSignals
  /** How long a worker may take to stop. */
  readonly withinMs: number
  /**
   * Called once, when all workers are ready; if one exits before that, or is not ready a minute
   * after another, as soon as one is ready. The text may be empty.
   */
  readonly onListening: (text: string) => void
  /** Open in this process for all workers; undefined: rules are in a file that each reads. */
  readonly rules: RuleStore | undefined
  /** Receives the alerts of all workers; undefined: alerts are only logged. */
  readonly alerts?: AlertHub | undefined
  /** Added to the environment of each worker. */
  readonly environment?: Readonly<Record<string, string>> | undefined
  /** Metrics of the primary process, merged with those of the workers. */
  readonly ownMetrics?: (() => string) | undefined
  /** Called for every worker that is replaced. */
  readonly onRestart?: ((reason: RestartReason) => void) | undefined
}

/** Messages between workers and the primary process. */
type Message =
  | { readonly sluice: 'alive'; readonly hadRules: boolean }
  | { readonly sluice: 'listening'; readonly text: string }
  | { readonly sluice: 'metrics-request'; readonly id: number }
  | { readonly sluice: 'metrics'; readonly id: number; readonly text: string }
  | { readonly sluice: 'alert'; readonly alert: Alert }
  | { readonly sluice: 'ring-join' | 'ring-leave' }
  | { readonly sluice: 'ring-members'; readonly places: readonly number[] }

/** The place of a worker; not part of the configuration. */
export const PLACE_VARIABLE = 'SLUICE_WORKER_PLACE'
/** Set for a worker that starts after another worker of this node had rules. */
export const HAD_RULES_VARIABLE = 'SLUICE_WORKER_HAD_RULES'
/** Passes secrets to workers that could not be stored on disk. */
export const SECRETS_VARIABLE = 'SLUICE_WORKER_SECRETS'
/** The folder of the sockets of workers that hold the counters. */
export const RING_DIRECTORY_VARIABLE = 'SLUICE_WORKER_RING_DIRECTORY'
const RESTART_MS = 1000
const RESTART_MS_MAX = 30_000
/** After this time a worker counts as healthy, and the restart delay is reset. */
const WELL_AFTER_MS = 10_000
const METRICS_MS_MAX = 1000
const FAILED = 1
const MISUSE = 2

/** Runs until a signal arrives; resolves to the exit code. */
export function runWorkers(options: WorkersOptions): Promise<number> {
  return new Promise((resolve) => new Workers(options, resolve).start())
}

interface WorkerExit {
  readonly code: number | null
  readonly signal: string | null
  readonly reason: RestartReason
}

class Workers {
  readonly #options: WorkersOptions
  readonly #end: (code: number) => void
  #isStopping = false
  /** Whether a worker was ever ready; one that exits before that ends the program. */
  #hasServed = false
  readonly #announcement: Announcement<Worker>
  #delayMs = RESTART_MS
  /** The exit code of the first worker that could not start. */
  #failure: number | undefined
  /** The worker that writes the last known good rules to disk for all. */
  #rulesWriter: Worker | undefined
  /** Whether a worker of this node had rules; a later one is then ready without any. */
  #hadRules = false
  readonly #liveness: Liveness<Worker>
  readonly #ring = new RingMembers<Worker>({
    send: (worker, places) => send(worker, { sluice: 'ring-members', places }),
    workers,
  })
  /** Workers that were killed because they hung, until they exit. */
  readonly #hung = new Set<Worker>()

  constructor(options: WorkersOptions, end: (code: number) => void) {
    this.#options = options
    this.#end = end
    const { count, onListening, log } = options
    this.#announcement = new Announcement({
      count,
      onListening,
      onLate: (late) => log.warn(late, 'workers: not all are ready; serving without the others'),
    })
    this.#liveness = new Liveness(options)
  }

  start(): void {
    for (let place = 0; place < this.#options.count; place++) this.fork(place)
    this.#options.signals.handleBy((signal) => this.stop(signal))
    setInterval(() => {
      this.killHung()
      this.#announcement.check()
    }, HEARTBEAT_MS).unref()
  }

  private fork(place: number): void {
    const { environment } = this.#options
    const hadRules = this.#hadRules ? { [HAD_RULES_VARIABLE]: 'true' } : {}
    const worker = cluster.fork({ ...environment, [PLACE_VARIABLE]: String(place), ...hadRules })
    this.#liveness.watch(worker)
    reclaimConnections(worker, () => this.hasOthers(worker))
    const wellTimer = setTimeout(() => (this.#delayMs = RESTART_MS), WELL_AFTER_MS).unref()
    worker.on('message', (message: Message) => this.onMessage(worker, message, place))
    const unhost = this.hostRules(worker)
    const end = (code: number | null, signal: string | null) => {
      clearTimeout(wellTimer)
      unhost()
      this.#liveness.unwatch(worker)
      this.#ring.remove(worker)
      this.#options.alerts?.removeWorker(worker.id)
      this.#announcement.remove(worker)
      const reason = this.#hung.delete(worker) ? 'hung' : 'died'
      this.onExit(place, { code, signal, reason })
    }
    worker.once('exit', end)
    // Without a handler the event would end this process, and with it all workers.
    worker.on('error', (error) => {
      this.#options.log.error({ error: String(error) }, 'worker: process error')
      if (!isStarted(worker)) end(FAILED, null)
    })
  }

  /** Runs during shutdown too: a worker that hangs would delay it. */
  private killHung(): void {
    for (const { worker, silentMs } of this.#liveness.check()) {
      const { pid } = worker.process
      this.#options.log.error({ pid, silentMs }, 'worker hung: no heartbeat; killed')
      this.#hung.add(worker)
      // A process that was stopped with SIGSTOP reacts to no other signal.
      worker.process.kill('SIGKILL')
    }
  }

  /** Whether another worker can take over a connection of this one. */
  private hasOthers(worker: Worker): boolean {
    if (this.#isStopping) return false
    return workers().some((other) => other !== worker && this.#liveness.isServing(other))
  }

  private hostRules(worker: Worker): () => void {
    const { rules } = this.#options
    if (rules === undefined) return () => {}
    this.#rulesWriter ??= worker
    const end = hostRuleStore(rules, linkOf(worker), this.#rulesWriter === worker)
    return () => {
      end()
      if (this.#rulesWriter === worker) this.#rulesWriter = undefined
    }
  }

  private onExit(place: number, { code, signal, reason }: WorkerExit): void {
    const left = workers().length
    if (this.#isStopping) {
      if (left === 0) this.#end(this.#failure ?? 0)
      return
    }
    // A restart does not repair a wrong configuration.
    if (code === MISUSE || !this.#hasServed) {
      if (code !== MISUSE) {
        this.#options.log.error({ code, signal }, 'worker exited before any was ready; stopping')
      }
      this.#failure = code ?? FAILED
      this.stop('SIGTERM')
      return
    }
    this.#options.log.error({ code, signal, againInMs: this.#delayMs }, 'worker exited')
    this.#options.onRestart?.(reason)
    // The replacement may never become ready, so the others are announced without it.
    this.#announcement.stopWaiting()
    setTimeout(() => {
      if (!this.#isStopping) this.fork(place)
    }, this.#delayMs)
    this.#delayMs = Math.min(this.#delayMs * 2, RESTART_MS_MAX)
  }

  private onMessage(worker: Worker, message: Message, place: number): void {
    this.#liveness.recordHeartbeat(worker)
    if (message.sluice === 'alive' && message.hadRules && !this.#hadRules) {
      this.#hadRules = true
      this.#options.log.info({}, 'workers: first rules are active')
    }
    if (message.sluice === 'listening') {
      this.#hasServed = true
      this.#liveness.markServing(worker)
      this.#announcement.addReady(worker, message.text)
    }
    if (message.sluice === 'metrics-request') {
      const own = this.#options.ownMetrics?.() ?? ''
      void gatherMetrics(own).then((text) =>
        send(worker, { sluice: 'metrics', id: message.id, text }),
      )
    }
    if (message.sluice === 'ring-join') this.#ring.join(worker, place)
    if (message.sluice === 'ring-leave') this.#ring.leave(worker)
    if (message.sluice === 'alert') this.#options.alerts?.report(worker.id, message.alert)
  }

  private stop(signal: NodeJS.Signals): void {
    if (this.#isStopping) return
    this.#isStopping = true
    const all = workers()
    if (all.length === 0) return this.#end(this.#failure ?? 0)
    this.#ring.stop()
    for (const worker of all) worker.process.kill(signal)
    setTimeout(() => {
      for (const worker of workers()) worker.process.kill('SIGKILL')
    }, this.#options.withinMs).unref()
  }
}

/** A message to a process that has just exited is dropped without an error. */
function send(end: Pick<Worker, 'send' | 'isConnected'>, message: Message | RulesMessage): void {
  if (end.isConnected()) end.send(message, () => {})
}

function linkOf(end: Pick<Worker, 'send' | 'on' | 'off' | 'isConnected'>): IpcChannel {
  return {
    send: (message) => send(end, message),
    onMessage(listener) {
      const onMessage = (message: Message | RulesMessage) => {
        if (message.sluice.startsWith('rules-')) listener(message as RulesMessage)
      }
      end.on('message', onMessage)
      return () => void end.off('message', onMessage)
    },
  }
}

function workers(): readonly Worker[] {
  const known = Object.values(cluster.workers ?? {})
  return known.filter((worker) => worker !== undefined).filter(isAlive)
}

/** Node lists a worker until its channel is closed, which may be after its exit. */
function isAlive(worker: Worker): boolean {
  return isStarted(worker) && !worker.isDead()
}

/** False if the system could not start the process; such a worker emits no exit either. */
function isStarted(worker: Worker): boolean {
  return worker.process.pid !== undefined
}

/** Merges the metrics of all workers, except those that do not answer in time. */
async function gatherMetrics(own: string): Promise<string> {
  const id = ++lastMetricsRequest
  const texts = await Promise.all(
    workers().map(
      (worker) =>
        new Promise<string>((resolve) => {
          const timer = setTimeout(() => end(''), METRICS_MS_MAX)
          const onMessage = (message: Message) => {
            if (message.sluice === 'metrics' && message.id === id) end(message.text)
          }
          const end = (text: string) => {
            clearTimeout(timer)
            worker.off('message', onMessage)
            resolve(text)
          }
          worker.on('message', onMessage)
          send(worker, { sluice: 'metrics-request', id })
        }),
    ),
  )
  return mergeMetrics([...texts, own])
}

let lastMetricsRequest = 0

/** What a worker uses to communicate with the primary process. */
export interface WorkerSide {
  /** From 0 on; a replacement has the same place. */
  readonly place: number
  /** Whether this node had rules before this worker was started. */
  readonly hadRules: boolean
  /** Reports with every heartbeat whether this node had rules. */
  reportRules(hadRules: () => boolean): void
  /** Reports that this worker is ready, with the text to print, which may be empty. */
  announce(text: string): void
  /** Sets where the metrics of this worker are read. */
  shareMetrics(own: () => string): void
  /** The metrics of all workers; only its own if the primary process does not answer. */
  allMetrics(): Promise<string>
  /** The channel to the rule store in the primary process. */
  readonly rules: IpcChannel
  /** Sends alerts to the primary process, which delivers those of all workers. */
  readonly alerts: AlertSink
  /** Undefined where counters are in Redis. */
  readonly ring: WorkerRing | undefined
}

export interface WorkerOptions {
  /** @default 0 */
  readonly place?: number
  /** Whether this node had rules before this worker was started. @default false */
  readonly hadRules?: boolean
  /** The folder of the sockets of all workers; undefined: counters are in Redis. */
  readonly ringDirectory?: string | undefined
}

/** Undefined in a process that is not a worker. */
export function workerSide(options: WorkerOptions = {}): WorkerSide | undefined {
  const { place = 0, hadRules = false, ringDirectory } = options
  const self = cluster.worker
  if (self === undefined) return undefined
  const sendToPrimary = (message: Message) => void process.send?.(message)
  const waiting = new Map<number, (text: string) => void>()
  let own = () => ''
  let readHadRules = () => hadRules
  sendHeartbeats(() => ({ sluice: 'alive', hadRules: readHadRules() }))
  const ring =
    ringDirectory === undefined
      ? undefined
      : new WorkerRing({
          directory: ringDirectory,
          place,
          sendJoin: () => sendToPrimary({ sluice: 'ring-join' }),
          sendLeave: () => sendToPrimary({ sluice: 'ring-leave' }),
        })
  process.on('message', (message: Message) => {
    if (message.sluice === 'ring-members') ring?.update(message.places)
    if (message.sluice === 'metrics') waiting.get(message.id)?.(message.text)
    if (message.sluice === 'metrics-request') {
      sendToPrimary({ sluice: 'metrics', id: message.id, text: own() })
    }
  })
  return {
    place,
    hadRules,
    reportRules: (read) => void (readHadRules = () => hadRules || read()),
    announce: (text) => sendToPrimary({ sluice: 'listening', text }),
    shareMetrics: (shared) => void (own = shared),
    rules: linkOf(self),
    ring,
    alerts: {
      notify: (alert) => send(self, { sluice: 'alert', alert }),
      close: async () => {},
    },
    allMetrics() {
      const id = ++lastMetricsRequest
      return new Promise((resolve) => {
        const timer = setTimeout(() => end(mergeMetrics([own()])), 2 * METRICS_MS_MAX)
        const end = (text: string) => {
          clearTimeout(timer)
          waiting.delete(id)
          resolve(text)
        }
        waiting.set(id, end)
        sendToPrimary({ sluice: 'metrics-request', id })
      })
    },
  }
}

/**
 * Sends heartbeats from the event loop that decides calls, so that they stop when it hangs. Sends
 * one at a time, so that they do not queue up while the primary process hangs.
 */
function sendHeartbeats(read: () => Message): void {
  let isSending = false
  setInterval(() => {
    if (isSending || !process.connected) return
    isSending = true
    process.send?.(read(), undefined, undefined, () => (isSending = false))
  }, HEARTBEAT_MS).unref()
}
