/**
 * Everything that happens to a fleet from outside, as plain data: it is generated from a seed, can
 * be printed, and can be shrunk part by part. Times are milliseconds of true time from the start.
 */

export interface Scenario {
  readonly seed: number
  readonly settings: Settings
  readonly rules: readonly RuleSpec[]
  readonly nodes: readonly NodeSpec[]
  readonly traffic: readonly Arrival[]
  readonly faults: readonly Fault[]
}

export interface Settings {
  /**
   * True time at the start, in microseconds, so that windows begin at different places in each run.
   */
  readonly startUs: number
  /** Until the traffic ends; calls in flight are then completed. */
  readonly lengthMs: number
  readonly denyCacheMs: number
  readonly deadlineMs: number
  /** Latency of one direction: the minimum, and the mean of what is added. */
  readonly delayMs: number
  readonly jitterMs: number
  /** How far the store's clock is ahead of true time at the start. */
  readonly storeAheadMs: number
  readonly storeDriftPpm: number
}

/** A rule as `createLimiter` takes it. */
export interface RuleSpec {
  readonly id: string
  readonly by: readonly string[]
  readonly limits: readonly LimitText[]
  readonly coordination: 'exact' | 'leased' | 'local' | 'split'
  /** How several regions share its limits. */
  readonly regions?: 'merged' | 'split'
  readonly maxStranded?: number
  readonly syncEvery?: string
  readonly mode: 'enforce' | 'shadow'
  readonly posture: 'open' | 'closed' | 'local' | { readonly local: number }
  /** Other limits for callers of a plan. */
  readonly tiers?: { readonly plan: Readonly<Record<string, readonly LimitText[]>> }
  /** Other limits in shadow, beside the active ones. */
  readonly candidate?: { readonly limits: readonly LimitText[] }
  /** Units of a call: a factor of its cost, or one of its attributes. */
  readonly cost?: number | { readonly attribute: string }
  /** What becomes of a reservation that is not settled in time. */
  readonly onExpiry?: 'charge' | 'refund'
}

export interface LimitText {
  readonly name: string
  readonly algorithm: string
  readonly max: number
  /** A duration or a unit of the calendar; all but `concurrency` have one. */
  readonly window?: string
  /** Of a calendar window. */
  readonly zone?: string
  readonly burst?: number
  /** Concurrency: how long the places of a dead node stay taken. */
  readonly lease?: string
  /** Fixed window: it begins with the caller's first call. */
  readonly start?: 'call'
  readonly block?: BlockText
  /** Counts a call first and compares then: a refused one is owed. */
  readonly onRefusal?: 'overdraw'
  /** Units that it may owe; without it `max`, if it overdraws or its cost is an attribute. */
  readonly debt?: number
}

export interface BlockText {
  readonly first: string
  readonly factor: number
  readonly max: string
  readonly forget: string
}

export interface NodeSpec {
  readonly name: string
  readonly joinsMs: number
  /** How far its wall clock is ahead of true time at the start. */
  readonly wallAheadMs: number
  readonly wallDriftPpm: number
  readonly monotonicDriftPpm: number
}

export type Arrival = CallSpec | ResetSpec

export interface CallSpec {
  readonly kind: 'call'
  readonly atMs: number
  readonly node: string
  readonly user: string
  readonly plan?: string
  readonly cost: number
  /** Refunds a call, on this node or another, once or by mistake twice. */
  readonly refund?: { readonly afterMs: number; readonly node: string; readonly twice: boolean }
  /** Takes nothing, and is refused where nothing is left. */
  readonly gate?: boolean
  /** How long it is in flight, if its end is reported. */
  readonly lastsMs?: number
  /** Reserves its costs instead of taking them. */
  readonly reserve?: ReserveSpec
}

/** A reservation, and what its client does with it. Without steps it is abandoned. */
export interface ReserveSpec {
  /** The estimates, by attribute. */
  readonly costs: Costs
  readonly ttlMs: number
  /** The reserve is sent again under one idempotency key, so long after its first time. */
  readonly repeats?: readonly { readonly afterMs: number; readonly node: string }[]
  readonly steps: readonly ReserveStep[]
}

/** A request about a reservation, so long after the client got its handle. */
export interface ReserveStep {
  readonly verb: 'extend' | 'settle' | 'cancel'
  readonly afterMs: number
  readonly node: string
  /** What is added, or was used. */
  readonly costs: Costs
  /** Whether it uses the first handle although there is a newer one. */
  readonly isOutdated: boolean
}

export type Costs = Readonly<Record<string, number>>

/** Resets the counters of a caller; shared counters only if their rule is named. */
export interface ResetSpec {
  readonly kind: 'reset'
  readonly atMs: number
  readonly node: string
  readonly user: string
  readonly rule?: string
}

export type Fault =
  /** SIGSTOP: nothing runs, and both clocks continue. */
  | { readonly kind: 'pause'; readonly atMs: number; readonly node: string; readonly forMs: number }
  /** The machine sleeps: the monotonic clock stops, the wall clock does not. */
  | {
      readonly kind: 'suspend'
      readonly atMs: number
      readonly node: string
      readonly forMs: number
    }
  /** Killed, with all that it held. */
  | { readonly kind: 'kill'; readonly atMs: number; readonly node: string }
  /** Killed, and started again after this time by a process that knows nothing of the first. */
  | {
      readonly kind: 'restart'
      readonly atMs: number
      readonly node: string
      readonly forMs: number
    }
  /** Shut down gracefully. */
  | { readonly kind: 'stop'; readonly atMs: number; readonly node: string }
  /** The same rules are loaded again: the node gives back everything it holds of them. */
  | { readonly kind: 'reload'; readonly atMs: number; readonly node: string }
  /** Replaces the rules with these ids, on each node at some time within the spread. */
  | {
      readonly kind: 'change'
      readonly atMs: number
      readonly spreadMs: number
      readonly rules: readonly RuleSpec[]
    }
  /** The connection ends with an error for the node; messages in flight are lost. */
  | { readonly kind: 'reset'; readonly atMs: number; readonly node: string; readonly forMs: number }
  /** Nothing arrives in either direction, without an error. */
  | { readonly kind: 'cut'; readonly atMs: number; readonly node: string; readonly forMs: number }
  /** Everything arrives, but only at the end. */
  | { readonly kind: 'stall'; readonly atMs: number; readonly node: string; readonly forMs: number }
  /** The store is paused, and then applies everything that has arrived. */
  | { readonly kind: 'store-pause'; readonly atMs: number; readonly forMs: number }
  /** A replica that lags this far behind takes over, with a clock of its own. */
  | {
      readonly kind: 'failover'
      readonly atMs: number
      readonly lagMs: number
      readonly clockMs: number
    }
  | { readonly kind: 'store-jump'; readonly atMs: number; readonly byMs: number }
  | {
      readonly kind: 'wall-jump'
      readonly atMs: number
      readonly node: string
      readonly byMs: number
    }

export type FaultKind = Fault['kind']
