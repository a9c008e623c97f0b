/** The document is made of what is served, passes a linter, and agrees with the client's types. */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { z } from '@hono/zod-openapi'
import { afterAll, describe, expect, test } from 'vitest'
import type * as client from '../../../../client/src/types.js'
import { closeAfterTests, startAdmin } from './admin.test-helper.js'
import type * as schemas from './schemas.js'
import type * as statsSchemas from './schemas-stats.js'

closeAfterTests()

interface Document {
  readonly openapi: string
  readonly info: { readonly version: string }
  readonly security: readonly object[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, DocumentedOperation>>>>
}

interface DocumentedOperation {
  readonly operationId: string
  readonly summary: string
  readonly description: string
  readonly security?: readonly object[]
  readonly responses: Readonly<Record<string, unknown>>
  readonly requestBody?: { readonly content: Readonly<Record<string, unknown>> }
}

const admin = await startAdmin()
const { body } = await admin.request('GET', '/openapi.json')
const document = body as Document
const documented = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
)

describe('the linter', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-openapi-'))
  afterAll(() => rmSync(folder, { recursive: true }))

  test('finds nothing, neither errors nor warnings', async () => {
    const file = join(folder, 'openapi.json')
    writeFileSync(file, JSON.stringify(document))
    const require = createRequire(import.meta.url)
    const cli = require.resolve('@redocly/cli/bin/cli.js')
    const args = [cli, 'lint', file, '--extends=recommended-strict', '--format=json']
    const quiet = { REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_NOTIFICATIONS: 'true', CI: '1' }
    const options = { cwd: folder, env: { ...process.env, ...quiet } }
    const run = promisify(execFile)(process.execPath, args, options)
    const { stdout } = await run.catch((error: { readonly stdout: string }) => error)
    const { problems } = JSON.parse(stdout) as { readonly problems: readonly object[] }
    expect(problems).toEqual([])
  })
})

describe('the document', () => {
  test('is OpenAPI 3.1 and has the release', () => {
    expect(document.openapi).toBe('3.1.0')
    expect(document.info.version).toBe(admin.release)
    expect(document.security).toEqual([{ token: [] }, { session: [] }])
  })

  test('has every route that is served, and no other', () => {
    const served = admin.routes().map(({ method, path }) => `${method} ${path}`)
    const told = documented.map(({ path, method }) => `${method.toUpperCase()} ${path}`)
    expect(told.toSorted()).toEqual(served.toSorted())
  })

  test('no two operations have one id', () => {
    const ids = documented.map(({ operation }) => operation.operationId)
    expect(new Set(ids).size).toBe(ids.length)
  })

  test('only the login needs no credentials', () => {
    const open = documented.filter(({ operation }) => operation.security?.length === 0)
    expect(open.map(({ method, path }) => `${method} ${path}`)).toEqual(['post /admin/v1/session'])
  })

  test.each(documented)('$method $path says what it needs and may answer', ({ operation }) => {
    expect(operation.summary).not.toBe('')
    expect(operation.description).toMatch(
      operation.security === undefined
        ? /Needs the role `(read|edit|admin)`\.$/
        : /Needs no credentials\.$/,
    )
    const statuses = Object.keys(operation.responses)
    expect(statuses).toEqual(expect.arrayContaining(['400', '401', '403', '429', '500']))
    if (operation.requestBody !== undefined) {
      expect(statuses).toEqual(expect.arrayContaining(['413', '415']))
    }
  })
})

/** What JSON is, once it was read: nobody changes it, and what is not there is not there. */
type Read<T> = T extends readonly (infer Item)[]
  ? readonly Read<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Read<Exclude<T[Key], undefined>> }
    : T

type Same<Schema extends z.ZodType, View> =
  Read<z.output<Schema>> extends View
    ? View extends Read<z.output<Schema>>
      ? true
      : { readonly schemaLacks: View }
    : { readonly viewLacks: Read<z.output<Schema>> }

type S = typeof schemas & typeof statsSchemas

test('schemas and the types of the client are the same', () => {
  const same: {
    readonly rule: Same<S['ruleView'], client.RuleView>
    readonly rules: Same<S['rulesPage'], client.RulesPage>
    readonly problem: Same<S['problemView'], client.ProblemView>
    readonly diff: Same<S['ruleDiff'], client.RuleDiff>
    readonly applied: Same<S['appliedView'], client.AppliedView>
    readonly validated: Same<S['validatedView'], client.ValidatedView>
    readonly versions: Same<S['versionsPage'], client.VersionsPage>
    readonly overrides: Same<S['overridesPage'], client.OverridesPage>
    readonly override: Same<S['overrideView'], client.OverrideView>
    readonly overrideInput: Same<S['overrideInput'], client.OverrideInput>
    readonly candidate: Same<S['candidateInput'], client.CandidateInput>
    readonly keys: Same<S['keysPage'], client.KeysPage>
    readonly keyInput: Same<S['keyInput'], client.KeyInput>
    readonly keyPatch: Same<S['keyPatch'], client.KeyPatch>
    readonly token: Same<S['tokenView'], client.TokenView>
    readonly tokenInput: Same<S['tokenInput'], client.TokenInput>
    readonly nodes: Same<S['nodesView'], client.NodesView>
    readonly decision: Same<S['decisionView'], client.DecisionView>
    readonly inspected: Same<S['inspectView'], client.InspectView>
    readonly error: Same<S['errorView'], client.ErrorView>
    readonly stats: Same<S['statsView'], client.StatsView>
    readonly top: Same<S['topView'], client.TopView>
    readonly topOrder: Same<S['topOrder'], client.TopOrder>
    readonly alerts: Same<S['alertsView'], client.AlertsView>
    readonly event: Same<S['eventView'], client.EventView>
    readonly session: Same<S['sessionView'], client.SessionView>
    readonly simulateInput: Same<S['simulateInput'], client.SimulationInput>
    readonly trial: Same<S['simulateView'], client.SimulationView>
  } = {
    rule: true,
    rules: true,
    problem: true,
    diff: true,
    applied: true,
    validated: true,
    versions: true,
    overrides: true,
    override: true,
    overrideInput: true,
    candidate: true,
    keys: true,
    keyInput: true,
    keyPatch: true,
    token: true,
    tokenInput: true,
    nodes: true,
    decision: true,
    inspected: true,
    error: true,
    stats: true,
    top: true,
    topOrder: true,
    alerts: true,
    event: true,
    session: true,
    simulateInput: true,
    trial: true,
  }
  expect(Object.values(same).every(Boolean)).toBe(true)
})
