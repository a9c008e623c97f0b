/** Operations on single rules: read, create, replace, patch, remove, promote. */
import { show } from '@sluice/core'
import type { RuleCatalog } from '../../../rules/sync/rule-catalog.js'
import { setFieldsOf } from '../../../rules/store/records.js'
import {
  type BodySpec,
  expectedOf,
  openBody,
  operation,
  type Operation,
  type SuccessResponse,
} from '../operation.js'
import { invalid } from '../admin-error.js'
import { after, confirmation, limit, text } from '../query-parameters.js'
import { ruleInput, rulePatch, rulesPage, ruleView, validatedView, changeResult } from '@sluice/api'
import { viewRule } from '../admin-views.js'
import { BASE, findRule, pageOf, versionIn } from './operation-helpers.js'

const tag = 'Rules'
const RULE = `${BASE}/rules/{id}`
const theRule: SuccessResponse = {
  status: 200,
  description: 'The rule.',
  schema: ruleView,
  etag: true,
}

/** A text is YAML. */
const ruleBody: BodySpec<unknown> = openBody(ruleInput, ['json', 'yaml'])

const listRules = operation({
  method: 'get',
  path: `${BASE}/rules`,
  id: 'listRules',
  tag,
  summary: 'List the rules, in the order of the set',
  role: 'read',
  query: { after, limit },
  answers: [{ status: 200, description: 'A page of rules.', schema: rulesPage, etag: true }],
  run({ query }, { ruleFollower }) {
    const { catalog } = ruleFollower
    const shadowUntil = ruleFollower.shadowUntil() ?? null
    const rules = rulesAfter(catalog, query.after).slice(0, query.limit + 1)
    const { page, next } = pageOf(rules, query.limit, ({ document }) => document.id)
    const version = catalog.rulesVersion
    const body = {
      version,
      ...setFieldsOf(catalog.set),
      rules: page.map((rule) => viewRule(rule, ruleFollower)),
      next,
      shadowUntil,
    }
    return { status: 200, body, etag: version }
  },
})

function rulesAfter(catalog: RuleCatalog, id: string | undefined) {
  const rules = catalog.rules()
  if (id === undefined) return rules
  const index = rules.findIndex(({ document }) => document.id === id)
  if (index !== -1) return rules.slice(index + 1)
  // The rule was removed since the previous page was read, so its position is unknown.
  throw invalid('query.after', `"${show(id)}"`, 'the id of a rule; begin again without it')
}

const createRule = operation({
  method: 'post',
  path: `${BASE}/rules`,
  id: 'createRule',
  tag,
  summary: 'Create a rule, at the end of the set',
  role: 'edit',
  writes: true,
  body: ruleBody,
  answers: [{ status: 201, description: 'The new rule.', schema: ruleView, etag: true }],
  async run({ body, meta }, { editor, ruleFollower }) {
    const rule = await editor.create(body, meta)
    const { version, document } = rule
    const location = `${BASE}/rules/${document.id}`
    return { status: 201, body: viewRule(rule, ruleFollower), etag: version, location }
  },
})

const getRule = operation({
  method: 'get',
  path: RULE,
  id: 'getRule',
  tag,
  summary: 'Read a rule',
  role: 'read',
  answers: [theRule],
  run({ param }, { ruleFollower }) {
    const rule = findRule(ruleFollower.catalog, param('id'))
    return { status: 200, body: viewRule(rule, ruleFollower), etag: rule.version }
  },
})

const replaceRule = operation({
  method: 'put',
  path: RULE,
  id: 'replaceRule',
  tag,
  summary: 'Replace a rule',
  description: 'Needs the version that was read, as If-Match or in the body; `*` overwrites.',
  role: 'edit',
  writes: true,
  ifMatch: 'needed',
  body: ruleBody,
  answers: [theRule],
  async run({ param, body, ifMatch, meta }, { editor, ruleFollower }) {
    const expected = expectedOf(ifMatch, versionIn(body), true)
    const rule = await editor.replace(param('id'), body, meta, expected)
    return { status: 200, body: viewRule(rule, ruleFollower), etag: rule.version }
  },
})

const validateRule = operation({
  method: 'post',
  path: `${BASE}/validate/rule`,
  id: 'validateRule',
  tag,
  summary: 'Say what replacing or creating a rule would do, or what is wrong with it',
  description: 'Answers 200 also where the rule has errors. Changes nothing.',
  role: 'read',
  query: {
    id: text.meta({ description: 'The rule that it takes the place of; without, it is new.' }),
  },
  body: ruleBody,
  answers: [{ status: 200, description: 'What is wrong, or changes.', schema: validatedView }],
  async run({ query: { id }, body }, { editor }) {
    const { errors, warnings, diff } = await editor.validateRule(body, id)
    const valid = errors.length === 0
    return { status: 200, body: { valid, errors, warnings, diff: diff ?? null } }
  },
})

const patchRule = operation({
  method: 'patch',
  path: RULE,
  id: 'patchRule',
  tag,
  summary: 'Change fields of a rule',
  role: 'edit',
  writes: true,
  ifMatch: 'honoured',
  body: openBody(rulePatch, ['merge-patch', 'json']),
  answers: [theRule],
  async run({ param, body, ifMatch, meta }, { editor, ruleFollower }) {
    const expected = expectedOf(ifMatch, versionIn(body))
    const rule = await editor.patch(param('id'), body, meta, expected)
    return { status: 200, body: viewRule(rule, ruleFollower), etag: rule.version }
  },
})

const deleteRule = operation({
  method: 'delete',
  path: RULE,
  id: 'deleteRule',
  tag,
  summary: 'Remove a rule, with its candidate and overrides',
  role: 'edit',
  writes: true,
  ifMatch: 'honoured',
  query: {
    confirm: confirmation('last-rule', 'The last rule is meant: without any, all is allowed.'),
  },
  answers: [{ status: 200, description: 'It is gone.', schema: changeResult }],
  async run({ param, query, ifMatch, meta }, { editor }) {
    const confirmed = query.confirm !== undefined
    const options = { expected: expectedOf(ifMatch), confirmed }
    return { status: 200, body: { version: await editor.remove(param('id'), meta, options) } }
  },
})

const promote = operation({
  method: 'post',
  path: `${RULE}/promote`,
  id: 'promoteCandidate',
  tag: 'Candidates',
  summary: "Put the candidate's limits in place of those in force",
  description: 'The counters in force go on.',
  role: 'edit',
  writes: true,
  ifMatch: 'honoured',
  answers: [theRule],
  async run({ param, ifMatch, meta }, { editor, ruleFollower }) {
    const rule = await editor.promote(param('id'), meta, expectedOf(ifMatch))
    return { status: 200, body: viewRule(rule, ruleFollower), etag: rule.version }
  },
})

export const RULE_OPERATIONS: readonly Operation[] = [
  listRules,
  createRule,
  getRule,
  replaceRule,
  validateRule,
  patchRule,
  deleteRule,
  promote,
]
