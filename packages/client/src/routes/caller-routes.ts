/** Routes of overrides and candidates. */
import { encode, segment } from '../address.js'
import type { Send } from '../send.js'
import type {
  ChangeResult,
  CandidateInput,
  OverrideInput,
  OverridesPage,
  OverrideView,
  RuleView,
} from '../api-types.js'
import type { Change, PageOptions, VersionedChange } from './route-options.js'

/**
 * The caller of an override in a URL: `user=u1`, in the order of the rule's `by`, separated by
 * commas; `everybody` for a rule that counts all calls together.
 */
export function callerId(by: readonly string[], caller: Readonly<Record<string, string>>): string {
  if (by.length === 0) return 'everybody'
  return by.map((name) => `${name}=${encode(name, caller[name] ?? '')}`).join(',')
}

const overridesOf = (rule: string) => `/rules/${segment('rule', rule)}/overrides`
const overrideOf = (rule: string, caller: string) =>
  `${overridesOf(rule)}/${segment('caller', caller)}`
const candidateOf = (rule: string) => `/rules/${segment('rule', rule)}/candidate`

export function callerRoutes(send: Send) {
  return {
    /** Overrides in the order of their callers. */
    listOverrides: (rule: string, page: PageOptions = {}) =>
      send({
        method: 'GET',
        has: 'overrides',
        path: overridesOf(rule),
        query: { ...page },
      }) as Promise<OverridesPage>,

    /** The override of a caller as `callerId` writes it. */
    getOverride: (rule: string, caller: string) =>
      send({
        method: 'GET',
        has: 'version',
        path: overrideOf(rule, caller),
      }) as Promise<OverrideView>,

    /** Creates an override, or replaces that of the caller. */
    addOverride: (rule: string, override: OverrideInput, { why }: Change = {}) =>
      send({
        method: 'POST',
        has: 'version',
        path: overridesOf(rule),
        query: { why },
        body: override,
        isChange: true,
      }) as Promise<OverrideView>,

    /** Stores up to 1,000 overrides: all or none. */
    addOverrides: (rule: string, overrides: readonly OverrideInput[], { why }: Change = {}) =>
      send({
        method: 'POST',
        has: 'overrides',
        path: overridesOf(rule),
        query: { why },
        body: overrides,
        isChange: true,
      }) as Promise<{ readonly overrides: readonly OverrideView[] }>,

    putOverride: (
      rule: string,
      caller: string,
      override: Omit<OverrideInput, 'caller'>,
      { ifMatch, why }: VersionedChange = {},
    ) =>
      send({
        method: 'PUT',
        has: 'version',
        path: overrideOf(rule, caller),
        query: { why },
        body: override,
        ifMatch,
        isChange: true,
      }) as Promise<OverrideView>,

    deleteOverride: (rule: string, caller: string, { ifMatch, why }: VersionedChange = {}) =>
      send({
        method: 'DELETE',
        has: 'version',
        path: overrideOf(rule, caller),
        query: { why },
        ifMatch,
        isChange: true,
      }) as Promise<ChangeResult>,

    ...candidateRoutes(send),
  }
}

function candidateRoutes(send: Send) {
  return {
    getCandidate: (rule: string) =>
      send({ method: 'GET', has: 'limits', path: candidateOf(rule) }) as Promise<CandidateInput>,

    /** Returns the rule with its candidate; both share one version. */
    putCandidate: (
      rule: string,
      candidate: CandidateInput,
      { ifMatch, why }: VersionedChange = {},
    ) =>
      send({
        method: 'PUT',
        has: 'version',
        path: candidateOf(rule),
        query: { why },
        body: candidate,
        ifMatch,
        isChange: true,
      }) as Promise<RuleView>,

    deleteCandidate: (rule: string, { ifMatch, why }: VersionedChange = {}) =>
      send({
        method: 'DELETE',
        has: 'version',
        path: candidateOf(rule),
        query: { why },
        ifMatch,
        isChange: true,
      }) as Promise<RuleView>,
  }
}
