/** Invalid rules get the same messages from every entry point, and change nothing. */
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { PROBLEMS, type ProblemCode } from '../packages/core/src/rules/diagnostics.js'
import { type Operator, operatorOf, runCommand } from './operator.test-helper.js'
import { makeFolder, stopAll } from './process.test-helper.js'
import { type RunningServer, start } from './serve.test-helper.js'

const FIXTURES = fileURLToPath(new URL('../conformance/rules', import.meta.url))
const MANY = fileURLToPath(new URL('./rules-fixtures.fixture.mjs', import.meta.url))

const names = readdirSync(FIXTURES)
  .filter((name) => name.endsWith('.yaml'))
  .map((name) => name.slice(0, -'.yaml'.length))
const read = (name: string) => readFileSync(join(FIXTURES, name), 'utf8')
/** A file is named after the problem code that it is about. */
const isWarning = (name: string) => PROBLEMS[name as ProblemCode].severity === 'warning'

/** A server knows which attributes its callers may set: those of three fixtures. */
const CONFIG =
  'identity: { headers: { tokens: x-tokens, x-weight: x-weight, email: x-email, tenant: x-tenant } }\n'

let server: RunningServer
let operator: Operator
/** A copy, so that any write to it would be noticed. */
let folder: string

beforeAll(async () => {
  const served = makeFolder()
  writeFileSync(join(served, 'sluice.yaml'), CONFIG)
  server = await start({}, served)
  operator = operatorOf(server)
  folder = makeFolder()
  cpSync(FIXTURES, folder, { recursive: true })
  writeFileSync(join(folder, 'sluice.yaml'), CONFIG)
})
afterAll(stopAll)

/** The result of one entry point for one fixture. */
interface FixtureResult {
  /** The exit code, or the HTTP status. */
  readonly code: number
  readonly out?: string
  /** One message per line. */
  readonly text: string
}

interface Line {
  readonly args: readonly string[]
  readonly env?: Readonly<Record<string, string>>
}

/** The results of the command for every fixture. */
async function runCommandOnAll(
  lineOf: (name: string) => Line,
): Promise<Record<string, FixtureResult>> {
  const lines = JSON.stringify(names.map(lineOf))
  const { out, err } = await runCommand(process.execPath, [MANY, lines], { cwd: folder })
  const outs = out.split('\0')
  const texts = err.replaceAll(`${folder}/`, '').split('\0')
  return Object.fromEntries(
    names.map((name, i) => [
      name,
      { code: Number(outs[2 * i + 1]), out: outs[2 * i] ?? '', text: texts[i] ?? '' },
    ]),
  )
}

/** The results of the admin API for every fixture. */
async function requestForAll(
  path: string,
  method: string,
  isStrict: boolean,
): Promise<Record<string, FixtureResult>> {
  const all: Record<string, FixtureResult> = {}
  for (const name of names) {
    const strict = isStrict ? strictly(name, '&strict=true').join('') : ''
    const { status, json } = await operator.curl(`${path}?file=${name}.yaml${strict}`, {
      method,
      body: read(`${name}.yaml`),
      type: 'application/yaml',
    })
    const { errors = [], warnings = [] } = json as Listed
    const text = [...errors, ...warnings].map(({ message }) => `${message}\n`).join('')
    all[name] = { code: status, text }
  }
  return all
}

interface Listed {
  readonly errors?: readonly { readonly message: string }[]
  readonly warnings?: readonly { readonly message: string }[]
}

function expected(
  resultOf: (name: string) => Omit<FixtureResult, 'text'>,
): Record<string, FixtureResult> {
  return Object.fromEntries(
    names.map((name) => [name, { ...resultOf(name), text: read(`${name}.txt`) }]),
  )
}

const strictly = (name: string, strict: string) => (isWarning(name) ? [strict] : [])

/** Everything that an invalid set might have changed. */
async function present(): Promise<readonly string[]> {
  const paths = ['/rules?limit=1000', '/versions?limit=1000', '/export']
  return Promise.all(paths.map(async (path) => (await operator.curl(path)).body))
}

describe('every invalid rule set gets the messages on file', () => {
  test('as a rules file, and a warning does not keep a server from starting', async () => {
    const before = readdirSync(folder)
    const checked = await runCommandOnAll((name) => ({
      args: ['serve', '--check'],
      env: { SLUICE_RULES: `${name}.yaml` },
    }))
    const good = { code: 0, out: 'Configuration and rules are valid.\n' }
    expect(checked).toEqual(expected((name) => (isWarning(name) ? good : { code: 2, out: '' })))
    expect(readdirSync(folder)).toEqual(before)
  })

  test('from `sluice rules validate`', async () => {
    const validated = await runCommandOnAll((name) => ({
      args: ['rules', 'validate', '-f', `${name}.yaml`, ...strictly(name, '--strict')],
    }))
    expect(validated).toEqual(expected(() => ({ code: 1, out: '' })))
  })

  test('from `sluice rules apply`', async () => {
    const before = await present()
    const env = { SLUICE_ADMIN_URL: server.admin, SLUICE_ADMIN_TOKEN: operator.token }
    const applied = await runCommandOnAll((name) => ({
      args: ['rules', 'apply', '--yes', '-f', `${name}.yaml`, ...strictly(name, '--strict')],
      env,
    }))
    expect(applied).toEqual(expected(() => ({ code: 1, out: '' })))
    expect(await present()).toEqual(before)
  })

  test('from the admin API when validated', async () => {
    const before = await present()
    expect(await requestForAll('/validate', 'POST', false)).toEqual(expected(() => ({ code: 200 })))
    expect(await present()).toEqual(before)
  })

  test('from the admin API when put', async () => {
    const before = await present()
    expect(await requestForAll('/rules', 'PUT', true)).toEqual(expected(() => ({ code: 400 })))
    expect(await present()).toEqual(before)
  })
})
