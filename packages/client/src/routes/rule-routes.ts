/** Rules, sets of rules, and their past. */
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
  /** Named in messages. */
  readonly file?: string | undefined
  /** Changed limits become candidates, and new rules begin in shadow. */
  readonly shadow?: boolean | undefined
  /** Warnings are errors. */
  readonly strict?: boolean | undefined
  /** A set without any rule is meant: every call is then allowed. */
  readonly confirmNoRules?: boolean | undefined
}

export interface ApplyOptions extends ValidateOptions, VersionedChange {
  /** Says what would change, and changes nothing. */
  readonly dryRun?: boolean | undefined
}

export type RollbackOptions = VersionedChange & Pick<ApplyOptions, 'confirmNoRules' | 'dryRun'>

export interface DeleteOptions extends VersionedChange {
  /** The last rule is meant: without any, every call is allowed. */
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

    /** As YAML or JSON text, or as an object. */
    createRule: (rule: string | object, { why }: Change = {}) =>
      send({
        method: 'POST',
        has: 'version',
        path: '/rules',
        query: { why },
        ...sourceOf(rule),
        isChange: true,
      }) as Promise<RuleView>,

    /** Needs the version that was read; `*` overwrites whatever is there. */
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
    /** The whole set, as YAML or JSON text or as objects. */
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

    /** What `applyRules` would say and do; errors are part of the answer. */
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

    /** What `replaceRule` of this id, or `createRule` without one, would say and do. */
    validateRule: (rule: string | object, id?: string) =>
      send({
        method: 'POST',
        has: 'diff',
        path: '/validate/rule',
        query: { id },
        ...sourceOf(rule),
      }) as Promise<ValidatedView>,

    /** The whole set as YAML text, with candidates and overrides. */
    exportRules: () => send({ method: 'GET', path: '/export', has: YAML }) as Promise<string>,

    /** The candidate's limits in place of those in force, whose counters go on. */
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
    /** All enforced rules, or one, count and refuse nobody for a while; it ends by itself. */
    shadowRules: (input: ShadowInput, { why }: Change = {}) =>
      send({
        method: 'POST',
        has: 'until',
        path: '/shadow',
        query: { why },
        body: input,
        isChange: true,
      }) as Promise<ShadowedView>,

    /** Ends that before its time: of one rule, or of all. */
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
    /** Newest first. */
    listVersions: (page: HistoryOptions = {}) =>
      send({
        method: 'GET',
        has: 'versions',
        path: '/versions',
        query: { ...page },
      }) as Promise<VersionsPage>,

    /** Those that changed one rule, its candidate or its overrides. */
    listRuleVersions: (id: string, page: HistoryOptions = {}) =>
      send({
        method: 'GET',
        has: 'versions',
        path: `${pathOf(id)}/versions`,
        query: { ...page },
      }) as Promise<VersionsPage>,

    /** All rules, candidates and overrides as they were at a version, as a new version. */
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

    /** Follows a rule store that was put back to an older state. */
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
