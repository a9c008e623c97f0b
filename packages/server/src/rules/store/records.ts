/**
 * What a rule store holds: records of a few kinds, each with an id, a body of plain JSON and the
 * version it was last changed in. Bodies are what a person wrote, checked before they are stored.
 */

/** A rule as it is written in a rules file, without `overrides` and `candidate`: kept apart. */
export type RuleDocument = Readonly<Record<string, unknown>> & { readonly id: string }

/** Of a rule that refuses nobody for a while. */
export interface ShadowEntry {
  /** An ISO time. */
  readonly until: string
  /** How long that was when it was asked for. */
  readonly forMs: number
}

/**
 * Enforced rules that count and refuse nobody until a time; their own documents stay as they are.
 * A release that does not know of it enforces them.
 */
export interface ShadowDocument {
  readonly all?: ShadowEntry
  /** By the id of a rule. */
  readonly rules?: Readonly<Record<string, ShadowEntry>>
}

export const SHADOW_MS_MIN = 60_000
export const SHADOW_MS_MAX = 86_400_000

/** What belongs to no single rule. */
export interface SetDocument {
  readonly routes: readonly unknown[]
  readonly strictPaths: boolean
  /** The ids of all rules, in the order of the set. */
  readonly order: readonly string[]
  /** Undefined: none. */
  readonly shadow?: ShadowDocument
}

export interface CandidateDocument {
  readonly limits: readonly unknown[]
  readonly tiers?: unknown
}

export interface OverrideDocument {
  readonly caller: Readonly<Record<string, string>>
  readonly limits: readonly unknown[]
  /** An ISO time, as rules write it. */
  readonly until?: string
}

export interface KeyDocument {
  /** Of the key's SHA-256 under the store's own secret: 64 hex digits. See `keyHash`. */
  readonly hash: string
  readonly user?: string
  readonly plan?: string
  readonly state: 'active' | 'disabled'
  /** For people. */
  readonly name?: string
  /** The last characters of the key, where it is long enough to show them. */
  readonly last4?: string
  /** An ISO time. */
  readonly createdAt: string
}

export type Role = 'read' | 'edit' | 'admin'

export interface TokenDocument {
  /** SHA-256 of the token, 64 hex digits: tokens are random, so no salt would add anything. */
  readonly hash: string
  readonly name: string
  readonly role: Role
  readonly createdAt: string
  readonly expiresAt?: string
}

/** Made by a store when it is new; hashes of keys depend on it. */
export interface SecretDocument {
  /** 32 bytes as hex digits. */
  readonly secret: string
}

interface Bodies extends Readonly<Record<Kind, object>> {
  readonly set: SetDocument
  readonly rule: RuleDocument
  readonly candidate: CandidateDocument
  readonly override: OverrideDocument
  readonly key: KeyDocument
  readonly token: TokenDocument
  readonly secret: SecretDocument
}

export type Kind = 'set' | 'rule' | 'candidate' | 'override' | 'key' | 'token' | 'secret'

/**
 * Ids. `set` and `secret`: `main`. `rule` and `candidate`: the rule's id. `override`:
 * `overrideKey(rule, caller)`. `key` and `token`: random, public.
 */
export type Change = {
  readonly [K in Kind]: {
    readonly kind: K
    readonly id: string
    /** Null: removed. */
    readonly body: Bodies[K] | null
  }
}[Kind]

export type StoredRecord = Change & {
  /** The version of the store in which it was last changed. */
  readonly version: number
}

export type StoredKey = StoredRecord & { readonly kind: 'key' }

export const MAIN_ID = 'main'

/** The set of a store that has none. */
export const EMPTY_SET: SetDocument = { routes: [], strictPaths: false, order: [] }

/**
 * The caller of an override in a form that a person can read and a URL can carry: `user=u1`, with
 * several attributes in the order of `by` and a comma between; `everybody` where a rule counts all
 * calls together. Two callers never have the same form.
 */
export function callerId(by: readonly string[], caller: Readonly<Record<string, string>>): string {
  if (by.length === 0) return 'everybody'
  return by.map((name) => `${name}=${encodeURIComponent(caller[name] ?? '')}`).join(',')
}

/** Ids of rules have no slash. */
export function overrideKey(rule: string, caller: string): string {
  return `${rule}/${caller}`
}

export function splitOverrideKey(id: string): { readonly rule: string; readonly caller: string } {
  const slash = id.indexOf('/')
  return { rule: id.slice(0, slash), caller: id.slice(slash + 1) }
}
