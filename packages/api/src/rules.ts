/** Rules, sets of rules and what changing them would do. */
import { z } from 'zod'
import { problemDetails } from './decisions.js'
import { anyJson, anyList, type Input, strictObject, version, type View } from './schema.js'

export const ruleView = z
  .looseObject({
    id: z.string(),
    version: version.meta({ description: 'The version of its last change; also its ETag.' }),
    overrideCount: z.int().min(0),
    candidate: anyJson.optional(),
    shadowUntil: z.string().optional().meta({
      description: 'Until then the enforced rule counts and refuses no call.',
    }),
  })
  .meta({
    id: 'Rule',
    description:
      'A rule with the fields that a rules file has (docs/reference/rules.md), except `overrides`, which have an endpoint of their own.',
  })
export type RuleView = View<typeof ruleView>

export const ruleInput = z.looseObject({ id: z.string() }).meta({
  id: 'RuleInput',
  description:
    'A rule as a rules file has it (docs/reference/rules.md). `overrides`, if given, replace all overrides of the rule. `version`, if given, is the version that was read.',
  example: { id: 'per-user', by: ['user'], limits: ['10/second'] },
})
export type RuleInput = Input<typeof ruleInput>

export const rulePatch = z.looseObject({}).meta({
  id: 'RulePatch',
  description: 'A JSON merge patch (RFC 7396) of a rule: null removes a field.',
  example: { mode: 'shadow' },
})
export type RulePatch = Input<typeof rulePatch>

export const ruleSetInput = z
  .union([
    z.looseObject({
      routes: anyList.optional(),
      strictPaths: z.boolean().optional(),
      priorities: anyList.optional(),
      classify: anyList.optional(),
      shed: z.unknown().optional(),
      shares: z.unknown().optional(),
      rules: z.array(ruleInput),
    }),
    z.array(ruleInput),
  ])
  .meta({ id: 'RuleSet', description: 'A whole set, as a rules file has it.' })
export type RuleSetInput = Input<typeof ruleSetInput>

export const yamlText = z.string().meta({ description: 'YAML.' })

export const rulesPage = z
  .object({
    version: version.meta({
      description: 'The version of the last change to the set; also its ETag.',
    }),
    routes: anyList,
    strictPaths: z.boolean(),
    priorities: anyList.optional(),
    classify: anyList.optional(),
    shed: z.unknown().optional(),
    shares: z.unknown().optional(),
    rules: z.array(ruleView),
    next: z
      .string()
      .nullable()
      .meta({ description: 'The `after` of the next page; null on the last page.' }),
    shadowUntil: z.string().nullable().meta({
      description: 'Until then all enforced rules count and refuse no call; null: they refuse.',
    }),
  })
  .meta({ id: 'RulesPage' })
export type RulesPage = View<typeof rulesPage>

export const shadowInput = strictObject({
  for: z.string().max(64).meta({ description: 'From `1m` to `24h`.', example: '15m' }),
  rule: z
    .string()
    .max(64)
    .optional()
    .meta({ description: 'Only this rule; without it, all rules.' }),
}).meta({ id: 'ShadowInput' })
export type ShadowInput = Input<typeof shadowInput>

export const shadowedView = z
  .object({
    version,
    until: z.string().meta({ description: 'When the shadow ends.' }),
    rule: z.string().nullable().meta({ description: 'Null: all rules.' }),
  })
  .meta({ id: 'Shadowed' })
export type ShadowedView = View<typeof shadowedView>

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
  .meta({ id: 'RuleProblem' })
export type ProblemView = View<typeof problemView>

export const fieldChange = z
  .object({ field: z.string(), before: z.string(), after: z.string() })
  .meta({ id: 'FieldChange' })
export type FieldChange = View<typeof fieldChange>

export const counterFate = z
  .object({
    where: z.string(),
    limit: z.string(),
    counters: z.enum(['go on', 'start anew', 'end']),
    what: z.string(),
  })
  .meta({ id: 'CounterFate' })
export type CounterFate = View<typeof counterFate>

export const ruleChange = z
  .object({
    id: z.string(),
    change: z.enum(['added', 'removed', 'changed', 'moved']),
    fields: z.array(fieldChange),
    counters: z.array(counterFate),
    overrides: z.object({ added: z.int(), changed: z.int(), removed: z.int() }),
  })
  .meta({ id: 'RuleChange' })
export type RuleChange = View<typeof ruleChange>

export const ruleDiff = z
  .object({ set: z.array(fieldChange), rules: z.array(ruleChange) })
  .meta({ id: 'RuleDiff' })
export type RuleDiff = View<typeof ruleDiff>

export const appliedView = z
  .object({ version, diff: ruleDiff, warnings: z.array(problemView) })
  .meta({ id: 'Applied' })
export type AppliedView = View<typeof appliedView>

export const validatedView = z
  .object({
    valid: z.boolean(),
    errors: z.array(problemView),
    warnings: z.array(problemView),
    diff: z.union([ruleDiff, z.null()]),
  })
  .meta({ id: 'Validated' })
export type ValidatedView = View<typeof validatedView>

export const candidateInput = z
  .object({ limits: anyList, tiers: anyJson.optional() })
  .meta({ id: 'Candidate', example: { limits: ['5/second'] } })
export type CandidateInput = Input<typeof candidateInput>

export const changeResult = z
  .object({ version })
  .meta({ id: 'VersionOnly', description: 'The version of the rule store with this change.' })
export type ChangeResult = View<typeof changeResult>

export const errorView = z
  .object({
    ...problemDetails.shape,
    version: version
      .optional()
      .meta({ description: 'With `version_conflict`: the current version.' }),
    errors: z.array(problemView).optional(),
  })
  .meta({ id: 'Problem' })
export type ErrorView = View<typeof errorView>
