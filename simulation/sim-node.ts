/** One node of the fleet: the real limiter, with its own clocks, timers and connection. */
import type { CounterKey } from '@sluice/core'
import { createLimiter, type Give, type Limiter, type Store } from '@sluice/limiter'
import type { Scheduler } from '@sluice/limiter/internal'
import type { Agenda } from './agenda.js'
import { DriftingClock } from './drifting-clock.js'
import { SimLink } from './sim-link.js'
import type { Random } from './random.js'
import type { Reply, Request } from './requests.js'
import { type RuleVersion, SECRET } from './rule-timeline.js'
import type { NodeSpec, Settings } from './scenario.js'
import type { SimServer } from './sim-server.js'
import { SimStore } from './sim-store.js'

/** The most posture counters that a node keeps; scenarios have few callers. */
const LOCAL_COUNTERS = 256

export interface SimNodeOptions {
  readonly spec: NodeSpec
  readonly settings: Settings
  readonly version: RuleVersion
  readonly agenda: Agenda
  readonly server: SimServer
  readonly random: Random
  readonly fleetSize: number
  /** The store of its limiter, over its own one. @default the own one */
  readonly storeOver?: ((node: SimNode) => Store) | undefined
  readonly onGive: (give: Give) => void
  /** It was certainly not applied. */
  readonly onNotGiven: (give: Give) => void
  /** It received the answer that the store has reset a counter. */
  readonly onReset: (key: CounterKey) => void
  readonly onDoubt: (request: Request) => void
  readonly onLost: (request: Request, reply: Reply) => void
}

export class SimNode {
  readonly spec: NodeSpec
  readonly name: string
  readonly link: SimLink
  readonly store: SimStore
  readonly limiter: Limiter
  readonly #agenda: Agenda
  readonly #wall: DriftingClock
  readonly #monotonic: DriftingClock
  readonly #waiting: (() => void)[] = []
  #stops = 0
  #sleeps = 0
  #isDead = false
  /** Its active rules. */
  version: RuleVersion
  /** Shut down gracefully: it completes its work, but gets no calls. */
  isClosing = false

  constructor(options: SimNodeOptions) {
    const { spec, settings, agenda, random } = options
    this.spec = spec
    this.name = spec.name
    this.version = options.version
    this.#agenda = agenda
    const { nowUs } = agenda
    this.#wall = new DriftingClock(nowUs, nowUs + spec.wallAheadMs * 1000, spec.wallDriftPpm)
    this.#monotonic = new DriftingClock(nowUs, random.int(1, 1e9), spec.monotonicDriftPpm)
    this.link = new SimLink({
      ...options,
      delayUs: settings.delayMs * 1000,
      jitterUs: settings.jitterMs * 1000,
      deliver: (run) => this.deliver(run),
    })
    this.store = new SimStore({
      ...options,
      secret: SECRET,
      node: spec.name,
      link: this.link,
      scheduler: this.scheduler,
      nowMs: () => this.nowMs(),
      trueUs: () => agenda.nowUs,
      denyCacheMs: settings.denyCacheMs,
      deadlineMs: settings.deadlineMs,
    })
    this.limiter = createLimiter({
      rules: [...options.version.rules],
      store: options.storeOver?.(this) ?? this.store,
      clock: { now: () => Math.floor(this.#wall.read(agenda.nowUs)) },
      monotonicMs: () => this.nowMs(),
      scheduler: this.scheduler,
      secret: SECRET,
      localCounters: LOCAL_COUNTERS,
    })
    this.store.start()
  }

  get isAlive(): boolean {
    return !this.#isDead
  }

  /** Whether it runs: it is neither dead, nor paused, nor asleep. */
  get isRunning(): boolean {
    return !this.#isDead && this.#stops === 0
  }

  nowMs(): number {
    return this.#monotonic.read(this.#agenda.nowUs) / 1000
  }

  /** Its estimate of the store's time; at first, its wall clock. */
  storeTime(): { readonly nodeUs: number; readonly uncertaintyUs: number } {
    const us = this.store.remote.time()
    const nodeUs = Number.isFinite(us) ? us : this.#wall.read(this.#agenda.nowUs)
    return { nodeUs, uncertaintyUs: this.store.clock.uncertaintyUs() }
  }

  /** Loads rules, perhaps the same again. */
  use(version: RuleVersion): void {
    if (this.isClosing || version.number < this.version.number) return
    this.version = version
    this.limiter.setRules([...version.rules])
  }

  pause(forUs: number): void {
    this.#stops += 1
    this.#agenda.after(forUs, () => this.resume())
  }

  suspend(forUs: number): void {
    this.#sleeps += 1
    this.#monotonic.stop(this.#agenda.nowUs)
    this.pause(forUs)
    this.#agenda.after(forUs, () => this.wake())
  }

  kill(): void {
    this.#isDead = true
  }

  jumpWall(byUs: number): void {
    this.#wall.jump(this.#agenda.nowUs, byUs)
  }

  /** Runs it now, or when the node resumes. */
  deliver(run: () => void): void {
    if (this.#isDead) return
    if (this.#stops > 0) this.#waiting.push(run)
    else run()
  }

  readonly scheduler: Scheduler = {
    after: (ms, run) => {
      const dueMs = this.nowMs() + ms
      let isOff = false
      const ring = () => {
        const leftMs = dueMs - this.nowMs()
        if (isOff) return
        if (leftMs > 0) wait(leftMs)
        else run()
      }
      // At least a microsecond: the remainder may be smaller than true time can express.
      const wait = (leftMs: number) => {
        const us = Math.max(1, Math.ceil(this.#monotonic.trueLength(leftMs * 1000)))
        this.#agenda.after(us, () => this.deliver(ring))
      }
      wait(Math.max(0, ms))
      return () => {
        isOff = true
      }
    },
  }

  /** Waiting work resumes one by one, each in its own turn. */
  private resume(): void {
    this.#stops -= 1
    if (this.#stops > 0) return
    for (const run of this.#waiting.splice(0)) this.#agenda.after(0, () => this.deliver(run))
  }

  private wake(): void {
    this.#sleeps -= 1
    if (this.#sleeps === 0) this.#monotonic.go(this.#agenda.nowUs)
  }
}
