/** Operations on overrides and candidates. */
import { show } from '@sluice/core'
import { readCallerId } from '../../../rules/editor/override-callers.js'
import { EditError } from '../../../rules/editor/edit-errors.js'
import type { AdminDeps } from '../admin-deps.js'
import { byOf, type PathCaller, readPathCaller } from '../caller-path.js'
import {
  expectedOf,
  openBody,
  operation,
  type Operation,
  type SuccessResponse,
} from '../operation.js'
import { invalid } from '../admin-error.js'
import { after, limit } from '../query-parameters.js'
import {
  candidateInput,
  ITEMS_MAX,
  overrideLimitsInput,
  overridesInput,
  overridesPage,
  overrideView,
  overridesPosted,
  ruleView,
  changeResult,
} from '@sluice/api'
import { viewOverride, viewRule } from '../admin-views.js'
import { BASE, findRule, pageOf } from './operation-helpers.js'

const tag = 'Overrides'
const OVERRIDES = `${BASE}/rules/{id}/overrides`
const OVERRIDE = `${OVERRIDES}/{caller}`
const CANDIDATE = `${BASE}/rules/{id}/candidate`
const theOverride: SuccessResponse = {
  status: 200,
  description: 'The override.',
  schema: overrideView,
  etag: true,
}
const theRule: SuccessResponse = {
  status: 200,
  description: 'The rule.',
  schema: ruleView,
  etag: true,
}

const listOverrides = operation({
  method: 'get',
  path: OVERRIDES,
  id: 'listOverrides',
  tag,
  summary: 'List the overrides of a rule, in the order of their callers',
  role: 'read',
  query: { after, limit },
  answers: [{ status: 200, description: 'A page of overrides.', schema: overridesPage }],
  run({ param, query }, { ruleFollower: { catalog: book } }) {
    const { document } = findRule(book, param('id'))
    const overrides = book.overrides(document.id, query.after, query.limit + 1)
    const { page, next } = pageOf(overrides, query.limit, ({ id }) => id)
    return { status: 200, body: { overrides: page.map(viewOverride), next } }
  },
})

const addOverrides = operation({
  method: 'post',
  path: OVERRIDES,
  id: 'addOverrides',
  tag,
  summary: 'Give one caller, or up to 1,000, limits of their own',
  description: 'Each in place of what the caller had; all or none.',
  role: 'edit',
  writes: true,
  body: openBody(overridesInput),
  answers: [
    { status: 200, description: 'A list, or one that was replaced.', schema: overridesPosted },
    { status: 201, description: 'The new override.', schema: overrideView, etag: true },
  ],
  async run({ param, body, meta }, { editor }) {
    const rule = param('id')
    const list = Array.isArray(body) ? (body as readonly unknown[]) : [body]
    if (list.length > ITEMS_MAX) {
      throw invalid('body', `a list of ${list.length} overrides`, `up to ${ITEMS_MAX}`)
    }
    const made = await editor.putOverrides(rule, list.map(asOverride), meta, undefined)
    const [first] = made
    if (Array.isArray(body) || first === undefined) {
      return { status: 200, body: { overrides: made.map(viewOverride) } }
    }
    const { id, isNew, version } = first
    const location = `${BASE}/rules/${rule}/overrides/${id}`
    return { status: isNew ? 201 : 200, body: viewOverride(first), etag: version, location }
  },
})

interface OverrideInput {
  readonly caller: unknown
  readonly limits: unknown
}

/** Checks only that it is an object; the editor checks its fields. */
function asOverride(sent: unknown): OverrideInput {
  if (typeof sent === 'object' && sent !== null && !Array.isArray(sent)) {
    return sent as OverrideInput
  }
  throw invalid('body', show(sent), 'an override such as {"caller":{"user":"u1"},"limits":[]}')
}

/** The caller in a path, and the id that the override is stored under. */
function callerOf(
  rule: string,
  segment: string,
  { ruleFollower: { catalog: book }, hideSecrets, ipv6Prefix }: AdminDeps,
): PathCaller {
  const by = byOf(findRule(book, rule).document)
  const { id, caller } = readPathCaller(segment, by)
  const { strictPaths } = book.set
  return { id: readCallerId(by, id, { hideSecrets, ipv6Prefix, strictPaths }) ?? id, caller }
}

const getOverride = operation({
  method: 'get',
  path: OVERRIDE,
  id: 'getOverride',
  tag,
  summary: 'Read the override of a caller',
  role: 'read',
  answers: [theOverride],
  run({ param, rawParam }, deps) {
    const rule = param('id')
    const { id } = callerOf(rule, rawParam('caller'), deps)
    const override = deps.ruleFollower.catalog.override(rule, id)
    if (override === undefined) throw unknownOverride(rule, id)
    return { status: 200, body: viewOverride(override), etag: override.version }
  },
})

