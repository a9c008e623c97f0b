/** What the admin API takes and answers, as docs/reference/admin-api.md and its OpenAPI say. */

export type * from './types-stats.js'

export type Role = 'read' | 'edit' | 'admin'

/** A rule's own fields, as a rules file has them, and what the store adds when it is read. */
export interface RuleView {
  readonly id: string
  /** Of its last change; also its ETag. When sent, it is the version the writer has seen. */
  readonly version: number
  readonly overrideCount: number
  readonly candidate?: unknown
  /** An enforced rule counts and refuses nobody until then, an ISO time. */
  readonly shadowUntil?: string
  readonly [field: string]: unknown
}

export interface RulesPage {
  /** Of the last change to the set, 0 before the first; also its ETag. */
  readonly version: number
  readonly routes: readonly unknown[]
  readonly strictPaths: boolean
  readonly rules: readonly RuleView[]
  /** What to ask for as `after`; null: that was all. */
  readonly next: string | null
  /** All enforced rules count and refuse nobody until then; null: they do refuse. */
  readonly shadowUntil: string | null
}

export interface ShadowInput {
  /** From `1m` to `24h`. */
  readonly for: string
  /** Only this one; without: all. */
  readonly rule?: string | undefined
}

export interface ShadowedView {
  readonly version: number
  /** When it ends by itself, an ISO time. */
  readonly until: string
  /** Null: all rules. */
  readonly rule: string | null
}

export interface ProblemView {
  readonly code: string
  readonly message: string
  readonly field: string
  readonly found: string
  readonly accepted: string
  readonly rule?: string
  readonly file?: string
  readonly line?: number
  readonly column?: number
  readonly suggestion?: string
}

export interface FieldChange {
  readonly field: string
  readonly before: string
  readonly after: string
}

export interface CounterFate {
  readonly where: string
  readonly limit: string
  readonly counters: 'go on' | 'start anew' | 'end'
  readonly what: string
}

export interface RuleChange {
  readonly id: string
  readonly change: 'added' | 'removed' | 'changed' | 'moved'
  readonly fields: readonly FieldChange[]
  readonly counters: readonly CounterFate[]
  readonly overrides: { readonly added: number; readonly changed: number; readonly removed: number }
}

export interface RuleDiff {
  readonly set: readonly FieldChange[]
  readonly rules: readonly RuleChange[]
}

export interface AppliedView {
  readonly version: number
  readonly diff: RuleDiff
  readonly warnings: readonly ProblemView[]
}

export interface ValidatedView {
  readonly valid: boolean
  readonly errors: readonly ProblemView[]
  readonly warnings: readonly ProblemView[]
  readonly diff: RuleDiff | null
}

export interface HistoryChangeView {
  readonly kind: 'set' | 'rule' | 'candidate' | 'override' | 'key' | 'token' | 'secret'
  readonly id: string
  /** Null: there was none. Hashes of keys and tokens are left out. */
  readonly before: unknown
  readonly after: unknown
}

export interface VersionView {
  readonly version: number
  readonly at: string
  readonly by: string
  readonly why: string | null
  readonly changeCount: number
  readonly changes: readonly HistoryChangeView[]
}

export interface VersionsPage {
  readonly versions: readonly VersionView[]
  /** What to ask for as `before`; null: that was all. */
  readonly next: number | null
  /** The oldest version that can be gone back to; null: all are kept. */
  readonly keptSince: number | null
}

export interface OverrideView {
  /** The caller as URLs have it: `user=u1`. */
  readonly id: string
  readonly caller: Readonly<Record<string, string>>
  readonly limits: readonly unknown[]
  readonly until?: string
  readonly version: number
}

export interface OverridesPage {
  readonly overrides: readonly OverrideView[]
  readonly next: string | null
}

export interface OverrideInput {
  readonly caller: Readonly<Record<string, string>>
  readonly limits: readonly unknown[]
  readonly until?: string
}

export interface CandidateInput {
  readonly limits: readonly unknown[]
  readonly tiers?: unknown
}

