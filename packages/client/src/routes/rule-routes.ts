/** Routes of rules, rule sets, and their versions. */
import { segment } from '../address.js'
import { type ExpectedVersion, type Send, YAML } from '../send.js'
import type {
  ChangeResult,
  AppliedView,
  RulesPage,
  RuleView,
  ShadowedView,
  ShadowInput,
  ValidatedView,
  VersionsPage,
} from '../api-types.js'
import type { Change, PageOptions, HistoryOptions, VersionedChange } from './route-options.js'

export interface ValidateOptions {
  /** The file name that messages show. */
  readonly file?: string | undefined
  /** Changed limits become candidates, and new rules begin in shadow. */
  readonly shadow?: boolean | undefined
  /** Treats warnings as errors. */
  readonly strict?: boolean | undefined
  /** Confirms a set without rules: every call is then allowed. */
  readonly confirmNoRules?: boolean | undefined
}

export interface ApplyOptions extends ValidateOptions, VersionedChange {
  /** Returns what would change, and changes nothing. */
  readonly dryRun?: boolean | undefined
}

export type RollbackOptions = VersionedChange & Pick<ApplyOptions, 'confirmNoRules' | 'dryRun'>

export interface DeleteOptions extends VersionedChange {
  /** Confirms that the last rule is removed: every call is then allowed. */
  readonly confirmLastRule?: boolean | undefined
}

const pathOf = (id: string) => `/rules/${segment('rule', id)}`
const noRules = ({ confirmNoRules }: Pick<ValidateOptions, 'confirmNoRules'>) =>
  confirmNoRules === true ? 'no-rules' : undefined
const sourceOf = (source: string | object) =>
  typeof source === 'string' ? { text: source } : { body: source }

export function ruleRoutes(send: Send) {
  return {
    listRules: (page: PageOptions = {}) =>
      send({
        method: 'GET',
        has: 'rules',
        path: '/rules',
        query: { ...page },
      }) as Promise<RulesPage>,

    getRule: (id: string) =>
      send({ method: 'GET', has: 'version', path: pathOf(id) }) as Promise<RuleView>,

    /** Creates a rule from YAML or JSON text, or from an object. */
    createRule: (rule: string | object, { why }: Change = {}) =>
      send({
        method: 'POST',
        has: 'version',
        path: '/rules',
        query: { why },
        ...sourceOf(rule),
        isChange: true,
      }) as Promise<RuleView>,

    /** Needs the version that was read; `*` overwrites any version. */
    replaceRule: (
      id: string,
      rule: string | object,
      { ifMatch, why }: Change & { readonly ifMatch: ExpectedVersion },
    ) =>
      send({
        method: 'PUT',
        has: 'version',
        path: pathOf(id),
        query: { why },
        ...sourceOf(rule),
        ifMatch,
        isChange: true,
      }) as Promise<RuleView>,

    /** A JSON merge patch: null removes a field. */
    patchRule: (id: string, patch: object, { ifMatch, why }: VersionedChange = {}) =>
      send({
        method: 'PATCH',
        has: 'version',
        path: pathOf(id),
        query: { why },
        body: patch,
        ifMatch,
        isChange: true,
      }) as Promise<RuleView>,

    deleteRule: (id: string, { ifMatch, why, confirmLastRule }: DeleteOptions = {}) =>
      send({
        method: 'DELETE',
        has: 'version',
        path: pathOf(id),
        query: { why, confirm: confirmLastRule === true ? 'last-rule' : undefined },
        ifMatch,
        isChange: true,
      }) as Promise<ChangeResult>,

    ...setRoutes(send),
    ...shadowRoutes(send),
    ...historyRoutes(send),
  }
}

