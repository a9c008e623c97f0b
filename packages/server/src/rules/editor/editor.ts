/**
 * The editor makes every change of rules, overrides, candidates, keys and tokens. A change is
 * computed from the catalog, validated as a whole, committed as one version, and active on this
 * node when the promise resolves.
 */
import type { Problem, RuleDiff } from '@sluice/core'
import type { WallClock } from '../../lib/wall-clock.js'
import type { KeyDocument, Role, TokenDocument } from '../store/records.js'
import { DivergedError } from '../store/rule-store.js'
import type { CatalogOverride, CatalogRule } from '../sync/rule-catalog.js'
import type { CallerOptions } from './override-callers.js'
import { toEditError, Commits, type CommitsDeps } from './commits.js'
import type { EditContext } from './edit-plan.js'
import { candidateEdits } from './candidate-edits.js'
import { keyEdits } from './key-edits.js'
import { overrideEdits } from './override-edits.js'
import { rollbackEdits } from './rollback-edits.js'
import { ruleChecks } from './rule-checks.js'
import { ruleEdits } from './rule-edits.js'
import { setEdits } from './set-edits.js'
import { shadowEdits } from './shadow-edits.js'
import { tokenEdits } from './token-edits.js'

/** Who changes something, and why. */
export interface Meta {
  readonly by: string
  readonly why: string | undefined
}

/** The version that the caller has read; undefined: any. */
export type ExpectedVersion = number | undefined

export interface ApplyResult {
  /** The version of the store afterwards; unchanged in a dry run, or without changes. */
  readonly version: number
  readonly diff: RuleDiff
  readonly warnings: readonly Problem[]
}

export interface ApplyOptions {
  /** Name of the file, for messages. */
  readonly file?: string | undefined
  /** The expected `catalog.rulesVersion`. */
  readonly expected?: ExpectedVersion
  /**
   * Changed limits become candidates beside the active ones, and new rules start in shadow. What
   * cannot be tried that way (another match, by, mode...) is refused with `not_triable`; rules that
   * the new set lacks stay.
   */
  readonly shadow?: boolean | undefined
  /** Warnings are errors. */
  readonly strict?: boolean | undefined
  /** Confirms a set without rules. */
  readonly confirmed?: boolean | undefined
  readonly dryRun?: boolean | undefined
}

interface ShadowInput {
  /** Undefined: all rules. */
  readonly rule: string | undefined
  /** A duration such as `15m`. */
  readonly duration: string
}

interface ShadowPeriod {
  readonly version: number
  /** An ISO time, by the clock of this node. */
  readonly until: string
  readonly rule: string | undefined
}

interface OverrideInput {
  readonly caller: unknown
  readonly limits: unknown
  readonly until?: unknown
}

interface KeyInput {
  /** The key itself; or its SHA-256; or neither, to generate one. */
  readonly key?: string | undefined
  readonly sha256?: string | undefined
  readonly user?: string | undefined
  readonly plan?: string | undefined
  readonly state?: 'active' | 'disabled' | undefined
  readonly name?: string | undefined
}

export interface CreatedKey {
  readonly id: string
  readonly document: KeyDocument
  readonly version: number
  /** The generated key, returned only now; undefined if the caller gave it. */
  readonly key: string | undefined
}

interface TokenInput {
  readonly name: string
  readonly role: Role
  /** An ISO time. */
  readonly expiresAt?: string | undefined
}

export interface CreatedToken {
  readonly id: string
  readonly document: TokenDocument
  readonly version: number
  /** Returned only now: the store holds its hash. */
  readonly token: string
}

