/** A program with a Redis store stays whole in a bundle: its Lua scripts are in modules. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { build, type BuildOptions } from 'esbuild'
import { build as buildByVite } from 'vite'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type RedisServer, startRedis } from '../../tools/redis/server.mjs'
import { makeFolder, stopAll } from '../process.test-helper.js'
import { installInto, packAll, run } from './packages.test-helper.js'

/** Decides three calls of a limit of two. A long deadline: the machine may be busy. */
const PROGRAM = `
import { createLimiter } from '@sluice/limiter'
import { redisStore } from '@sluice/limiter/redis'

async function main() {
  const store = redisStore({ url: process.argv[2], deadlineMs: 10_000 })
  const limiter = createLimiter({
    rules: '- { id: orders, by: [user], limits: [{ algorithm: sliding-window-log, max: 2, window: 1h }] }',
    store,
  })
  const decisions = []
  for (let call = 0; call < 3; call++) {
    decisions.push(await limiter.check({ attributes: { user: 'ann' } }))
  }
  await limiter.close()
  console.log(decisions.map(({ allowed, source }) => allowed + ' ' + source).join(', '))
}

void main()
`

let redis: RedisServer
let app: string

beforeAll(async () => {
  redis = await startRedis()
  const archives = await packAll('without scripts')
  const own = ['@sluice/core', '@sluice/limiter'].map((name) => archives.get(name) ?? '')
  // Of the three clients that are supported, most users install this one only.
  app = await installInto([...own, 'ioredis@6.0.0'])
  writeFileSync(join(app, 'main.mjs'), PROGRAM)
})
afterAll(async () => {
  await redis.stop()
  await stopAll()
})

/** Runs the bundle where no package is installed. */
async function expectDecisions(bundle: (outFolder: string) => Promise<string>): Promise<void> {
  const folder = makeFolder()
  mkdirSync(join(folder, 'out'))
  const file = await bundle(join(folder, 'out'))
  await redis.cli('FLUSHALL')
  const printed = await run(process.execPath, [file, redis.url], folder)
  expect(printed.trim()).toBe('true store, true store, false store')
  expect(await redis.cli('DBSIZE')).not.toBe('0')
}

async function byEsbuild(outfile: string, options: BuildOptions): Promise<string> {
  const entryPoints = [join(app, 'main.mjs')]
  const common = { bundle: true, platform: 'node', logLevel: 'silent' } as const
  await build({ entryPoints, outfile, ...common, ...options })
  return outfile
}

/** What esbuild documents for packages that call require inside of an ES module. */
const REQUIRE =
  "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);"

describe('a program with a Redis store decides in Redis', () => {
  test('bundled by esbuild as CommonJS', async () => {
    await expectDecisions((out) => byEsbuild(join(out, 'main.cjs'), { format: 'cjs' }))
  })

  test('bundled by esbuild as an ES module, minified', async () => {
    const options: BuildOptions = { format: 'esm', banner: { js: REQUIRE }, minify: true }
    await expectDecisions((out) => byEsbuild(join(out, 'main.mjs'), options))
  })

  test('bundled by Vite', async () => {
    await expectDecisions(async (outDir) => {
      await buildByVite({
        configFile: false,
        root: app,
        logLevel: 'error',
        ssr: { noExternal: true, target: 'node' },
        build: {
          ssr: 'main.mjs',
          outDir,
          target: 'node20',
          rollupOptions: { output: { entryFileNames: 'main.mjs' } },
        },
      })
      return join(outDir, 'main.mjs')
    })
  })
})
