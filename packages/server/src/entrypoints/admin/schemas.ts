/**
 * What the admin API takes and answers, for its OpenAPI document and for the checks of what is
 * sent. packages/client/src/types.ts says the same in TypeScript; a test holds the two equal.
 */
import { z } from '@hono/zod-openapi'
import { strictObject } from './operation.js'

const version = z.int().min(0)
const open = z.unknown()
const list = z.array(z.unknown())

/** Of a rule, with what the store adds. */
export const ruleView = z
  .looseObject({
    id: z.string(),
    version: version.openapi({ description: 'Of its last change; also its ETag.' }),
    overrideCount: z.int().min(0),
    candidate: open.optional(),
    shadowUntil: z.string().optional().openapi({
      description: 'An enforced rule counts and refuses nobody until then.',
    }),
  })
  .openapi('Rule', {
    description:
      'A rule with the fields that a rules file has (docs/reference/rules.md), but for `overrides`, which are read apart.',
  })

export const ruleInput = z.looseObject({ id: z.string() }).openapi('RuleInput', {
  description:
    'A rule as a rules file has it (docs/reference/rules.md). `overrides`, where given, replace all of the rule. A `version`, where given, is the one that was read.',
  example: { id: 'per-user', by: ['user'], limits: ['10/second'] },
})

export const rulePatch = z.looseObject({}).openapi('RulePatch', {
  description: 'A JSON merge patch (RFC 7396) of a rule: null removes a field.',
  example: { mode: 'shadow' },
})

export const setInput = z
  .union([
    z.looseObject({
      routes: list.optional(),
      strictPaths: z.boolean().optional(),
      rules: z.array(ruleInput),
    }),
    z.array(ruleInput),
  ])
  .openapi('RuleSet', { description: 'A whole set, as a rules file has it.' })

export const yamlText = z.string().openapi({ description: 'YAML.' })

export const rulesPage = z
  .object({
    version: version.openapi({ description: 'Of the last change to the set; also its ETag.' }),
    routes: list,
    strictPaths: z.boolean(),
    rules: z.array(ruleView),
    next: z.string().nullable().openapi({ description: 'What to ask for as `after`; null: all.' }),
    shadowUntil: z.string().nullable().openapi({
      description: 'All enforced rules count and refuse nobody until then; null: they do refuse.',
    }),
  })
  .openapi('RulesPage')

export const shadowInput = strictObject({
  for: z.string().max(64).openapi({ description: 'From `1m` to `24h`.', example: '15m' }),
  rule: z.string().max(64).optional().openapi({ description: 'Only this one; without: all.' }),
}).openapi('ShadowInput')

export const shadowedView = z
  .object({
    version,
    until: z.string().openapi({ description: 'When it ends by itself.' }),
    rule: z.string().nullable().openapi({ description: 'Null: all rules.' }),
  })
  .openapi('Shadowed')

export const problemView = z
  .object({
    code: z.string(),
    message: z.string(),
    field: z.string(),
    found: z.string(),
    accepted: z.string(),
    rule: z.string().optional(),
    file: z.string().optional(),
    line: z.int().optional(),
    column: z.int().optional(),
    suggestion: z.string().optional(),
  })
  .openapi('RuleProblem')

const fieldChange = z
  .object({ field: z.string(), before: z.string(), after: z.string() })
  .openapi('FieldChange')

const counterFate = z
  .object({
    where: z.string(),
    limit: z.string(),
    counters: z.enum(['go on', 'start anew', 'end']),
    what: z.string(),
  })
  .openapi('CounterFate')

const ruleChange = z
  .object({
    id: z.string(),
    change: z.enum(['added', 'removed', 'changed', 'moved']),
    fields: z.array(fieldChange),
    counters: z.array(counterFate),
    overrides: z.object({ added: z.int(), changed: z.int(), removed: z.int() }),
  })
  .openapi('RuleChange')

export const ruleDiff = z
  .object({ set: z.array(fieldChange), rules: z.array(ruleChange) })
  .openapi('RuleDiff')

export const appliedView = z
  .object({ version, diff: ruleDiff, warnings: z.array(problemView) })
  .openapi('Applied')

