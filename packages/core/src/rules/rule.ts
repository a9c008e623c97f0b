/** A rule as a person wrote it, checked and with its defaults filled in. */
import type { LimitSpec } from '../limit.js'

export type Mode = 'enforce' | 'shadow' | 'off'
/**
 * How nodes share a counter: every call asks the store; units are drawn ahead; counts are merged;
 * or each node has a fixed part of the limit to itself.
 */
export type Coordination = 'exact' | 'leased' | 'local' | 'split'
/**
 * What a rule answers when the store cannot: all, nothing, or a share of the limit in this process.
 */
export type Posture = 'open' | 'closed' | { readonly local: number }

/** Values that an attribute must not have. A call without the attribute has none of them. */
export interface ExcludedValues {
  readonly not: readonly string[]
}

/** What an attribute must be: one of the values, absent (`null`), or none of some values. */
export type WhereClause = readonly string[] | null | ExcludedValues

export function isExclusion(clause: WhereClause | undefined): clause is ExcludedValues {
  return clause !== undefined && clause !== null && 'not' in clause
}

export interface Match {
  /** Upper case; empty: any method. */
  readonly method: readonly string[]
  /** Literal segments, `:param`, a trailing `*`; undefined: any path. */
  readonly path: string | undefined
  /** Attribute to what it must be. For `ip`, CIDRs. */
  readonly where: ReadonlyMap<string, WhereClause>
}

export interface Tiers {
  readonly attribute: string
  readonly limits: ReadonlyMap<string, readonly LimitSpec[]>
}

/** Other limits for one caller of a rule, or for each caller of a network. */
export interface Override {
  /** A value for every attribute of the rule's `by`; for `ip` an address or a network. */
  readonly caller: ReadonlyMap<string, string>
  /** Empty: no limit. */
  readonly limits: readonly LimitSpec[]
  /** The wall clock, in ms since 1970, from which it no longer holds. */
  readonly untilMs: number | undefined
}

/** Other limits tried in shadow beside those in force. */
export interface Candidate {
  readonly limits: readonly LimitSpec[]
  readonly tiers: Tiers | undefined
}

/** A number multiplies the call's cost; an attribute's value replaces it. */
export type Cost = number | { readonly attribute: string }

export interface Rule {
  readonly id: string
  readonly description: string | undefined
  readonly match: Match
  /** Empty: one counter for everybody. */
  readonly by: readonly string[]
  readonly limits: readonly LimitSpec[]
  readonly tiers: Tiers | undefined
  readonly overrides: readonly Override[]
  readonly candidate: Candidate | undefined
  readonly cost: Cost
  readonly mode: Mode
  readonly coordination: Coordination
  /** Leased: the share of a limit that all nodes together may hold without having spent it. */
  readonly maxStranded: number
  /** Local: how often a node reports what it counted and reads what others did. */
  readonly syncEveryMs: number
  readonly posture: Posture
  /** How long a call may wait for the store; undefined: as long as the store was made for. */
  readonly deadlineMs: number | undefined
  /** Answer from the last known state where the store takes more than a quarter of the deadline. */
  readonly hedge: boolean
  /** Its counters outlive a restart. */
  readonly durable: boolean
  /** In shadow: the gateway marks the calls it would have refused for the upstream to see. */
  readonly tag: boolean
}

export interface RuleSet {
  /** Patterns that give a call its `route`, in order of preference by specificity. */
  readonly routes: readonly string[]
  /** Paths match with their case and trailing slash. */
  readonly strictPaths: boolean
  readonly rules: readonly Rule[]
}