function unknownOverride(rule: string, id: string): EditError {
  return new EditError(
    'override_unknown',
    `caller: found "${show(id)}"; accepted: a caller that has an override of rule "${rule}"`,
  )
}

const putOverride = operation({
  method: 'put',
  path: OVERRIDE,
  id: 'putOverride',
  tag,
  summary: 'Add an override',
  role: 'edit',
  writes: true,
  ifMatch: 'honoured',
  body: openBody(overrideLimitsInput),
  answers: [theOverride, { ...theOverride, status: 201, description: 'It is new.' }],
  async run({ param, rawParam, body, ifMatch, meta }, deps) {
    const rule = param('id')
    const { caller } = callerOf(rule, rawParam('caller'), deps)
    const input = { ...asOverride(body), caller }
    requireSameCaller(body, caller)
    const [made] = await deps.editor.putOverrides(rule, [input], meta, expectedOf(ifMatch))
    if (made === undefined) throw new Error('one override was put and none came back')
    return { status: made.isNew ? 201 : 200, body: viewOverride(made), etag: made.version }
  },
})

/** A body may repeat the caller, but not name another one. */
function requireSameCaller(body: unknown, caller: Readonly<Record<string, string>>): void {
  const named = (body as Partial<OverrideInput>).caller
  if (named === undefined) return
  const same =
    typeof named === 'object' &&
    named !== null &&
    Object.entries(named).length === Object.entries(caller).length &&
    Object.entries(named).every(([name, value]) => String(value) === caller[name])
  if (!same) throw invalid('caller', 'another one than in the path', 'the same, or none')
}

const deleteOverride = operation({
  method: 'delete',
  path: OVERRIDE,
  id: 'deleteOverride',
  tag,
  summary: 'Take the override of a caller back',
  role: 'edit',
  writes: true,
  ifMatch: 'honoured',
  answers: [{ status: 200, description: 'It is gone.', schema: changeResult }],
  async run({ param, rawParam, ifMatch, meta }, deps) {
    const rule = param('id')
    const { id } = callerOf(rule, rawParam('caller'), deps)
    const version = await deps.editor.removeOverride(rule, id, meta, expectedOf(ifMatch))
    return { status: 200, body: { version } }
  },
})

const getCandidate = operation({
  method: 'get',
  path: CANDIDATE,
  id: 'getCandidate',
  tag: 'Candidates',
  summary: 'Read the candidate of a rule',
  role: 'read',
  answers: [{ status: 200, description: 'The candidate.', schema: candidateInput, etag: true }],
  run({ param }, { ruleFollower: { catalog: book } }) {
    const { document, candidate, version } = findRule(book, param('id'))
    if (candidate !== undefined) return { status: 200, body: candidate, etag: version }
    throw new EditError(
      'candidate_unknown',
      `candidate: found none; accepted: a rule that has one, unlike "${document.id}"`,
    )
  },
})

const putCandidate = operation({
  method: 'put',
  path: CANDIDATE,
  id: 'putCandidate',
  tag: 'Candidates',
  summary: 'Try other limits in shadow, beside those in force',
  role: 'edit',
  writes: true,
  ifMatch: 'honoured',
  body: openBody(candidateInput),
  answers: [theRule],
  async run({ param, body, ifMatch, meta }, { editor, ruleFollower }) {
    const rule = await editor.putCandidate(param('id'), body, meta, expectedOf(ifMatch))
    return { status: 200, body: viewRule(rule, ruleFollower), etag: rule.version }
  },
})

const deleteCandidate = operation({
  method: 'delete',
  path: CANDIDATE,
  id: 'deleteCandidate',
  tag: 'Candidates',
  summary: 'Stop trying the candidate of a rule',
  role: 'edit',
  writes: true,
  ifMatch: 'honoured',
  answers: [theRule],
  async run({ param, ifMatch, meta }, { editor, ruleFollower }) {
    const rule = await editor.removeCandidate(param('id'), meta, expectedOf(ifMatch))
    return { status: 200, body: viewRule(rule, ruleFollower), etag: rule.version }
  },
})

export const OVERRIDE_OPERATIONS: readonly Operation[] = [
  listOverrides,
  addOverrides,
  getOverride,
  putOverride,
  deleteOverride,
  getCandidate,
  putCandidate,
  deleteCandidate,
]
