/** The entry points that run without Node: bundled for no platform, run with web globals only. */
import { createContext, runInContext } from 'node:vm'
import { build } from 'esbuild'
import { describe, expect, test } from 'vitest'
import { ALGORITHM_NAMES } from '@sluice/core'
// @ts-expect-error: plain JavaScript, run by npm without a build
import { PORTABLE_ENTRY_POINTS } from '../../tools/layout-packages.mjs'
import { ENTRY_POINTS, ROOT } from './packages.test-helper.js'

/** A module of Node cannot be resolved for a neutral platform, which fails the build. */
async function bundle(program: string): Promise<string> {
  const { outputFiles } = await build({
    stdin: { contents: program, resolveDir: ROOT },
    bundle: true,
    platform: 'neutral',
    mainFields: ['module', 'main'],
    format: 'iife',
    globalName: 'exported',
    write: false,
    logLevel: 'silent',
  })
  return outputFiles[0]?.text ?? ''
}

/** What a Fetch runtime has. Its timers are numbers. */
function webGlobals(): object {
  return {
    AbortController,
    AbortSignal,
    clearTimeout,
    console,
    crypto,
    fetch,
    Headers,
    performance,
    queueMicrotask,
    Request,
    Response,
    setTimeout: (run: () => void, ms: number) => Number(setTimeout(run, ms)),
    structuredClone,
    TextDecoder,
    TextEncoder,
    URL,
    URLSearchParams,
  }
}

/** Runs a bundle; returns what its program exports. */
function runOnWeb(bundled: string): Readonly<Record<string, unknown>> {
  const context = createContext(webGlobals())
  runInContext(bundled, context)
  return runInContext('exported', context) as Record<string, unknown>
}

describe('a runtime that has no modules of Node', () => {
  test('is one in which a program that needs Node does not run', async () => {
    await expect(bundle("import 'node:crypto'")).rejects.toThrow('Could not resolve "node:crypto"')
    expect(() => runOnWeb('var exported = { a: process.pid }')).toThrow('process is not defined')
  })

  const portable = (PORTABLE_ENTRY_POINTS as readonly string[]).filter((name) =>
    ENTRY_POINTS.includes(name),
  )
  test.each(portable)('loads %s', async (name) => {
    const exported = runOnWeb(await bundle(`export * from '${name}'`))
    expect(Object.keys(exported).length).toBeGreaterThan(0)
  })

  test('decides calls by every algorithm with a limiter in memory, and refunds them', async () => {
    const { decide } = runOnWeb(await bundle(PROGRAM))
    // A refund gives back no call in flight.
    const names = ALGORITHM_NAMES.filter((name) => name !== 'concurrency')
    for (const algorithm of names) {
      const results = await (decide as (name: string) => Promise<readonly boolean[]>)(algorithm)
      // Two pass, the third does not; one refund lets one more pass.
      expect([...results], algorithm).toEqual([true, true, false, true])
    }
  })
})

/** A limiter for a user's program, of a limit of two calls in an hour that stands still. */
const PROGRAM = `
  import { createLimiter } from '@sluice/limiter'
  const extras = { gcra: 'burst: 2, ', 'leaky-bucket': 'queue: 1, ' }
  export async function decide(algorithm) {
    const limit = '{ algorithm: ' + algorithm + ', ' + (extras[algorithm] ?? '') + 'max: 2, window: 1h }'
    const limiter = createLimiter({
      rules: '- { id: orders, by: [user], limits: [' + limit + '] }',
      clock: { now: () => 1_800_000_000_000_000 },
    })
    const call = { attributes: { user: 'ann' } }
    const decisions = [await limiter.check(call)]
    const last = await limiter.check(call, { receipt: true })
    decisions.push(last, await limiter.check(call))
    await limiter.refund(last.receipt)
    decisions.push(await limiter.check(call))
    await limiter.close()
    return decisions.map(({ allowed }) => allowed)
  }
`