export const validatedView = z
  .object({
    valid: z.boolean(),
    errors: z.array(problemView),
    warnings: z.array(problemView),
    diff: z.union([ruleDiff, z.null()]),
  })
  .openapi('Validated')

const pastChange = z
  .object({
    kind: z.enum(['set', 'rule', 'candidate', 'override', 'key', 'token', 'secret']),
    id: z.string(),
    before: open.openapi({ description: 'Null: there was none.' }),
    after: open.openapi({ description: 'Null: it was removed.' }),
  })
  .openapi('PastChange')

export const versionView = z
  .object({
    version,
    at: z.string(),
    by: z.string(),
    why: z.string().nullable(),
    changeCount: z.int(),
    changes: z.array(pastChange).openapi({ description: 'The first hundred.' }),
  })
  .openapi('Version')

export const versionsPage = z
  .object({
    versions: z.array(versionView),
    next: z.int().nullable().openapi({ description: 'What to ask for as `before`; null: all.' }),
    keptSince: z.int().nullable().openapi({
      description:
        'The oldest version that can be gone back to, where older ones are no longer kept; null: all are kept.',
    }),
  })
  .openapi('VersionsPage')

const caller = z.record(z.string(), z.string()).openapi({
  description:
    'A value for each attribute of `by`; for `ip` an address, or a network whose callers each have the limits.',
  example: { user: 'u1' },
})

export const overrideView = z
  .object({
    id: z.string().openapi({ description: 'The caller as URLs have it.', example: 'user=u1' }),
    caller,
    limits: list,
    until: z.string().optional(),
    version,
  })
  .openapi('Override')

export const overridesPage = z
  .object({ overrides: z.array(overrideView), next: z.string().nullable() })
  .openapi('OverridesPage')

const overrideList = z.object({ overrides: z.array(overrideView) }).openapi('Overrides')

export const overrideInput = z
  .object({ caller, limits: list, until: z.string().optional() })
  .openapi('OverrideInput', { example: { caller: { user: 'u1' }, limits: ['100/second'] } })

export const overridesInput = z.union([overrideInput, z.array(overrideInput)])
export const overridesPosted = z.union([overrideView, overrideList])

export const overrideOfPath = z
  .object({ caller: caller.optional(), limits: list, until: z.string().optional() })
  .openapi('OverrideLimits', { example: { limits: ['100/second'] } })

export const candidateInput = z
  .object({ limits: list, tiers: open.optional() })
  .openapi('Candidate', { example: { limits: ['5/second'] } })

export const ITEMS_MAX = 1000

const NAME_LENGTH_MAX = 1024
const ACCEPTED_NAME = `text of 1 to ${NAME_LENGTH_MAX} characters`
const name = z.string(ACCEPTED_NAME).min(1, ACCEPTED_NAME).max(NAME_LENGTH_MAX, ACCEPTED_NAME)
const keyState = z.enum(['active', 'disabled'], 'active or disabled')
const SHA256 = '64 hex digits'

export const keyView = z
  .object({
    id: z.string(),
    user: z.string().optional(),
    plan: z.string().optional(),
    state: keyState,
    name: z.string().optional(),
    last4: z.string().optional(),
    createdAt: z.string(),
    version,
    key: z.string().optional().openapi({ description: 'Told once, in the answer that made it.' }),
  })
  .openapi('Key')

export const keysPage = z
  .object({ keys: z.array(keyView), next: z.string().nullable() })
  .openapi('KeysPage')

const keyList = z.object({ keys: z.array(keyView) }).openapi('Keys')
export const keysMade = z.union([keyView, keyList])

export const keyInput = strictObject({
  key: name.optional().openapi({ description: 'The key itself; none: one is made.' }),
  sha256: z
    .string(SHA256)
    .regex(/^[0-9a-fA-F]{64}$/, SHA256)
    .optional(),
  user: name.optional(),
  plan: name.optional(),
  state: keyState.optional(),
  name: name.optional(),
}).openapi('KeyInput', { example: { user: 'u1', plan: 'pro' } })

export const keyPatch = strictObject({
  user: name.nullable().optional(),
  plan: name.nullable().optional(),
  state: keyState.optional(),
  name: name.nullable().optional(),
}).openapi('KeyPatch', {
  description: 'Null removes a field.',
  example: { state: 'disabled' },
})

