/** Where a node's rules come from: a rule store, or a rules file of the user's own. */
import type { RuleStore, StoreStatus } from '../store/rule-store.js'
import type { RuleCatalog } from './rule-catalog.js'

/** What is wrong with a node's rules, for people: they are not the newest, or cannot be changed. */
export function nodeProblem(
  follower: Pick<RuleFollower, 'problem' | 'status'>,
): string | undefined {
  const status = follower.status()
  return follower.problem() ?? (status?.isReadOnly === true ? status.problem : undefined)
}

export interface RuleFollower {
  /** For people, without secrets. */
  readonly name: string
  /**
   * Whether there are rules to decide by. Without any, nothing is decided: never "no rules, so
   * allow".
   */
  isReady(): boolean
  /**
   * Whether this node had at least one rule in force, at the end of its start or later. False on a
   * node whose rule store or file has been empty all along; true for good once there was a rule.
   */
  hasHadRules(): boolean
  /** The version in force: of the rule store, or how many sets of the file were taken. */
  version(): number
  /**
   * Seconds since the source last confirmed the rules in force; 0 while it does. Grows while a rule
   * store is gone, or holds what cannot be used.
   */
  ageSeconds(): number
  /** Rule sets and rules that were refused. */
  failures(): number
  /** What keeps the newest rules from being in force, for people; undefined: nothing. */
  problem(): string | undefined
  /**
   * Until when a rule, or without an id every rule, counts and refuses nobody whatever its mode
   * says; undefined: it does what its mode says.
   */
  shadowUntil(rule?: string): string | undefined
  readonly catalog: RuleCatalog
  /** Undefined where rules are a file of the user's own: then nothing can be changed here. */
  readonly store: RuleStore | undefined
  /** Of the store; undefined without one. */
  status(): StoreStatus | undefined
  /**
   * Reads the store now and puts what it has into force; resolves when that is done, and this node
   * runs at least `version`. Rejects with an `UnavailableError` or a `DivergedError` if it cannot.
   */
  refresh(version: number): Promise<void>
  close(): Promise<void>
}
