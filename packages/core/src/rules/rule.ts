/** A parsed rule: validated and with its defaults. */
import type { LimitSpec } from '../limit.js'

export type Mode = 'enforce' | 'shadow' | 'off'
/**
 * How nodes share a counter: every call goes to the store; units are drawn ahead; counts are
 * merged; each node has a fixed part of the limit; or each node has the whole limit for itself.
 */
export type Coordination = 'exact' | 'leased' | 'local' | 'split' | 'node'
/**
 * What a rule does when the store does not answer: allow all, refuse all, or allow a share of the
 * limit counted in this process.
 */
export type Posture = 'open' | 'closed' | { readonly local: number }

/**
 * How regions share a limit: each has the whole limit and learns what the others spent; each has a
 * fixed share of it; or each has the whole limit for itself.
 */
export type RegionMode = 'merged' | 'split' | 'apart'

/** The share of each region in a limit that is split, in ten-thousandths that sum to the whole. */
export type Shares = ReadonlyMap<string, number>

/** Values that an attribute must not have. A call without the attribute has none of them. */
export interface ExcludedValues {
  readonly not: readonly string[]
}

/** The condition on an attribute: one of the values, absent (`null`), or none of some values. */
export type WhereClause = readonly string[] | null | ExcludedValues

export function isExclusion(clause: WhereClause | undefined): clause is ExcludedValues {
  return clause !== undefined && clause !== null && 'not' in clause
}

export interface Match {
  /** Upper case; empty for any method. */
  readonly method: readonly string[]
  /** Literal segments, `:param`, a trailing `*`; undefined for any path. */
  readonly path: string | undefined
  /** The required value of each attribute; for `ip`, CIDRs. */
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
  /** Empty for no limit. */
  readonly limits: readonly LimitSpec[]
  /** The wall-clock time, in ms since 1970, at which it ends. */
  readonly untilMs: number | undefined
}

/**
 * What a rule keeps free for priorities: their shares of each limit, in ten-thousandths.
 */
export type Headroom = ReadonlyMap<string, number>

/** A line of `classify`: calls that match have this priority. */
export interface Classification {
  readonly match: Match
  readonly as: string
}

/** When a process lets fewer calls in because its event loop is late, and which. */
export interface ShedSpec {
  /** The mean delay of the event loop that is aimed at. */
  readonly loopMs: number
  /** Priorities of which no call is shed. */
  readonly keep: readonly string[]
  /** The largest share of calls that is shed, in ten-thousandths. */
  readonly most: number
  readonly mode: Mode
}

/** New limits that count in shadow beside the active ones. */
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
  /** Empty for one counter for all callers. */
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
  /** Local: how often a node reports its counts and reads those of others. */
  readonly syncEveryMs: number
  readonly regions: RegionMode
  /**
   * Merged: the share of a limit, in ten-thousandths, that all regions together may admit beyond
   * it; undefined for the default.
   */
  readonly tolerance: number | undefined
  readonly posture: Posture
  /** How long a call may wait for the store; undefined for the deadline of the store. */
  readonly deadlineMs: number | undefined
  /** Decides from the last known state if the store takes more than a quarter of the deadline. */
  readonly hedge: boolean
  /** Whether its counters survive a restart. */
  readonly durable: boolean
  /** The shares of its limits that only these priorities and more important ones may use. */
  readonly headroom: Headroom | undefined
  /** `capacity`: the rule protects a service, not callers from each other; it sheds calls. */
  readonly protects: 'capacity' | undefined
  /** Whether a reservation that is not settled in time stays charged, or is given back. */
  readonly onExpiry: 'charge' | 'refund'
  /** In shadow: the gateway tags the calls it would have refused with a header for the upstream. */
  readonly tag: boolean
}

export interface RuleSet {
  /** Patterns that give a call its `route`, in order of preference by specificity. */
  readonly routes: readonly string[]
  /** Whether paths match with their case and trailing slash. */
  readonly strictPaths: boolean
  /** The names of priorities, the most important first; absent for none. */
  readonly priorities?: readonly string[] | undefined
  /** What gives a call its priority: the first line that matches, else the last priority. */
  readonly classify?: readonly Classification[] | undefined
  /** Absent if a busy process sheds no calls. */
  readonly shed?: ShedSpec | undefined
  /** Absent if regions have equal shares of limits that are split. */
  readonly shares?: Shares | undefined
  readonly rules: readonly Rule[]
}
