/** Sheds calls before their rules while this process is too busy, as `shed` of the rules says. */
import {
  callerHash,
  type CompiledShed,
  type Decision,
  type NormalizedCall,
  readNormalized,
  shedDecision,
  shedRetryMs,
  type Snapshot,
} from '@sluice/core'
import type { Scheduler } from '../periodic.js'
import { LoopShedder } from './loop-shedder.js'

/**
 * Returns how busy the process was since the last call, 1 being full. `loopMs` is the delay of the
 * event loop that the rules aim at.
 */
export type Load = (target: { readonly loopMs: number }) => number

/** Calls of one priority that were shed, or would have been in shadow mode. */
export interface ShedCounts {
  enforce: number
  shadow: number
}

export interface SheddingStats {
  /** Whether the active rules have `shed`, in another mode than `off`. */
  readonly isActive: boolean
  /** The share of calls that is let in; 1 while nothing is shed. */
  readonly share: number
  /** Those of the active rules, the most important first. */
  readonly priorities: readonly string[]
  /** Priorities that are not to be shed: those of `keep`, and the most important one. */
  readonly kept: ReadonlySet<string>
  /** Since the start, by priority. */
  readonly shed: ReadonlyMap<string, Readonly<ShedCounts>>
  /**
   * Calls that passed because they could not be classified or shedding failed, and seconds without
   * a load.
   */
  readonly failures: number
}

export interface LoadSheddingDeps {
  readonly load: Load
  readonly scheduler: Scheduler
  readonly monotonicMs: () => number
  readonly wallMs: () => number
}

const STEP_MS = 1000
const HOUR_MS = 3_600_000
/** Priorities of earlier rules keep their counts; further ones share one. */
const PRIORITIES_MAX = 64
const OTHER = 'other'
/** What a caller is known by, the most telling first. */
const IDENTITIES = ['user', 'api_key', 'ip'] as const

export class LoadShedding {
  readonly #deps: LoadSheddingDeps
  readonly #shed = new Map<string, ShedCounts>()
  #snapshot: Snapshot
  #config: CompiledShed | undefined
  #priorities: readonly string[] = []
  #kept: ReadonlySet<string> = new Set()
  #shedder: LoopShedder | undefined
  #cancel: (() => void) | undefined
  #failures = 0

  constructor(deps: LoadSheddingDeps, snapshot: Snapshot) {
    this.#deps = deps
    this.#snapshot = snapshot
    this.useRules(snapshot)
  }

  get stats(): SheddingStats {
    const share = this.#shedder?.share ?? 1
    const failures = this.#failures + (this.#snapshot.classifier?.failures ?? 0)
    const isActive = this.#shedder !== undefined
    const [priorities, kept] = [this.#priorities, this.#kept]
    return { isActive, share, priorities, kept, shed: this.#shed, failures }
  }

  /** Other rules keep what was learnt, unless they shed in another way. */
  useRules(snapshot: Snapshot): void {
    const { shed } = snapshot
    const { classifier } = this.#snapshot
    if (classifier !== snapshot.classifier) this.#failures += classifier?.failures ?? 0
    this.#snapshot = snapshot
    this.#priorities = snapshot.classifier?.priorities.map(({ name }) => name) ?? []
    this.#kept = new Set(this.#priorities.filter((_, i) => i === 0 || shed?.isKept[i] === true))
    if (JSON.stringify(shed) === JSON.stringify(this.#config)) return
    this.close()
    this.#config = shed
    this.#shedder = shed && new LoopShedder(shed)
    if (shed !== undefined) this.schedule()
  }

  close(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  /** The refusal of a call that is shed; undefined if its rules decide. Never fails. */
  decide(call: NormalizedCall): Decision | undefined {
    const { priority } = call
    if (this.#shedder === undefined || priority === undefined) return undefined
    this.#shedder.record(priority.index)
    if (!this.sheds(call, this.#shedder)) return undefined
    const counts = this.countsOf(priority.name)
    if (this.#config?.isEnforced !== true) {
      counts.shadow += 1
      return undefined
    }
    counts.enforce += 1
    return shedDecision(priority.name, shedRetryMs(Math.random()))
  }

  /** What `decide` would return now, without counting the call. */
  peek(call: NormalizedCall): Decision | undefined {
    const isShed =
      this.#shedder !== undefined &&
      this.#config?.isEnforced === true &&
      this.sheds(call, this.#shedder)
    return isShed ? shedDecision(call.priority?.name, shedRetryMs(0)) : undefined
  }

  private sheds(call: NormalizedCall, { admitted }: LoopShedder): boolean {
    const share = call.priority === undefined ? 1 : (admitted[call.priority.index] ?? 1)
    if (share >= 1) return false
    try {
      return this.pointOf(call) >= share
    } catch {
      this.#failures += 1
      return false
    }
  }

  /**
   * From 0 to 1. The same for all calls of a caller within an hour, and on all nodes: a session is
   * served or not, rather than each of its calls by lot.
   */
  private pointOf(call: NormalizedCall): number {
    const hour = String(Math.floor(this.#deps.wallMs() / HOUR_MS))
    for (const name of IDENTITIES) {
      const value = readNormalized(call, name)
      if (value === undefined) continue
      return (callerHash(this.#snapshot.secret, [name, value, hour]).hi >>> 0) / 2 ** 32
    }
    return Math.random()
  }

  private countsOf(priority: string): ShedCounts {
    const known = this.#shed.get(priority)
    if (known !== undefined) return known
    if (this.#shed.size >= PRIORITIES_MAX && priority !== OTHER) return this.countsOf(OTHER)
    const made = { enforce: 0, shadow: 0 }
    this.#shed.set(priority, made)
    return made
  }

  private schedule(): void {
    this.#cancel = this.#deps.scheduler.after(STEP_MS, () => {
      this.schedule()
      this.step()
    })
  }

  /** A load that cannot be read counts as none, so that nothing is shed by mistake. */
  private step(): void {
    let load = 0
    try {
      const read = this.#deps.load({ loopMs: this.#config?.loopMs ?? 1 })
      if (Number.isFinite(read)) load = read
      else this.#failures += 1
    } catch {
      this.#failures += 1
    }
    this.#shedder?.step(this.#deps.monotonicMs(), load)
  }
}
