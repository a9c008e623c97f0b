/** What a limiter is made with, and what it can do. */
import type { Call, Decision, OverrideChange, ParsedRules, Policy, Problem } from '@sluice/core'
import type { CoordinationStats } from './coordination/node-decider.js'
import type { Clock } from './clock.js'
import type { Inspection, InspectedCaller } from './inspect.js'
import type { ResetOptions } from './refund.js'
import type { Scheduler } from './periodic.js'
import type { RulesInput } from './rule-set.js'
import type { Store } from './store.js'

export interface LimiterOptions {
  /** Undefined: they come later, by `setRules`, and until then nothing is decided. */
  readonly rules: RulesInput | undefined
  /** Where the rules come from, for messages. */
  readonly file?: string | undefined
  /** Where counters live. @default a memory store of a million counters */
  readonly store?: Store | undefined
  /** The wall clock; ends overrides, and times the default store. @default the system's */
  readonly clock?: Clock | undefined
  /**
   * The key of all hashes, 16 bytes; limiters that share counters share it. @default the store's
   * own where it keeps one, else random
   */
  readonly secret?: Uint8Array | undefined
  /** How many bits of an IPv6 address make a caller, 32 to 64. @default 64 */
  readonly ipv6Prefix?: number | undefined
  /** The most counters kept here while a store elsewhere is silent. @default 100_000 */
  readonly localCounters?: number | undefined
  /** Milliseconds of a clock that never steps. For tests. @default the system's */
  readonly monotonicMs?: (() => number) | undefined
  /** What calls back later. For tests. @default timers of the system */
  readonly scheduler?: Scheduler | undefined
}

export interface RulesOptions {
  /** Where the rules come from, for messages. */
  readonly file?: string | undefined
}

export interface CheckOptions {
  /**
   * Ask for a receipt, to give back what the decision takes; `'if-delayed'` for one only where the
   * call is to be held, because whoever holds it may see the caller leave. @default false
   */
  readonly receipt?: boolean | 'if-delayed' | undefined
  /** Whether the caller can be made to wait; if not, a delay is a refusal. @default true */
  readonly canWait?: boolean | undefined
}

/** What this node keeps because the store did not answer, or lets nodes decide. */
export interface LimiterStats {
  /** Counters in this process, of callers decided by fallback. */
  readonly localCounters: number
  /** Counters whose local usage is still to be charged to the store. */
  readonly reportsWaiting: number
  /** Units used locally that will never be charged to the store. */
  readonly reportsDropped: number
  /** Returns that the store did not confirm: those units may stay taken until they expire. */
  readonly givesLost: number
  /** What this node decided itself, by rule id. */
  readonly coordination: ReadonlyMap<string, CoordinationStats>
}

export interface Limiter {
  /**
   * Decides a call and spends its cost. A refusal is a value, and so is the answer of a rule's
   * posture where the store gives none; a failure rejects with a SluiceError.
   */
  check(call: Call, options?: CheckOptions): Promise<Decision>
  /** The same at once, for stores in this process. */
  checkSync(call: Call, options?: CheckOptions): Decision
  /**
   * The same at once where nothing has to be waited for, else as a promise: a caller that is known
   * to be refused costs no promise.
   */
  decide(call: Call, options?: CheckOptions): Decision | Promise<Decision>
  /** Whether a call would pass; spends nothing. */
  peek(call: Call): Promise<Decision>
  /** A peek with, in `explain`, every rule: matched or why not, and what its limits say. */
  explain(call: Call): Promise<Decision>
  /**
   * Every enforced rule that counts this caller somewhere, whatever method and path it is for, with
   * what is left; spends nothing. A rule that counts by `route` is told of once for each route that
   * its calls may take, with that `route`, after all others; once where the call names its route,
   * or a path that has one. At most the first 1,000 limits.
   */
  limits(call: Call): Promise<readonly Policy[]>
  /** Gives back what a receipt says was taken, or the cost of a call in the present window. */
  refund(target: string | Call): Promise<void>
  /** Forgets the counters of a caller: every rule that counts by attributes the call has. */
  reset(call: Call, options?: ResetOptions): Promise<void>
  /**
   * The counters of one rule for one caller as they are stored, for people: whatever the rule's
   * mode, path and method; the call needs the attributes that it counts by, and that of its tiers.
   */
  inspect(rule: string, call: Call): Promise<Inspection>
  /** Who a call is to each rule that it meets, and what stands for that in logs. */
  callers(call: Call): readonly InspectedCaller[]
  /**
   * Replaces the rules; throws a RulesError and changes nothing if they have errors. Returns
   * warnings. Standalone overrides stay with the rules that still are and count by the
   * same attributes.
   */
  setRules(rules: RulesInput, options?: RulesOptions): readonly Problem[]
  /**
   * The same with what `parseRules` of `@sluice/core` gave: parsing a large set takes seconds, and
   * may be done in another thread.
   */
  setParsedRules(parsed: ParsedRules): readonly Problem[]
  /**
   * Sets and takes away overrides apart from the rules, however many there are in microseconds
   * each. One of a rule that is not in force, or for a caller that the rule does not count, is
   * passed over. Where the rule itself has an override for the caller, the one set here holds.
   */
  changeOverrides(changes: readonly OverrideChange[]): void
  /** The same, but of all that were set before none stays. */
  replaceOverrides(all: Iterable<OverrideChange>): void
  /**
   * Resolves when the store has started, at once where it is in this process; rejects with why it
   * could not. Calls may be decided before: until then each rule answers by its posture.
   */
  ready(): Promise<void>
  /** Whether the counters are in this process, so that `checkSync` answers. */
  readonly isSync: boolean
  /** Whether a rule in force counts messages of WebSockets. */
  readonly countsMessages: boolean
  /** Whether the counters of a rule in force are to outlive a restart. */
  readonly hasDurable: boolean
  /** What the rules in force probably do not mean. */
  readonly warnings: readonly Problem[]
  /** What is kept here because the store was silent; undefined where it is in this process. */
  readonly stats: LimiterStats | undefined
  close(): Promise<void>
}
