/**
 * Rules as they are matched: conditions in order, limits with their arithmetic and the seeds of
 * their keys.
 */
import type { Cidr } from '../identity/cidr.js'
import type { Limit } from '../limit.js'
import type { PathPattern } from '../path.js'
import type { Coordination, Cost, Mode, Posture, Rule } from '../rules/rule.js'
import type { Hash64, SipKey } from '../sip-hash.js'
import type { OverrideIndex } from './override-index.js'
import type { NamedRoute } from './compile-routes.js'
import type { RuleIndex } from './rule-index.js'

/** A limit of a rule. Its own hash (`hi`, `lo`) is the seed that a caller's is XORed with. */
export interface CompiledLimit extends Hash64 {
  /** The id of the rule it is of. */
  readonly rule: string
  readonly limit: Limit
  /** The same for a way in that cannot hold a call. */
  readonly immediate: Limit
  /**
   * Its name in headers and problem bodies: the rule's id, with the limit's name where there are
   * several.
   */
  readonly policy: string
  /** It in `RateLimit-Policy`, and the beginning of it in `RateLimit`: the same for every call. */
  readonly field: string
  readonly leftField: string
  /** Of the rule: what answers for it when the store cannot, and whether it outlives a restart. */
  readonly posture: Posture
  readonly durable: boolean
  /**
   * How nodes share its counters. `exact` where the limit cannot be shared as its rule says: where
   * it charges refusals, which only the store can.
   */
  readonly coordination: Coordination
  readonly maxStranded: number
  readonly syncEveryMs: number
}

/** One attribute and what it must be: one of the values, within one of the networks, or absent. */
export interface Condition {
  readonly attribute: string
  /** It must be none of the values, or within none of the networks. Absent, it is neither. */
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

/** What a rule is found by. */
export interface IndexedRule {
  /** Its place in the rule set. */
  readonly order: number
  readonly pattern: PathPattern | undefined
  readonly methods: ReadonlySet<string> | undefined
  readonly conditions: readonly Condition[]
  /** The condition it is found by, if any. */
  readonly filedUnder: Condition | undefined
}

/**
 * What a decision reads lies in the rule itself: with 10,000 rules every step aside is a cache
 * miss. Only overrides lie apart, because they change without it.
 */
export interface CompiledRule extends IndexedRule {
  readonly rule: Rule
  readonly id: string
  readonly mode: Mode
  readonly cost: Cost
  readonly by: readonly string[]
  /** The conditions that being found leaves open. */
  readonly rest: readonly Condition[]
  readonly limits: readonly CompiledLimit[]
  readonly tiers: CompiledTiers | undefined
  readonly candidate: CompiledCandidate | undefined
}

/** What of a call the rules look at, so that nothing else is parsed. */
export interface Needs {
  readonly route: boolean
  readonly method: boolean
  readonly path: boolean
  /** Whether a path that cannot be read is refused: an enforced rule needs it. */
  readonly goodPath: boolean
  readonly ip: boolean
  readonly clock: boolean
  /** Whether an enforced rule has a deadline of its own, or is hedged; most sets have neither. */
  readonly deadline: boolean
  readonly hedge: boolean
  /** Whether a rule that is not off shares its counters otherwise than by asking the store. */
  readonly coordination: boolean
}

/** An immutable rule set, ready to match. */
export interface Snapshot {
  readonly rules: readonly CompiledRule[]
  readonly byId: ReadonlyMap<string, CompiledRule>
  readonly index: RuleIndex<CompiledRule>
  /** Beside each rule; undefined where none has any. */
  readonly overrides: readonly (OverrideIndex | undefined)[] | undefined
  readonly needs: Needs
  /** The same with rules that are off, for resets and explanations. */
  readonly allNeeds: Needs
  readonly strictPaths: boolean
  /** Whether a rule that is not off names the method of messages. */
  readonly countsMessages: boolean
  /** Whether the counters of a rule that is not off outlive a restart. */
  readonly hasDurable: boolean
  readonly ipv6Prefix: number
  readonly secret: SipKey
  /** The key that seeds of limits are hashed with. */
  readonly limitKey: SipKey
  /** The caller of rules that count all calls together. */
  readonly everybody: Hash64
  /** By their names. */
  readonly routes: ReadonlyMap<string, NamedRoute>
  readonly routeOf: (method: string | undefined, path: string) => string | undefined
}
