/** Operations on the whole rule set: apply, validate, export, roll back, list versions. */
import { writeYaml } from '@sluice/core'
import type { ApplyResult } from '../../../rules/editor/editor.js'
import { parseLargeJson } from '../../../rules/editor/worker-parse.js'
import type { AdminDeps } from '../admin-deps.js'
import { type BodySpec, checkedBody, expectedOf, operation, type Operation } from '../operation.js'
import { invalid } from '../admin-error.js'
import { before, confirmation, file, flag, limit } from '../query-parameters.js'
import { SET_BYTES_MAX } from '../read-request.js'
import {
  appliedView,
  rollbackInput,
  ruleSetInput,
  validatedView,
  versionsPage,
  yamlText,
} from '@sluice/api'
import { viewVersion, wholeSet } from '../admin-views.js'
import { BASE, findRule, pageOf, versionIn } from './operation-helpers.js'

const tag = 'Rule sets'
const noRules = confirmation('no-rules', 'A set without any rule is meant: all is allowed.')

/** A text is YAML. */
const setBody: BodySpec<string | object> = {
  kinds: ['json', 'yaml'],
  bytesMax: SET_BYTES_MAX,
  schema: ruleSetInput,
  readLarge: (text, search, { ruleContext }) =>
    parseLargeJson(text, {
      file: search.get('file') ?? undefined,
      strict: search.get('strict') === 'true',
      ruleContext,
    }),
  read(sent) {
    if (typeof sent === 'string') return sent
    if (typeof sent !== 'object' || sent === null) {
      throw invalid('body', String(sent), 'a list of rules, or an object with rules')
    }
    if ('next' in sent && sent.next !== null && sent.next !== undefined) {
      throw invalid('next', 'a page of the rules', 'the whole set; the rest would be removed')
    }
    return sent
  },
}

const dryRun = flag.meta({ type: 'boolean', description: 'Changes nothing.' })

const setQuery = {
  file,
  shadow: flag.meta({
    type: 'boolean',
    description: 'Changed limits become candidates, and new rules begin in shadow.',
  }),
  dryRun,
  strict: flag.meta({ type: 'boolean', description: 'Warnings are errors.' }),
  confirm: noRules,
}

const applyRules = operation({
  method: 'put',
  path: `${BASE}/rules`,
  id: 'applyRules',
  tag,
  summary: 'Replace the whole set',
  role: 'edit',
  writes: true,
  ifMatch: 'honoured',
  query: setQuery,
  body: setBody,
  answers: [{ status: 200, description: 'What changed.', schema: appliedView, etag: true }],
  async run({ query: { confirm, ...options }, body, ifMatch, meta }, { editor, ruleFollower }) {
    const expected = expectedOf(ifMatch, versionOf(body))
    const confirmed = confirm !== undefined
    const applied = await editor.apply(body, meta, { ...options, expected, confirmed })
    return { status: 200, body: applied, etag: writtenVersion(applied, ruleFollower) }
  },
})

/** The version of the set that its writer knows: a later change must cause a conflict. */
function writtenVersion(
  { version }: ApplyResult,
  { catalog: book }: AdminDeps['ruleFollower'],
): number {
  return Math.min(version, book.rulesVersion)
}

function versionOf(body: string | object): number | undefined {
  return typeof body === 'string' || Array.isArray(body) ? undefined : versionIn(body)
}

const validateRules = operation({
  method: 'post',
  path: `${BASE}/validate`,
  id: 'validateRules',
  tag,
  summary: 'Say what applying a set would do, or what is wrong with it',
  description: 'Answers 200 also where the set has errors. Changes nothing.',
  role: 'read',
  query: setQuery,
  body: setBody,
  answers: [{ status: 200, description: 'What is wrong, or changes.', schema: validatedView }],
  async run({ query: { confirm, ...options }, body }, { editor }) {
    const confirmed = confirm !== undefined
    const { errors, warnings, diff } = await editor.validate(body, { ...options, confirmed })
    const valid = errors.length === 0
    return { status: 200, body: { valid, errors, warnings, diff: diff ?? null } }
  },
})

