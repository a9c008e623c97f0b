/**
 * Several processes behind the same listeners. The first process serves nothing itself: it starts
 * the others, starts one anew that died, kills one that hangs, adds their metrics up, and stops
 * them.
 */
import cluster, { type Worker } from 'node:cluster'
import process from 'node:process'
import type { Alert, AlertSink } from './observability/alerts/alert.js'
import type { AlertHub } from './observability/alerts/alert-hub.js'
import type { Log } from './observability/log/logger.js'
import { mergeMetrics } from './observability/metrics/merge-metrics.js'
import { hostRuleStore } from './rules/store/ipc/ipc-host.js'
import type { IpcChannel, RulesMessage } from './rules/store/ipc/ipc-messages.js'
import type { RuleStore } from './rules/store/rule-store.js'
import { reclaimConnections } from './workers/worker-connections.js'
import { HEARTBEAT_MS, Liveness, type LivenessOptions } from './workers/worker-liveness.js'

/** Why a worker is started in the place of another. */
export type RestartReason = 'died' | 'hung'

export interface WorkersOptions extends LivenessOptions {
  readonly count: number
  readonly log: Log
  /** How long a worker may take to stop. */
  readonly withinMs: number
  /**
   * Called once, when all workers serve, or, after one of them died before that, when one serves.
   * The text may be empty.
   */
  readonly onListening: (text: string) => void
  /** Held here for all workers; undefined: the rules are a file, which each reads itself. */
  readonly rules: RuleStore | undefined
  /** Told of the alerts of all workers; undefined: they are nobody's beside the log. */
  readonly alerts?: AlertHub | undefined
  /** Added to the environment of each worker. */
  readonly environment?: Readonly<Record<string, string>> | undefined
  /** What this process adds to the metrics of its workers. */
  readonly ownMetrics?: (() => string) | undefined
  /** Called for every worker that ended while others go on. */
  readonly onRestart?: ((reason: RestartReason) => void) | undefined
}

/** What workers and the first process say to each other. */
type Message =
  | { readonly sluice: 'alive'; readonly hadRules: boolean }
  | { readonly sluice: 'listening'; readonly text: string }
  | { readonly sluice: 'metrics-request'; readonly id: number }
  | { readonly sluice: 'metrics'; readonly id: number; readonly text: string }
  | { readonly sluice: 'alert'; readonly alert: Alert }

/** What tells a worker its place; the configuration never sees it. */
export const PLACE_VARIABLE = 'SLUICE_WORKER_PLACE'
/** Set for a worker that is started after another of this node had rules. */
export const HAD_RULES_VARIABLE = 'SLUICE_WORKER_HAD_RULES'
/** What gives workers the secrets that no disk keeps for them. */
export const SECRETS_VARIABLE = 'SLUICE_WORKER_SECRETS'
const RESTART_MS = 1000
const RESTART_MS_MAX = 30_000
/** A worker that lived as long was well; the next is started without delay. */
const WELL_AFTER_MS = 10_000
const METRICS_MS_MAX = 1000
const FAILED = 1
const MISUSE = 2

