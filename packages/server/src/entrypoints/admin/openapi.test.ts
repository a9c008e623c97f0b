/** The OpenAPI document describes what is served, and passes a linter. */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, describe, expect, test } from 'vitest'
import { closeAfterTests, startAdmin } from './admin.test-helper.js'

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

describe('the OpenAPI linter', () => {
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

describe('the OpenAPI document', () => {
  test('is version 3.1 and has the release', () => {
    expect(document.openapi).toBe('3.1.0')
    expect(document.info.version).toBe(admin.release)
    expect(document.security).toEqual([{ token: [] }, { session: [] }])
  })

  test('has every route that is served, and no other', () => {
    const served = admin.routes().map(({ method, path }) => `${method} ${path}`)
    const operations = documented.map(({ path, method }) => `${method.toUpperCase()} ${path}`)
    expect(operations.toSorted()).toEqual(served.toSorted())
  })

  test('has a unique id for each operation', () => {
    const ids = documented.map(({ operation }) => operation.operationId)
    expect(new Set(ids).size).toBe(ids.length)
  })

  test('lets only the login go without credentials', () => {
    const open = documented.filter(({ operation }) => operation.security?.length === 0)
    expect(open.map(({ method, path }) => `${method} ${path}`)).toEqual(['post /admin/v1/session'])
  })

  test.each(documented)('describes what $method $path needs and may return', ({ operation }) => {
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
