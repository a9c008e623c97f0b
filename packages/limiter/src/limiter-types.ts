/** The public types of the library: options, statistics and the limiter itself. */
import type {
  Attributes,
  Call,
  Decision,
  OverrideChange,
  ParsedRules,
  Policy,
  Problem,
} from '@sluice/core'
import type { CoordinationStats } from './coordination/node-decider.js'
import type { Clock } from './clock.js'
import type { InFlightStats } from './concurrency/in-flight-calls.js'
import type { Inspection, InspectedCaller } from './inspect.js'
import type { ResetOptions } from './refund.js'
import type {
  ActualCosts,
  ExtendOptions,
  Reservation,
  ReserveOptions,
  Settlement,
} from './reservation/reservation-types.js'
import type { Scheduler } from './periodic.js'
import type { RulesInput } from './rule-set.js'
import type { ReservationStats } from './reservation/reservation-stats.js'
import type { Load, SheddingStats } from './shed/load-shedding.js'
import type { Store } from './store.js'

/**
 * Options of `createLimiter`.
 *
 * @example
 * const options = {
 *   rules: 'rules: [{ id: per-user, by: [user], limits: [100/minute] }]',
 *   store: redisStore({ url: 'redis://127.0.0.1:6379' }),
 *   ipv6Prefix: 56,
 * }
 */
export interface LimiterOptions {
  /**
   * YAML or JSON text, a list of rules, or `{ routes, strictPaths, rules }`. Undefined if
   * `setRules` is called later; until then every call fails with RULES_ABSENT.
   */
  readonly rules: RulesInput | undefined
  /** The file name that error messages about the rules begin with. @default none */
  readonly file?: string | undefined
  /** Where counters live. @default a memory store of one million counters */
  readonly store?: Store | undefined
  /** The wall clock: expires overrides and drives the default store. @default the system's */
  readonly clock?: Clock | undefined
  /**
   * The key of all counter hashes, 16 bytes; limiters that share counters must share it.
   * @default the secret kept in the store if it keeps one, else random
   */
  readonly secret?: Uint8Array | undefined
  /** Bits of an IPv6 address that identify a caller, 32 to 64. @default 64 */
  readonly ipv6Prefix?: number | undefined
  /** Most counters kept in this process while a remote store does not answer. @default 100_000 */
  readonly localCounters?: number | undefined
  /**
   * How busy this process was since the last call of the function, once a second; 1 is full. Needed
   * by `shed` of the rules, which then sheds calls of low priorities. See `loopLoad` for Node.
   * @default none: `shed` has no effect
   */
  readonly load?: Load | undefined
  /** For tests: milliseconds of a clock that never steps. @default the system's */
  readonly monotonicMs?: (() => number) | undefined
  /** For tests: runs delayed calls. @default timers of the system */
  readonly scheduler?: Scheduler | undefined
}

/**
 * Options of `setRules`.
 *
 * @example
 * limiter.setRules(text, { file: 'rules.yaml' }) // rules.yaml:3:7: found …; accepted: …
 */
export interface RulesOptions {
  /** The file name that error messages begin with. @default none */
  readonly file?: string | undefined
}

/**
 * Options of `check`, `checkSync` and `decide`.
 *
 * @example
 * const { receipt } = await limiter.check(call, { receipt: true })
 * if (receipt !== undefined) await limiter.refund(receipt)
 */
export interface CheckOptions {
  /**
   * Whether the decision carries a receipt, by which `refund` returns what it took. `'if-delayed'`:
   * only if the call has to wait, because its caller may leave meanwhile. @default false
   */
  readonly receipt?: boolean | 'if-delayed' | undefined
  /** Whether the call can be delayed; if not, a needed delay is a refusal. @default true */
  readonly canWait?: boolean | undefined
  /**
   * Whether the call only passes through gates: nothing is charged, its cost is ignored, and it is
   * refused where a limit has nothing left. For calls whose cost is known afterwards and charged
   * then: what may be overrun is the cost of the calls in flight. @default false
   */
  readonly gate?: boolean | undefined
  /**
   * Whether the end of the call will be reported, by `release` of its decision. Only such calls are
   * counted by limits of concurrency: those of others would be in flight for ever, so for them the
   * rules are as if they had no such limit. @default false
   */
  readonly inFlight?: boolean | undefined
}

/** Statistics of what this node decided without the store. */
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

/**
 * Decides calls by rules.
 *
 * @example
 * const { allowed, remaining, retryAfterMs } = await limiter.check({
 *   attributes: { user: 'u1', path: '/search' },
 *   cost: 3,
 * })
 */