const role = z.enum(['read', 'edit', 'admin'], 'read, edit or admin')
const ACCEPTED_TIME = 'a date and time such as 2027-01-01T00:00:00Z'

export const tokenView = z
  .object({
    id: z.string(),
    name: z.string(),
    role,
    createdAt: z.string(),
    expiresAt: z.string().optional(),
    token: z.string().optional().openapi({ description: 'Told once, in the answer that made it.' }),
  })
  .openapi('Token')

export const tokenList = z.object({ tokens: z.array(tokenView) }).openapi('Tokens')

export const tokenInput = strictObject({
  name,
  role,
  expiresAt: z.string(ACCEPTED_TIME).max(64, ACCEPTED_TIME).optional(),
}).openapi('TokenInput', { example: { name: 'ci', role: 'edit' } })

const nodeView = z
  .object({
    id: z.string(),
    host: z.string(),
    pid: z.int(),
    release: z.string(),
    rulesVersion: version,
    startedAt: z.string(),
    seenMsAgo: z.number(),
    problem: z.string().optional(),
    decisionsPerSecond: z.number().optional(),
    refusalsPerSecond: z.number().optional(),
    clockOffsetMs: z.number().nullable().optional(),
    store: z.string().optional(),
  })
  .openapi('Node')

export const nodesView = z
  .object({
    version: version.openapi({ description: 'Of the rules, as the asked node knows them.' }),
    source: z.string(),
    readOnly: z.string().nullable(),
    news: z.enum(['push', 'poll', 'none']).nullable(),
    ageSeconds: z.number(),
    problem: z.string().nullable(),
    nodes: z.array(nodeView),
  })
  .openapi('Nodes')

const attributes = z.record(z.string(), z.string())

const callerView = z
  .object({ rule: z.string(), caller: attributes, hash: z.string() })
  .openapi('Caller', { description: 'Logs and Redis have the hash in place of the caller.' })

export const callInput = z
  .object({
    attributes: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])),
    cost: z.int().min(0).optional(),
  })
  .openapi('Call', { example: { attributes: { user: 'u1', path: '/v1/orders' } } })

export const decisionView = z
  .looseObject({
    allowed: z.boolean(),
    reason: z.string(),
    rule: z.string().nullable().optional(),
    source: z.enum(['store', 'lease', 'local', 'deny-cache', 'posture']),
    staleMs: z.number().optional().openapi({
      description: 'Only where it was not the store: how old what it was made from is.',
    }),
    callers: z.array(callerView),
  })
  .openapi('Decision', {
    description: 'The decision as docs/reference/decision-api.md has it, and who is counted.',
  })

export const inspectInput = z
  .object({ rule: z.string(), attributes: callInput.shape.attributes })
  .openapi('InspectInput', { example: { rule: 'per-user', attributes: { user: 'u1' } } })

const counterView = z
  .object({
    limit: z.string(),
    where: z.string(),
    key: z.string(),
    partition: z.int(),
    node: z.string().nullable(),
    state: z.record(z.string(), z.unknown()).nullable(),
    ttlMs: z.number().nullable(),
    bytes: z.number().nullable(),
    remaining: z.number(),
    resetAfterMs: z.number(),
  })
  .openapi('Counter')

export const inspectView = z
  .object({
    rule: z.string(),
    caller: attributes,
    hash: z.string(),
    counters: z.array(counterView),
  })
  .openapi('Inspected')

export const versionAnswer = z.object({ version }).openapi('VersionOnly', {
  description: 'The version of the rule store in which it was done.',
})

const ACCEPTED_VERSION = 'a version: a whole number from 1'

export const rollbackInput = strictObject({
  version: z.int(ACCEPTED_VERSION).min(1, ACCEPTED_VERSION),
}).openapi('Rollback', { example: { version: 12 } })

export const errorView = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    error: z.string().openapi({ description: 'A short word that scripts can test.' }),
    version: version.optional().openapi({ description: 'With `version_conflict`: the present.' }),
    errors: z.array(problemView).optional(),
  })
  .openapi('Problem')