export interface KeyView {
  readonly id: string
  readonly user?: string
  readonly plan?: string
  readonly state: 'active' | 'disabled'
  readonly name?: string
  readonly last4?: string
  readonly createdAt: string
  readonly version: number
  /** Told once, in the answer that made it. */
  readonly key?: string
}

export interface KeysPage {
  readonly keys: readonly KeyView[]
  readonly next: string | null
}

export interface KeyInput {
  /** The key itself; or its SHA-256; or neither, and one is made. */
  readonly key?: string
  readonly sha256?: string
  readonly user?: string
  readonly plan?: string
  readonly state?: 'active' | 'disabled'
  readonly name?: string
}

export interface KeyPatch {
  readonly user?: string | null
  readonly plan?: string | null
  readonly state?: 'active' | 'disabled'
  readonly name?: string | null
}

export interface TokenView {
  readonly id: string
  readonly name: string
  readonly role: Role
  readonly createdAt: string
  readonly expiresAt?: string
  /** Told once, in the answer that made it. */
  readonly token?: string
}

export interface TokenInput {
  readonly name: string
  readonly role: Role
  readonly expiresAt?: string
}

export interface NodeView {
  readonly id: string
  readonly host: string
  readonly pid: number
  readonly release: string
  readonly rulesVersion: number
  readonly startedAt: string
  readonly seenMsAgo: number
  readonly problem?: string
  /** Absent where it has not told: an older release, or one that shares no Redis with this one. */
  readonly decisionsPerSecond?: number
  readonly refusalsPerSecond?: number
  /** The clock of a store that is furthest off its own; null: it asks none. */
  readonly clockOffsetMs?: number | null
  readonly store?: string
}

export interface NodesView {
  /** Of the rule store, as the asked node knows it. */
  readonly version: number
  /** Where the rules come from. */
  readonly source: string
  readonly readOnly: string | null
  readonly news: 'push' | 'poll' | 'none' | null
  readonly ageSeconds: number
  readonly problem: string | null
  readonly nodes: readonly NodeView[]
}

export type Attributes = Readonly<Record<string, string>>

/** Who decided: the store, or the node that was asked, from what it holds or remembers. */
export type DecisionSource = 'store' | 'lease' | 'local' | 'deny-cache' | 'posture'

/** The decision as the decision API tells it, and what stands for the caller in logs. */
export interface DecisionView {
  readonly allowed: boolean
  readonly reason: string
  readonly rule?: string | null
  readonly source: DecisionSource
  /** Only where it was not the store: how old what it was made from is, in milliseconds. */
  readonly staleMs?: number
  readonly callers: readonly CallerView[]
  readonly [field: string]: unknown
}

export interface CallerView {
  readonly rule: string
  readonly caller: Attributes
  /** What logs and Redis have in place of the caller. */
  readonly hash: string
}

/** One counter as it is stored. */
export interface CounterView {
  readonly limit: string
  /** `limits`, `tiers.plan.pro`, `override`, `candidate.limits`. */
  readonly where: string
  /** As the store spells it. */
  readonly key: string
  readonly partition: number
  /** The Redis node that has it; null: the counters are in the process. */
  readonly node: string | null
  /** Null: there is no counter, and the caller has its whole budget. */
  readonly state: Readonly<Record<string, unknown>> | null
  /** Until it expires by itself; null: nothing is there, or it is in the process. */
  readonly ttlMs: number | null
  /** What it takes in the store; null: nothing is there. */
  readonly bytes: number | null
  readonly remaining: number
  readonly resetAfterMs: number
}

export interface InspectView {
  readonly rule: string
  readonly caller: Attributes
  readonly hash: string
  readonly counters: readonly CounterView[]
}

/** The body of every error. */
export interface ErrorView {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail: string
  readonly error: string
  /** With `version_conflict`: the present version. */
  readonly version?: number
  /** With `rules_invalid` and its like: each with its place. */
  readonly errors?: readonly ProblemView[]
}