export interface Limiter {
  /**
   * Decides a call and charges its cost. A refusal is a value, not an error; so is a decision by a
   * rule's posture (what the rule does when the store does not answer). Misuse rejects with a
   * SluiceError.
   */
  check(call: Call, options?: CheckOptions): Promise<Decision>
  /** The same synchronously, for stores in this process. Throws STORE_NOT_SYNC for others. */
  checkSync(call: Call, options?: CheckOptions): Decision
  /**
   * The same synchronously if nothing has to be waited for, else as a promise. Refusing a caller
   * that the deny cache knows then creates no promise.
   */
  decide(call: Call, options?: CheckOptions): Decision | Promise<Decision>
  /** Decides a call without charging it. */
  peek(call: Call): Promise<Decision>
  /** A peek that also lists every rule in `explain`: whether and why it matched, and its limits. */
  explain(call: Call): Promise<Decision>
  /**
   * Lists the limits of every enforced rule that counts this caller, for any method and path, with
   * what is left; charges nothing. A rule that counts by `route` is listed last, once for each of
   * its routes, or only for the route that the call names. At most 1,000 limits.
   */
  limits(call: Call): Promise<readonly Policy[]>
  /**
   * The smallest limit of each cost attribute that the enforced rules which match a call take from:
   * an estimate above it could never pass. Reads no counter.
   */
  costLimits(call: Call): ReadonlyMap<string, number>
  /** Returns what a receipt lists, or the cost of a call to the present window. */
  refund(target: string | Call): Promise<void>
  /**
   * Decides a call and reserves its costs, which are estimates: `settle` charges what was really
   * used. All limits are taken from, or none. A reservation that is not settled in time stays
   * charged.
   *
   * @example
   * const reservation = await limiter.reserve({ attributes: { user: 'u1', tokens: 800 } })
   * if (reservation.allowed) await reservation.settle(612)
   */
  reserve(call: Call, options?: ReserveOptions): Promise<Reservation>
  /**
   * Ends a reservation, on any node: gives back what was not used, or overdraws. Changes nothing if
   * the reservation has ended before, and says so. Rejects with STORE_FAILED if the store does not
   * answer; then it may be sent again.
   */
  settle(reservation: string, actual: ActualCosts): Promise<Settlement>
  /**
   * Reserves more of the costs that the attributes name. Returns the reservation with a new handle,
   * which replaces the old one; if refused, the old one stays. Rejects with RESERVATION_ENDED if it
   * was settled or has expired.
   */
  extend(reservation: string, attributes: Attributes, options?: ExtendOptions): Promise<Reservation>
  /** Ends a reservation and gives everything back. */
  cancel(reservation: string): Promise<Settlement>
  /** Deletes the counters of a caller in every rule that counts by attributes the call has. */
  reset(call: Call, options?: ResetOptions): Promise<void>
  /**
   * Shows the stored counters of one rule for one caller, whatever the rule's mode, path and
   * method. The call needs the attributes that the rule counts by, and the one its tiers depend on.
   */
  inspect(rule: string, call: Call): Promise<Inspection>
  /** The caller of a call in each rule that matches, with the hash that logs show for it. */
  callers(call: Call): readonly InspectedCaller[]
  /**
   * Replaces the rules and returns warnings. Throws a RulesError and changes nothing if they have
   * errors. Standalone overrides stay with rules that keep their id and attributes.
   */
  setRules(rules: RulesInput, options?: RulesOptions): readonly Problem[]
  /**
   * The same with the result of `parseRules` of `@sluice/core`: parsing a large set takes seconds,
   * which another thread can spend.
   */
  setParsedRules(parsed: ParsedRules): readonly Problem[]
  /**
   * Sets and removes standalone overrides, in microseconds each. An override of an unknown rule, or
   * for a caller that the rule does not count, is ignored. It takes precedence over an override
   * that the rule itself has for the same caller.
   */
  changeOverrides(changes: readonly OverrideChange[]): void
  /** Replaces all standalone overrides. */
  replaceOverrides(all: Iterable<OverrideChange>): void
  /**
   * Resolves when the store has started, at once if it is in this process; rejects with the reason
   * if it cannot. Calls can be decided before: until then each rule decides by its posture.
   */
  ready(): Promise<void>
  /** Whether the counters are in this process, so that `checkSync` works. */
  readonly isSync: boolean
  /** Whether an active rule counts messages of WebSockets. */
  readonly countsMessages: boolean
  /** Whether an active rule is `durable`: its counters must survive a restart. */
  readonly hasDurable: boolean
  /** Warnings about the active rules: valid, but probably not what was meant. */
  readonly warnings: readonly Problem[]
  /** Statistics of decisions without the store; undefined for a store in this process. */
  readonly stats: LimiterStats | undefined
  /** Calls in flight on this node, by the id of each rule that counts them. */
  readonly inFlight: ReadonlyMap<string, InFlightStats>
  /** What `shed` of the rules does; undefined without `load`. */
  readonly shedding: SheddingStats | undefined
  /** What became of the reservations that this process made, extended or ended. */
  readonly reservations: ReservationStats
  /**
   * Returns leases and places, reports local usage and closes the store. Every later call fails.
   */
  close(): Promise<void>
}
