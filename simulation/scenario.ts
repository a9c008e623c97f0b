/**
 * All that happens to a fleet from outside, as plain data: it follows from a seed, can be printed,
 * and can be made smaller part by part. Times are milliseconds of true time from the start.
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
  /** True time at the start, in microseconds: windows begin at other places each time. */
  readonly startUs: number
  /** Until the traffic ends; what is under way then is waited for. */
  readonly lengthMs: number
  readonly denyCacheMs: number
  readonly deadlineMs: number
  /** One way through the network: at least so long, and so much longer on average. */
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
  readonly maxStranded?: number
  readonly syncEvery?: string
  readonly mode: 'enforce' | 'shadow'
  readonly posture: 'open' | 'closed' | 'local' | { readonly local: number }
  /** Other limits for callers of a plan. */
  readonly tiers?: { readonly plan: Readonly<Record<string, readonly LimitText[]>> }
  /** Other limits in shadow, beside those in force. */
  readonly candidate?: { readonly limits: readonly LimitText[] }
}

export interface LimitText {
  readonly name: string
  readonly algorithm: string
  readonly max: number
  readonly window: string
  readonly burst?: number
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
  /** What it took is given back, on this node or another, once or by mistake twice. */
  readonly refund?: { readonly afterMs: number; readonly node: string; readonly twice: boolean }
}

/** The counters of a caller are forgotten; of everybody's only those of a rule that is named. */
export interface ResetSpec {
  readonly kind: 'reset'
  readonly atMs: number
  readonly node: string
  readonly user: string
  readonly rule?: string
}

export type Fault =
  /** SIGSTOP: nothing runs, and both clocks go on. */
  | { readonly kind: 'pause'; readonly atMs: number; readonly node: string; readonly forMs: number }
  /** The machine sleeps: the monotonic clock stands still, the wall clock does not. */
  | {
      readonly kind: 'suspend'
      readonly atMs: number
      readonly node: string
      readonly forMs: number
    }
  /** Gone at once, with all that it held. */
  | { readonly kind: 'kill'; readonly atMs: number; readonly node: string }
  /** Shut down in order. */
  | { readonly kind: 'stop'; readonly atMs: number; readonly node: string }
  /** The same rules are loaded once more: whatever it holds of them goes back. */
  | { readonly kind: 'reload'; readonly atMs: number; readonly node: string }
  /** These take the place of the rules with their ids: on each node some time within the spread. */
  | {
      readonly kind: 'change'
      readonly atMs: number
      readonly spreadMs: number
      readonly rules: readonly RuleSpec[]
    }
  /** The connection ends, and the node knows; what was under way is lost. */
  | { readonly kind: 'reset'; readonly atMs: number; readonly node: string; readonly forMs: number }
  /** Nothing arrives in either direction, and nobody is told. */
  | { readonly kind: 'cut'; readonly atMs: number; readonly node: string; readonly forMs: number }
  /** Everything arrives, but only at the end of it. */
  | { readonly kind: 'stall'; readonly atMs: number; readonly node: string; readonly forMs: number }
  /** The store stands still, and then does all that has arrived. */
  | { readonly kind: 'store-pause'; readonly atMs: number; readonly forMs: number }
  /** A replica takes over that is so far behind, with a clock of its own. */
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