/** Serves until it is told to stop; resolves to the exit code. */
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
  /** Whether a worker has served; one that dies before ends the program. */
  #hasServed = false
  /** What each worker that serves has to print, until one of them was printed. */
  #announcements: Map<Worker, string> | undefined = new Map()
  /** How many have to serve until that is printed. */
  #announceAt: number
  #delayMs = RESTART_MS
  /** Of the first worker that could not begin. */
  #failure: number | undefined
  /** The worker that keeps the last good rules on disk for all. */
  #rulesWriter: Worker | undefined
  /** Whether a worker of this node had rules: one that is started later is ready without any. */
  #hadRules = false
  readonly #liveness: Liveness<Worker>
  /** Workers that were killed because they hung, until they have ended. */
  readonly #hung = new Set<Worker>()

  constructor(options: WorkersOptions, end: (code: number) => void) {
    this.#options = options
    this.#end = end
    this.#announceAt = options.count
    this.#liveness = new Liveness(options)
  }

  start(): void {
    for (let place = 0; place < this.#options.count; place++) this.fork(place)
    const stop = (signal: NodeJS.Signals) => this.stop(signal)
    process.on('SIGTERM', stop)
    process.on('SIGINT', stop)
    setInterval(() => this.killHung(), HEARTBEAT_MS).unref()
  }

  private fork(place: number): void {
    const { environment } = this.#options
    const hadRules = this.#hadRules ? { [HAD_RULES_VARIABLE]: 'true' } : {}
    const worker = cluster.fork({ ...environment, [PLACE_VARIABLE]: String(place), ...hadRules })
    this.#liveness.watch(worker)
    reclaimConnections(worker, () => this.hasOthers(worker))
    const wellTimer = setTimeout(() => (this.#delayMs = RESTART_MS), WELL_AFTER_MS).unref()
    worker.on('message', (message: Message) => this.onMessage(worker, message))
    const unhost = this.hostRules(worker)
    const end = (code: number | null, signal: string | null) => {
      clearTimeout(wellTimer)
      unhost()
      this.#liveness.unwatch(worker)
      this.#options.alerts?.removeWorker(worker.id)
      this.#announcements?.delete(worker)
      const reason = this.#hung.delete(worker) ? 'hung' : 'died'
      this.onExit(place, { code, signal, reason })
    }
    worker.once('exit', end)
    // Heard by nobody it would end this process, and with it all workers.
    worker.on('error', (error) => {
      this.#options.log.error({ error: String(error) }, 'worker: process error')
      if (!isStarted(worker)) end(FAILED, null)
    })
  }

  /** Also while this process stops: one that hangs would keep it waiting. */
  private killHung(): void {
    for (const { worker, silentMs } of this.#liveness.check()) {
      const { pid } = worker.process
      this.#options.log.error({ pid, silentMs }, 'worker hung: no heartbeat; killed')
      this.#hung.add(worker)
      // A process that is stopped by a signal ends by no other.
      worker.process.kill('SIGKILL')
    }
  }

  /** Whether a connection can be handed to another worker than this one. */
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
    // What is wrong with the configuration does not pass by itself.
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
    // Another may never get as far as this one; those that serve are not kept secret for it.
    this.#announceAt = 1
    this.announce()
    setTimeout(() => {
      if (!this.#isStopping) this.fork(place)
    }, this.#delayMs)
    this.#delayMs = Math.min(this.#delayMs * 2, RESTART_MS_MAX)
  }

  private onMessage(worker: Worker, message: Message): void {
    this.#liveness.recordHeartbeat(worker)
    if (message.sluice === 'alive' && message.hadRules && !this.#hadRules) {
      this.#hadRules = true
      this.#options.log.info({}, 'workers: first rules are active')
    }
    if (message.sluice === 'listening') {
      this.#hasServed = true
      this.#liveness.markServing(worker)
      this.#announcements?.set(worker, message.text)
      this.announce()
    }
    if (message.sluice === 'metrics-request') {
      const own = this.#options.ownMetrics?.() ?? ''
      void gatherMetrics(own).then((text) =>
        send(worker, { sluice: 'metrics', id: message.id, text }),
      )
    }
    if (message.sluice === 'alert') this.#options.alerts?.report(worker.id, message.alert)
  }

  /**
   * Prints the addresses once enough workers serve. A port that the system chose is given back
   * when the last worker behind it ends, and the next gets another one: with all of them behind
   * it, what was printed stays true when one dies.
   */
  private announce(): void {
    const ready = [...(this.#announcements?.values() ?? [])]
    const [text] = ready
    if (text === undefined || ready.length < this.#announceAt) return
    this.#announcements = undefined
    this.#options.onListening(text)
  }

  private stop(signal: NodeJS.Signals): void {
    if (this.#isStopping) return
    this.#isStopping = true
    const all = workers()
    if (all.length === 0) return this.#end(this.#failure ?? 0)
    for (const worker of all) worker.process.kill(signal)
    setTimeout(() => {
      for (const worker of workers()) worker.process.kill('SIGKILL')
    }, this.#options.withinMs).unref()
  }
}

/** A message to a process that has just ended is lost, and that is no fault. */
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

/** One that has ended stays known until its channel is closed, which may be later. */
function isAlive(worker: Worker): boolean {
  return isStarted(worker) && !worker.isDead()
}

/** False where the system had no room for one more process: such a worker never ends either. */
function isStarted(worker: Worker): boolean {
  return worker.process.pid !== undefined
}

/** Every worker's metrics as one; a worker that does not answer in time is left out. */
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

/** The side of a worker. */
export interface WorkerSide {
  /** From 0 on; the one that takes the place of a worker that died has the same. */
  readonly place: number
  /** Whether this node had rules before this worker was started. */
  readonly hadRules: boolean
  /** Lets the first process know, with every heartbeat, whether this node had rules. */
  reportRules(hadRules: () => boolean): void
  /** Tells the first process that it serves, and what to print of it; it may be nothing. */
  announce(text: string): void
  /** What this one adds to the metrics of all. */
  shareMetrics(own: () => string): void
  /** The metrics of all workers; its own, should the first process not answer. */
  allMetrics(): Promise<string>
  /** To the process that holds the rule store. */
  readonly rules: IpcChannel
  /** To the process that tells of alerts for all workers. */
  readonly alerts: AlertSink
}

/** Undefined in a process that is no worker. */
export function workerSide(place: number, hadRules = false): WorkerSide | undefined {
  const self = cluster.worker
  if (self === undefined) return undefined
  const sendToPrimary = (message: Message) => void process.send?.(message)
  const waiting = new Map<number, (text: string) => void>()
  let own = () => ''
  let readHadRules = () => hadRules
  sendHeartbeats(() => ({ sluice: 'alive', hadRules: readHadRules() }))
  process.on('message', (message: Message) => {
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
 * From the event loop that decides calls, so that they stop when it does. One at a time: while the
 * first process stands still they do not gather.
 */
function sendHeartbeats(read: () => Message): void {
  let isSending = false
  setInterval(() => {
    if (isSending || !process.connected) return
    isSending = true
    process.send?.(read(), undefined, undefined, () => (isSending = false))
  }, HEARTBEAT_MS).unref()
}
