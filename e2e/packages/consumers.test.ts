/** Programs that use the packages as npm installs them, on every supported version of Node. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeFolder, type Program, startProgram, stopAll, waitFor } from '../process.test-helper.js'
import {
  binaryOf,
  ENTRY_POINTS,
  installInto,
  installNodes,
  NODE_MAJORS,
  packAll,
  peerSpecs,
  run,
} from './packages.test-helper.js'

/** Three versions of Node and two folders of packages may have to be downloaded. */
const INSTALL_MS_MAX = 900_000

/** Has every package, and every framework and client that is optional. */
let app: string
/** Has the library alone. */
let bare: string
const nodes = new Map<string, string>()
const nodeOf = (major: string) => nodes.get(major) ?? ''

beforeAll(async () => {
  const archives = await packAll('without scripts')
  for (const { major, path } of await installNodes()) nodes.set(major, path)
  app = await installInto([...archives.values(), ...peerSpecs()])
  const library = ['@sluice/core', '@sluice/limiter'].map((name) => archives.get(name) ?? '')
  bare = await installInto(library)
}, INSTALL_MS_MAX)
afterAll(stopAll)

/** Prints a name only if the module has exports. */
const LIST = 'if (Object.keys(module).length > 0) console.log(name)'

const DECIDE = `
const limiter = createLimiter({
  rules: [{ id: 'orders', by: ['user'], limits: ['1/hour'] }],
  clock: { now: () => 1_800_000_000_000_000 },
})
const call = { attributes: { user: 'ann' } }
Promise.all([limiter.check(call), limiter.check(call)]).then((decisions) => {
  console.log(decisions.map(({ allowed }) => allowed).join())
  return limiter.close()
})
`

describe.each(NODE_MAJORS)('on Node %s', (major) => {
  test('an ES module imports every entry point', async () => {
    writeFileSync(
      join(app, 'all.mjs'),
      `for (const name of ${JSON.stringify(ENTRY_POINTS)}) { const module = await import(name); ${LIST} }`,
    )
    const printed = await run(nodeOf(major), ['all.mjs'], app)
    expect(printed.trim().split('\n')).toEqual(ENTRY_POINTS)
  })

  test('a CommonJS program requires every entry point', async () => {
    writeFileSync(
      join(app, 'all.cjs'),
      `for (const name of ${JSON.stringify(ENTRY_POINTS)}) { const module = require(name); ${LIST} }`,
    )
    const printed = await run(nodeOf(major), ['all.cjs'], app)
    expect(printed.trim().split('\n')).toEqual(ENTRY_POINTS)
  })

  test('the library alone decides calls, imported and required', async () => {
    writeFileSync(
      join(bare, 'main.mjs'),
      `import { createLimiter } from '@sluice/limiter'${DECIDE}`,
    )
    writeFileSync(
      join(bare, 'main.cjs'),
      `const { createLimiter } = require('@sluice/limiter')${DECIDE}`,
    )
    for (const file of ['main.mjs', 'main.cjs']) {
      expect((await run(nodeOf(major), [file], bare)).trim(), file).toBe('true,false')
    }
  })

  test('a strict TypeScript program compiles to one that runs, as ES module and CommonJS', async () => {
    const folder = join(app, `typed-${major}`)
    mkdirSync(folder)
    writeFileSync(join(folder, 'main.mts'), TYPED)
    writeFileSync(join(folder, 'main.cts'), TYPED)
    writeConfig(folder, ['main.mts', 'main.cts'], ['node'])
    expect(await compile(folder)).toEqual([])
    for (const file of ['out/main.mjs', 'out/main.cjs']) {
      expect((await run(nodeOf(major), [file], folder)).trim(), file).toBe('true 0')
    }
  })

  test('sluice serve in an empty folder serves the example and ends on SIGTERM', async () => {
    const command = join(app, 'node_modules/@sluice/cli/bin/sluice.mjs')
    await expectServing((folder) =>
      startProgram(nodeOf(major), [command, 'serve', '--json'], { cwd: folder, env: FREE_PORTS }),
    )
  })
})

const TYPED = `
import { createLimiter, type Decision, type Limiter } from '@sluice/limiter'
import { AdminError } from '@sluice/client'

const limiter: Limiter = createLimiter({
  rules: [{ id: 'orders', by: ['user'], limits: ['1/hour'] }],
})
// @ts-expect-error: attributes are strings, so types are really there and not any
void (() => limiter.check({ attributes: { user: {} } }))
void limiter.check({ attributes: { user: 'ann' } }).then((decision: Decision) => {
  console.log(decision.allowed, decision.remaining)
  return limiter.close()
})
export const isError = (error: unknown): error is AdminError => error instanceof AdminError
`