const exportRules = operation({
  method: 'get',
  path: `${BASE}/export`,
  id: 'exportRules',
  tag,
  summary: 'Export everything that a rules file can hold',
  description: 'With candidates and overrides.',
  role: 'read',
  answers: [
    {
      status: 200,
      description: 'A rules file.',
      schema: yamlText,
      type: 'application/yaml',
      etag: true,
    },
  ],
  run: (_request, { ruleFollower: { catalog: book } }) => ({
    status: 200,
    body: writeYaml(wholeSet(book)),
    etag: book.rulesVersion,
  }),
})

/** Does not use the editor, whose errors state whether a change was made. */
async function readVersions(
  { ruleFollower: { store } }: AdminDeps,
  rule: string | undefined,
  query: { readonly before?: number | undefined; readonly limit: number },
) {
  const filter = { rule, before: query.before, limit: query.limit + 1 }
  // A rules file of the user has no versions.
  const past = (await store?.history(filter)) ?? []
  const { page, next } = pageOf(past, query.limit, ({ version }) => version)
  const keptSince = store?.status().keptSince ?? null
  return { versions: page.map(viewVersion), next, keptSince }
}

const listVersions = operation({
  method: 'get',
  path: `${BASE}/versions`,
  id: 'listVersions',
  tag: 'History',
  summary: 'List versions, newest first',
  role: 'read',
  query: { before, limit },
  answers: [{ status: 200, description: 'A page of versions.', schema: versionsPage }],
  run: async ({ query }, deps) => ({
    status: 200,
    body: await readVersions(deps, undefined, query),
  }),
})

const listRuleVersions = operation({
  method: 'get',
  path: `${BASE}/rules/{id}/versions`,
  id: 'listRuleVersions',
  tag: 'History',
  summary: 'List versions that changed a rule, its candidate or its overrides',
  description: 'Also of a rule that was removed.',
  role: 'read',
  query: { before, limit },
  answers: [{ status: 200, description: 'A page of versions.', schema: versionsPage }],
  async run({ param, query }, deps) {
    const id = param('id')
    const body = await readVersions(deps, id, query)
    // A removed rule still has versions; one that never existed has none.
    if (body.versions.length === 0 && query.before === undefined)
      findRule(deps.ruleFollower.catalog, id)
    return { status: 200, body }
  },
})

const rollback = operation({
  method: 'post',
  path: `${BASE}/rollback`,
  id: 'rollback',
  tag: 'History',
  summary: 'Take all rules, candidates and overrides back to a version',
  description: 'As a new version. Keys and tokens stay: what was revoked stays revoked.',
  role: 'edit',
  writes: true,
  ifMatch: 'honoured',
  query: { dryRun, confirm: noRules },
  body: checkedBody(rollbackInput),
  answers: [{ status: 200, description: 'What changed.', schema: appliedView, etag: true }],
  async run({ body: { version }, query, ifMatch, meta }, { editor, ruleFollower }) {
    const options = { dryRun: query.dryRun, confirmed: query.confirm !== undefined }
    const applied = await editor.rollback(version, meta, expectedOf(ifMatch), options)
    return { status: 200, body: applied, etag: writtenVersion(applied, ruleFollower) }
  },
})

const rollbackRule = operation({
  method: 'post',
  path: `${BASE}/rules/{id}/rollback`,
  id: 'rollbackRule',
  tag: 'History',
  summary: 'Take a rule, its candidate and its overrides back to a version',
  description: 'As a new version. A rule that was removed comes back.',
  role: 'edit',
  writes: true,
  ifMatch: 'honoured',
  query: { dryRun, confirm: noRules },
  body: checkedBody(rollbackInput),
  answers: [{ status: 200, description: 'What changed.', schema: appliedView }],
  async run({ param, body: { version }, query, ifMatch, meta }, { editor }) {
    const options = { dryRun: query.dryRun, confirmed: query.confirm !== undefined }
    const expected = expectedOf(ifMatch)
    const body = await editor.rollbackRule(param('id'), version, meta, expected, options)
    return { status: 200, body }
  },
})

export const SET_OPERATIONS: readonly Operation[] = [
  applyRules,
  validateRules,
  exportRules,
  listVersions,
  listRuleVersions,
  rollback,
  rollbackRule,
]
