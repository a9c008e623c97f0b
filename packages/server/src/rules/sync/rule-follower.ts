/** The source of a node's rules, which it follows: a rule store, or a rules file. */
import type { RuleStore, StoreStatus } from '../store/rule-store.js'
import type { RuleCatalog } from './rule-catalog.js'

/** Describes what is wrong with a node's rules: they are not the newest, or cannot be changed. */
export function nodeProblem(
  follower: Pick<RuleFollower, 'problem' | 'status'>,
): string | undefined {
  const status = follower.status()
  return follower.problem() ?? (status?.isReadOnly === true ? status.problem : undefined)
}

export interface RuleFollower {
  /** For messages; without secrets. */
  readonly name: string
  /**
   * Whether rules were loaded. Before that nothing is decided: a node that could not load its rules
   * must not allow every call.
   */
  isReady(): boolean
  /**
   * Whether this node had at least one active rule, at the end of its start or later. Stays false
   * while the rule store or file has been empty since then, and true once there was a rule.
   */
  hasHadRules(): boolean
  /** The active version of the rule store; of a file, how many sets were loaded. */
  version(): number
  /**
   * Seconds since the source last confirmed the active rules; 0 while it does. Grows while a rule
   * store is unreachable, or holds invalid rules.
   */
  ageSeconds(): number
  /** How many rule sets, rules and overrides were invalid. */
  failures(): number
  /** Why the newest rules are not active, as text; undefined: they are. */
  problem(): string | undefined
  /**
   * The end of the timed shadow of a rule, or of all rules without an id: until then it counts and
   * refuses no call, whatever its mode. Undefined: there is none.
   */
  shadowUntil(rule?: string): string | undefined
  readonly catalog: RuleCatalog
  /** Undefined where rules come from a file: then they cannot be changed through the admin API. */
  readonly store: RuleStore | undefined
  /** The status of the store; undefined without one. */
  status(): StoreStatus | undefined
  /**
   * Reads the store now and activates its rules. Resolves when this node runs at least `version`;
   * rejects with an `UnavailableError` or a `DivergedError` if it cannot.
   */
  refresh(version: number): Promise<void>
  close(): Promise<void>
}
