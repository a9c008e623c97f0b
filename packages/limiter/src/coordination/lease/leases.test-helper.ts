/** A leasing node over a scripted store, with clocks that a test can move apart. */
import {
  compileRules,
  matchRules,
  parseRules,
  type PlannedTake,
  planCall,
  sipKey,
  type Take,
} from '@sluice/core'
import { call } from '../../limiter.test-helper.js'
import { ScriptedStore, settled } from '../../scripted-store.test-helper.js'
import type { NodeOutcome, CoordinationStats, UnansweredDraw, DrawResult } from '../node-decider.js'
import { Leases } from './leases.js'
import { emptyStats } from '../coordination-stats.js'

/** 2026-01-01T00:00:00Z, where every window begins; the wall clock of the node begins there too. */
const START_US = 1_767_225_600_000_000

/** Of the store, and of a call whose rule has none of its own. */
const DEADLINE_MS = 20

export type NodeAnswer = NodeOutcome | Promise<DrawResult> | undefined

export class LeasingNode {
  readonly store = new ScriptedStore()
  readonly invalidated: number[] = []
  /** How often the store answered. */
  storeAnswers = 0
  /** Whether the store counts as answering. */
  isAnswering = true
  readonly leases: Leases
  fleet = 1
  /** How far the node's clocks are ahead of the store's. */
  monotonicAheadMs = 0
  wallAheadMs = 0
  #passedMs = 0
  readonly #timers = new Set<{ readonly atMs: number; readonly run: () => void }>()

  constructor() {
    this.leases = new Leases({
      store: this.store,
      scheduler: { after: (ms, run) => this.after(ms, run) },
      monotonicMs: () => this.#passedMs + this.monotonicAheadMs,
      wallUs: () => START_US + (this.#passedMs + this.wallAheadMs) * 1000,
      placeInWindow: () => this.store.clock.now(),
      fleetSize: () => this.fleet,
      fleetPlace: () => 0,
      deadlineMs: DEADLINE_MS,
      invalidate: ({ lo }) => this.invalidated.push(lo),
      onStoreAnswer: () => void (this.storeAnswers += 1),
      isStoreAnswering: () => this.isAnswering,
    })
  }

  get timers(): number {
    return this.#timers.size
  }

  /** Statistics of the only rule. */
  get stats(): CoordinationStats {
    return this.leases.stats.get('r') ?? emptyStats()
  }

  /** Takes for a call that may wait for the default deadline. */
  take(take: PlannedTake, waitMs = DEADLINE_MS): NodeAnswer {
    return this.leases.take(take, waitMs)
  }

  /** Advances all clocks and runs due timers. */
  async pass(ms: number): Promise<void> {
    const untilMs = this.#passedMs + ms
    for (;;) {
      const [next] = [...this.#timers].toSorted((a, b) => a.atMs - b.atMs)
      if (next === undefined || next.atMs > untilMs) break
      // A timer may be overdue if the process was frozen.
      this.moveTo(Math.max(this.#passedMs, next.atMs))
      this.#timers.delete(next)
      next.run()
      await settled()
    }
    this.moveTo(untilMs)
    await settled()
  }

  /** Advances all clocks without running timers. */
  freeze(ms: number): void {
    this.moveTo(this.#passedMs + ms)
  }

  /** The same, while the monotonic clock stands still. */
  suspend(ms: number): void {
    this.monotonicAheadMs -= ms
    this.freeze(ms)
  }

  /** Lets the store grant units, so that the node learns the rate. */
  spendByStore(take: PlannedTake, units: number): void {
    const [[answer] = []] = this.store.inner.sync.take([[{ ...take, amount: units }]])
    if (answer !== undefined) this.leases.learn(take, answer)
  }

  /** Units that the store counts as used by the counter. */
  used({ key, compiled: of }: PlannedTake): number {
    const limit = of.immediate
    const [[peeked] = []] = this.store.inner.sync.peek([[{ key, limit, amount: 0 }]])
    return limit.capacity - (peeked?.remaining ?? 0)
  }

  /** All draws so far. */
  draws(): readonly Take[] {
    return this.store.requests.flatMap(({ groups }) => groups.flat())
  }

  given(): readonly number[] {
    return this.store.gives.map(({ amount }) => amount)
  }

  private moveTo(ms: number): void {
    this.#passedMs = ms
    this.store.clock.set(START_US + ms * 1000)
  }

  private after(ms: number, run: () => void): () => void {
    const timer = { atMs: this.#passedMs + ms, run }
    this.#timers.add(timer)
    return () => this.#timers.delete(timer)
  }
}

/** The take of one call to a rule with this one limit. */
export function takeOf(
  limit: object | string,
  { cost = 1, user = 'u1', canWait = true, ...rule }: TakeOptions = {},
): PlannedTake {
  const parsed = parseRules([
    { id: 'r', by: ['user'], limits: [limit], coordination: 'leased', ...rule },
  ])
  if (parsed.rules === undefined) throw new Error(JSON.stringify(parsed.errors))
  const snapshot = compileRules(parsed.rules, { secret: sipKey(new Uint8Array(16)) })
  const one = call({ user }, cost)
  const [[take] = []] = planCall(matchRules(snapshot, one, 0), one, { canWait }).groups
  if (take === undefined) throw new Error('no limit')
  return take
}

interface TakeOptions {
  readonly cost?: number
  readonly user?: string
  readonly canWait?: boolean
  readonly maxStranded?: number
}

/** The same with another cost, for the same compiled limit. */
export function costing(take: PlannedTake, amount: number): PlannedTake {
  return { ...take, amount }
}

/** Takes and waits for the result. */
export async function takeAndWait(
  node: LeasingNode,
  take: PlannedTake,
): Promise<DrawResult | undefined> {
  return node.take(take)
}

/** The outcome of a synchronous decision; throws otherwise. */
export function outcomeOf(answer: NodeAnswer | DrawResult): NodeOutcome {
  if (
    answer === undefined ||
    answer === 'store' ||
    answer instanceof Promise ||
    'silence' in answer
  ) {
    throw new Error('not decided here')
  }
  return answer
}

/** The unanswered draw; throws otherwise. */
export function unansweredOf(answer: DrawResult | undefined): UnansweredDraw {
  if (typeof answer === 'object' && 'silence' in answer) return answer
  throw new Error('the store was not silent')
}

/** Whether every drawn unit is accounted for. */
export function isBalanced({ drawn, spent, givenBack, lost, held }: CoordinationStats): boolean {
  return drawn === spent + givenBack + lost + held && held >= 0 && spent <= drawn
}
