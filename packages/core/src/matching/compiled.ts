/**
 * The types of compiled rules: conditions in order, limits with their arithmetic and the seeds of
 * their keys.
 */
import type { Cidr } from '../identity/cidr.js'
import type { Limit } from '../limit.js'
import type { PathPattern } from '../path.js'
import type { Coordination, Cost, Mode, Posture, Rule } from '../rules/rule.js'
import type { Hash64, SipKey } from '../sip-hash.js'
import type { Ceiling } from './ceilings.js'
import type { Classifier } from './classify.js'
import type { OverrideIndex } from './override-index.js'
import type { OverrideLimits } from './override-limits.js'
import type { CompiledRegion } from './region-limits.js'
import type { NamedRoute } from './compile-routes.js'
import type { RuleIndex } from './rule-index.js'

/** A limit of a rule. Its own hash (`hi`, `lo`) is the seed that is XORed with a caller's hash. */
export interface CompiledLimit extends Hash64 {
  /** The id of its rule. */
  readonly rule: string
  readonly limit: Limit
  /** The same limit for an entry point that cannot delay a call. */
  readonly immediate: Limit
  /**
   * Its name in headers and problem bodies: the rule's id, with the limit's name where there are
   * several.
   */
  readonly policy: string
  /**
   * Its text in `RateLimit-Policy`, and the start of its text in `RateLimit`; the same for every
   * call. Empty if it protects capacity, which is no policy of the caller.
   */
  readonly field: string
  readonly leftField: string
  /**
   * From the rule: the fallback when the store does not answer, and whether counters survive a
   * restart.
   */
  readonly posture: Posture
  readonly durable: boolean
  /** Whether it counts calls in flight, so that their end must be reported. */
  readonly isPlaces: boolean
  /** Whether its takes have no more than key, limit and amount, as most do. */
  readonly isOrdinary: boolean
  /** From the rule: whether its refusals shed calls. */
  readonly sheds: boolean
  /**
   * How nodes share its counters. `exact` if the limit does not support the coordination of its
   * rule, for example if it charges refusals, which only the store can do.
   */
  readonly coordination: Coordination
  readonly maxStranded: number
  readonly syncEveryMs: number
  /** The block of callers that go over, with the seed of its own counters. */
  readonly block: CompiledBlock | undefined
  /** Of a rule with headroom: the limit of each priority; undefined for one limit for all. */
  readonly ceilings: readonly CompiledLimit[] | undefined
  /** Of a limit of one priority: the whole limit, which has the same counters. */
  readonly ceiling: Ceiling | undefined
}

export interface CompiledBlock extends Hash64 {
  readonly limit: Limit
}

/** One attribute and what it must be: one of the values, within one of the networks, or absent. */
export interface Condition {
  readonly attribute: string
  /** The value must be none of the values and in none of the networks; an absent one qualifies. */
  readonly isExcluding: boolean
  readonly values: ReadonlySet<string> | undefined
  readonly cidrs: readonly Cidr[] | undefined
}

export interface CompiledTiers {
  readonly attribute: string
  readonly limits: ReadonlyMap<string, readonly CompiledLimit[]>
}

interface CompiledCandidate {
  readonly limits: readonly CompiledLimit[]
  readonly tiers: CompiledTiers | undefined
}

/** The fields by which the index finds a rule. */
export interface IndexedRule {
  /** Its position in the rule set. */
  readonly order: number
  readonly pattern: PathPattern | undefined
  readonly methods: ReadonlySet<string> | undefined
  readonly conditions: readonly Condition[]
  /** The condition it is indexed by, if any. */
  readonly filedUnder: Condition | undefined
}

/**
 * All that a decision reads is stored in the rule itself: with 10,000 rules every indirection is a
 * cache miss. Only overrides are separate, because they change independently.
 */
export interface CompiledRule extends IndexedRule {
  readonly rule: Rule
  readonly id: string
  readonly mode: Mode
  readonly cost: Cost
  readonly by: readonly string[]
  /** The conditions that the index has not checked. */
  readonly rest: readonly Condition[]
  readonly limits: readonly CompiledLimit[]
  readonly tiers: CompiledTiers | undefined
  readonly candidate: CompiledCandidate | undefined
  /** Limits that its overrides share. */
  readonly overrideLimits: OverrideLimits
}

/** The parts of a call that the rules read, so that nothing else is parsed. */
export interface Needs {
  readonly route: boolean
  readonly method: boolean
  readonly path: boolean
  /** Whether an invalid path is refused, because an enforced rule needs it. */
  readonly goodPath: boolean
  readonly ip: boolean
  readonly clock: boolean
  /** Whether an enforced rule has a deadline of its own, or is hedged; most sets have neither. */
  readonly deadline: boolean
  readonly hedge: boolean
  /** Whether a rule that is not off has a coordination other than `exact`. */
  readonly coordination: boolean
  /** Whether a rule that is not off counts calls in flight, for any caller. */
  readonly places: boolean
}

/** When and what a busy process sheds. */
export interface CompiledShed {
  readonly loopMs: number
  /** The least share of calls that passes. */
  readonly least: number
  readonly isEnforced: boolean
  /** By priority, the most important first: whether no call of it is shed. */
  readonly isKept: readonly boolean[]
}

/** An immutable rule set, ready to match. */
export interface Snapshot {
  readonly rules: readonly CompiledRule[]
  readonly byId: ReadonlyMap<string, CompiledRule>
  readonly index: RuleIndex<CompiledRule>
  /** Per rule; undefined if no rule has any. */
  readonly overrides: readonly (OverrideIndex | undefined)[] | undefined
  readonly needs: Needs
  /** The same, including rules that are off, for resets and explanations. */
  readonly allNeeds: Needs
  readonly strictPaths: boolean
  /** Gives calls their priority; undefined if the set has none. */
  readonly classifier: Classifier | undefined
  /** Undefined if a busy process sheds no calls. */
  readonly shed: CompiledShed | undefined
  /** Whether a rule that is not off names the method of messages. */
  readonly countsMessages: boolean
  /** Whether a rule that is not off has counters that survive a restart. */
  readonly hasDurable: boolean
  /** Undefined if there is only one. */
  readonly region: CompiledRegion | undefined
  readonly ipv6Prefix: number
  readonly secret: SipKey
  /** The key that seeds of limits are hashed with. */
  readonly limitKey: SipKey
  /** The caller of rules that count all calls together. */
  readonly everybody: Hash64
  /** Routes by name. */
  readonly routes: ReadonlyMap<string, NamedRoute>
  readonly routeOf: (method: string | undefined, path: string) => string | undefined
}