export interface Editor {
  /** Why rules cannot be changed on this node; undefined: they can. */
  readonly readOnly: string | undefined
  /**
   * Creates a rule from a document or its YAML or JSON text, with `candidate` and `overrides` if it
   * has them.
   */
  create(document: unknown, meta: Meta): Promise<CatalogRule>
  replace(
    id: string,
    document: unknown,
    meta: Meta,
    expected: ExpectedVersion,
  ): Promise<CatalogRule>
  /**
   * Checks what `replace` of the rule with this id would do, or `create` without an id; errors are
   * returned, not thrown.
   */
  validateRule(document: unknown, id?: string): Promise<ValidationResult>
  /** Applies a JSON merge patch (RFC 7396): null removes a field. */
  patch(id: string, patch: unknown, meta: Meta, expected: ExpectedVersion): Promise<CatalogRule>
  /**
   * Starts a timed shadow of one rule or all: enforced rules count and refuse no call for the
   * duration. It ends by itself on every node. A patch of a rule's mode ends that of the rule.
   */
  shadow(input: ShadowInput, meta: Meta): Promise<ShadowPeriod>
  /** Ends the timed shadow of one rule; or all of them, including those of single rules. */
  endShadow(rule: string | undefined, meta: Meta): Promise<number>
  /** Removes a rule; the last one only if `confirmed`: without rules every call is allowed. */
  remove(id: string, meta: Meta, options: RemoveOptions): Promise<number>
  /** Replaces the whole set, given as text (YAML or JSON) or as objects. */
  apply(source: string | object, meta: Meta, options: ApplyOptions): Promise<ApplyResult>
  /** Checks what `apply` would do; errors are returned, not thrown. */
  validate(source: string | object, options: ApplyOptions): Promise<ValidationResult>
  /** Restores the rule, its candidate and its overrides of `version`, as a new version. */
  rollbackRule(
    id: string,
    version: number,
    meta: Meta,
    expected: ExpectedVersion,
    options?: RollbackOptions,
  ): Promise<ApplyResult>
  /** Restores all rules, candidates and overrides. Keys and tokens stay: revoked stays revoked. */
  rollback(
    version: number,
    meta: Meta,
    expected: ExpectedVersion,
    options?: RollbackOptions,
  ): Promise<ApplyResult>
  /** Creates or replaces the overrides of several callers; all or none. */
  putOverrides(
    rule: string,
    overrides: readonly OverrideInput[],
    meta: Meta,
    expected: ExpectedVersion,
  ): Promise<readonly (CatalogOverride & { readonly isNew: boolean })[]>
  removeOverride(
    rule: string,
    caller: string,
    meta: Meta,
    expected: ExpectedVersion,
  ): Promise<number>
  putCandidate(
    id: string,
    candidate: unknown,
    meta: Meta,
    expected: ExpectedVersion,
  ): Promise<CatalogRule>
  removeCandidate(id: string, meta: Meta, expected: ExpectedVersion): Promise<CatalogRule>
  /** Replaces the limits and tiers of the rule by its candidate's; counters continue. */
  promote(id: string, meta: Meta, expected: ExpectedVersion): Promise<CatalogRule>
  createKeys(keys: readonly KeyInput[], meta: Meta): Promise<readonly CreatedKey[]>
  patchKey(id: string, patch: KeyPatch, meta: Meta, expected: ExpectedVersion): Promise<CreatedKey>
  removeKey(id: string, meta: Meta, expected: ExpectedVersion): Promise<number>
  createToken(token: TokenInput, meta: Meta): Promise<CreatedToken>
  removeToken(id: string, meta: Meta): Promise<number>
  /** Makes nodes follow a store that was restored: see `RuleStore.adopt`. */
  adopt(meta: Meta): Promise<number>
}

export interface RollbackOptions {
  readonly dryRun?: boolean | undefined
  /** Confirms a rollback to a set without rules. */
  readonly confirmed?: boolean | undefined
}

interface RemoveOptions {
  readonly expected: ExpectedVersion
  readonly confirmed: boolean
}

interface ValidationResult {
  readonly errors: readonly Problem[]
  readonly warnings: readonly Problem[]
  /** Undefined if there are errors. */
  readonly diff: RuleDiff | undefined
}

/** Undefined leaves a field, null removes it. */
export interface KeyPatch {
  readonly user?: string | null | undefined
  readonly plan?: string | null | undefined
  readonly state?: 'active' | 'disabled' | undefined
  readonly name?: string | null | undefined
}

export interface EditorOptions extends CommitsDeps, CallerOptions {
  readonly clock: WallClock
}

export function createEditor(options: EditorOptions): Editor {
  const { follower, clock, hideSecrets, ipv6Prefix, ruleContext } = options
  const commits = new Commits(options)
  const callers = { hideSecrets, ipv6Prefix, ruleContext }
  const { parser } = follower.catalog
  const context: EditContext = { commits, callers, parser, clock }
  return {
    readOnly: commits.readOnly,
    ...ruleEdits(context),
    ...ruleChecks(context, follower),
    ...candidateEdits(context),
    ...overrideEdits(context),
    ...setEdits(context, follower),
    ...rollbackEdits(context),
    ...shadowEdits(context),
    ...keyEdits(context),
    ...tokenEdits(context),
    adopt: (meta) => adopt(commits, options, meta),
  }
}

/** Adopts the store only if it diverged: a store that is followed already is unchanged. */
async function adopt(
  commits: Commits,
  { follower, log }: EditorOptions,
  { by, why }: Meta,
): Promise<number> {
  const { store } = commits
  return commits.inTurn(async () => {
    const known = follower.catalog.position?.version ?? 0
    try {
      await follower.refresh(0)
      return follower.catalog.position?.version ?? known
    } catch (error) {
      if (!(error instanceof DivergedError)) throw toEditError(error)
      const above = Math.max(known, error.store.version)
      const { version } = await store.adopt(above, by, why).catch((failure: unknown) => {
        throw toEditError(failure)
      })
      log.warn({ version, by, why, store: store.name }, 'rule store adopted')
      await commits.refresh(version)
      return version
    }
  })
}