function setRoutes(send: Send) {
  return {
    /** Replaces the whole set, from YAML or JSON text or from objects. */
    applyRules: (source: string | object, options: ApplyOptions = {}) => {
      const { ifMatch, why, file, shadow, strict, dryRun } = options
      const confirm = noRules(options)
      return send({
        method: 'PUT',
        has: 'diff',
        path: '/rules',
        query: { file, shadow, dryRun, strict, confirm, why },
        ...sourceOf(source),
        ifMatch,
        isChange: dryRun !== true,
      }) as Promise<AppliedView>
    },

    /** Returns what `applyRules` would; errors are part of the response. */
    validateRules: (source: string | object, options: ValidateOptions = {}) => {
      const { file, shadow, strict } = options
      return send({
        method: 'POST',
        has: 'diff',
        path: '/validate',
        query: { file, shadow, strict, confirm: noRules(options) },
        ...sourceOf(source),
      }) as Promise<ValidatedView>
    },

    /** Returns what `replaceRule` of this id, or `createRule` without one, would. */
    validateRule: (rule: string | object, id?: string) =>
      send({
        method: 'POST',
        has: 'diff',
        path: '/validate/rule',
        query: { id },
        ...sourceOf(rule),
      }) as Promise<ValidatedView>,

    /** Exports the whole set as YAML text, with candidates and overrides. */
    exportRules: () => send({ method: 'GET', path: '/export', has: YAML }) as Promise<string>,

    /** Replaces the active limits by those of the candidate. Counters go on. */
    promoteRule: (id: string, { ifMatch, why }: VersionedChange = {}) =>
      send({
        method: 'POST',
        has: 'version',
        path: `${pathOf(id)}/promote`,
        query: { why },
        ifMatch,
        isChange: true,
      }) as Promise<RuleView>,
  }
}

function shadowRoutes(send: Send) {
  return {
    /** Puts all enforced rules, or one, in shadow until a time: they count and refuse nothing. */
    shadowRules: (input: ShadowInput, { why }: Change = {}) =>
      send({
        method: 'POST',
        has: 'until',
        path: '/shadow',
        query: { why },
        body: input,
        isChange: true,
      }) as Promise<ShadowedView>,

    /** Ends the shadow of one rule, or of all, before that time. */
    endShadow: (rule?: string, { why }: Change = {}) =>
      send({
        method: 'DELETE',
        has: 'version',
        path: '/shadow',
        query: { rule, why },
        isChange: true,
      }) as Promise<ChangeResult>,
  }
}

function historyRoutes(send: Send) {
  return {
    /** Lists versions, newest first. */
    listVersions: (page: HistoryOptions = {}) =>
      send({
        method: 'GET',
        has: 'versions',
        path: '/versions',
        query: { ...page },
      }) as Promise<VersionsPage>,

    /** Lists the versions that changed one rule, its candidate or its overrides. */
    listRuleVersions: (id: string, page: HistoryOptions = {}) =>
      send({
        method: 'GET',
        has: 'versions',
        path: `${pathOf(id)}/versions`,
        query: { ...page },
      }) as Promise<VersionsPage>,

    /** Restores all rules, candidates and overrides of a version, as a new version. */
    rollback: (version: number, options: RollbackOptions = {}) =>
      send({
        method: 'POST',
        has: 'diff',
        path: '/rollback',
        query: { dryRun: options.dryRun, confirm: noRules(options), why: options.why },
        body: { version },
        ifMatch: options.ifMatch,
        isChange: options.dryRun !== true,
      }) as Promise<AppliedView>,

    rollbackRule: (id: string, version: number, options: RollbackOptions = {}) =>
      send({
        method: 'POST',
        has: 'diff',
        path: `${pathOf(id)}/rollback`,
        query: { dryRun: options.dryRun, confirm: noRules(options), why: options.why },
        body: { version },
        ifMatch: options.ifMatch,
        isChange: options.dryRun !== true,
      }) as Promise<AppliedView>,

    /** Makes nodes follow a rule store that was restored to an older state. */
    adopt: ({ why }: Change = {}) =>
      send({
        method: 'POST',
        has: 'version',
        path: '/adopt',
        query: { why },
        isChange: true,
      }) as Promise<ChangeResult>,
  }
}