function writeConfig(folder: string, files: readonly string[], types: readonly string[]): void {
  const compilerOptions = {
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: false,
    module: 'NodeNext',
    target: 'ES2022',
    // The console of a program without Node's types.
    lib: types.length === 0 ? ['ES2023', 'DOM'] : ['ES2023'],
    types,
    outDir: 'out',
  }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }))
}

/** The errors in the program and in types of Sluice; those in types of others are not ours. */
async function compile(folder: string): Promise<readonly string[]> {
  const printed = await run(binaryOf('tsc'), ['-p', '.', '--pretty', 'false'], folder).catch(
    (error: unknown) => String(error),
  )
  const errors = printed.split('\n').filter((line) => line.includes('error TS'))
  return errors.filter((line) => line.includes('@sluice/') || !line.includes('node_modules/'))
}

describe('types in strict mode', () => {
  test.each(ENTRY_POINTS)('of %s compile', async (name) => {
    const folder = join(app, `types-${ENTRY_POINTS.indexOf(name)}`)
    mkdirSync(folder)
    writeFileSync(join(folder, 'main.ts'), `export * as entry from '${name}'`)
    writeConfig(folder, ['main.ts'], ['node'])
    expect(await compile(folder)).toEqual([])
  })

  test('of the library alone need no types of Node', async () => {
    writeFileSync(join(bare, 'main.ts'), "export * as entry from '@sluice/limiter'")
    writeConfig(bare, ['main.ts'], [])
    expect(await compile(bare)).toEqual([])
  })

  test('are refused by this check if they are wrong', async () => {
    writeFileSync(join(bare, 'wrong.ts'), "export * as entry from '@sluice/limiter/nothing'")
    writeConfig(bare, ['wrong.ts'], [])
    expect(await compile(bare)).toEqual([expect.stringContaining('TS2307')])
  })
})

const FREE_PORTS = {
  SLUICE_GATEWAY_LISTEN: '127.0.0.1:0',
  SLUICE_API_LISTEN: '127.0.0.1:0',
  SLUICE_GRPC_LISTEN: '127.0.0.1:0',
  SLUICE_ADMIN_LISTEN: '127.0.0.1:0',
}
const ADDRESSES = /^\{"gateway".*\}$/m

async function expectServing(startIn: (folder: string) => Program): Promise<void> {
  const program = startIn(makeFolder())
  await waitFor(program, () => ADDRESSES.test(program.output()))
  const addresses: unknown = JSON.parse(ADDRESSES.exec(program.output())?.[0] ?? '')
  const { gateway, admin } = addresses as { readonly gateway: string; readonly admin: string }
  const answer = await fetch(`${gateway}/v1/orders`, {
    headers: { 'x-api-key': 'demo-key-of-ann-free' },
  })
  expect(answer.status).toBe(200)
  expect(answer.headers.get('ratelimit')).toContain('r=')
  expect(await (await fetch(admin)).text()).toContain('<title>Sluice</title>')
  program.signal('SIGTERM')
  expect(await program.code(), program.output()).toBe(0)
}

describe('the command', () => {
  test('is sluice by npx', async () => {
    const version = await run('npx', ['--no-install', 'sluice', '--version'], app)
    expect(version.trim()).toMatch(/^\d+\.\d+\.\d+$/)
  })

  test('serves where it is installed and ends on SIGTERM', async () => {
    const command = join(app, 'node_modules/.bin/sluice')
    await expectServing(() =>
      startProgram(command, ['serve', '--json'], { cwd: app, env: FREE_PORTS }),
    )
  })

  test('serves by npx, and ends as after SIGTERM when npx gets one', async () => {
    const args = ['--no-install', 'sluice', 'serve', '--json']
    const npx = startProgram('npx', args, { cwd: app, env: FREE_PORTS })
    await waitFor(npx, () => ADDRESSES.test(npx.output()))
    npx.signal('SIGTERM')
    // The server has the output open for longer than npx, so that this waits for its end.
    await npx.code()
    expect(npx.output()).toContain('"signal":"SIGTERM","msg":"stopping"')
    expect(npx.output()).toContain('"msg":"stopped"')
  })
})
