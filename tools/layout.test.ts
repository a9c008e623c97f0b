import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
// @ts-expect-error: plain JavaScript, run by npm without a build
import * as layout from './layout.mjs'

const { checkFunctionsOf, checkImports, checkPurity, checkSize, checkTables, checkWords } = {
  checkFunctionsOf: (text: string): string[] => layout.checkSize('packages/core/src/x.ts', text),
  ...layout,
}

describe('the layout check fails on', () => {
  test.each([
    ['core', "import { readFile } from 'node:fs'"],
    ['core', "import { parse } from 'yaml'"],
    ['core', "import { createLimiter } from '@sluice/limiter'"],
    ['limiter', "import { serve } from '@sluice/server'"],
    ['limiter', "import { parse } from 'yaml'"],
    ['limiter', "const dns = await import('node:dns')"],
    ['core', "import { systemClock } from '../../limiter/src/clock.js'"],
    ['dashboard', "import { parseRules } from '@sluice/core'"],
    ['dashboard', "import fs from 'node:fs'"],
  ])('an import against the arrows: %s: %s', (home, line) => {
    expect(checkImports(`packages/${home}/src/x.ts`, line)).toHaveLength(1)
  })

  test.each([
    'const now = Date.now()',
    'const now = performance.now()',
    'const draw = Math.random()',
    'const home = process.env.HOME',
    'setTimeout(go, 1)',
    'async function go() {}',
  ])('an impurity in core: %s', (line) => {
    expect(checkPurity('packages/core/src/x.ts', line).length).toBeGreaterThan(0)
  })

  test('a clock read outside clock.ts', () => {
    for (const line of ['const now = Date.now()', 'const now = new Date().getTime()']) {
      expect(checkPurity('packages/limiter/src/limiter.ts', line)).toHaveLength(1)
      expect(checkPurity('packages/limiter/src/clock.ts', line)).toEqual([])
    }
  })

  test('a clock read by a component of the page', () => {
    expect(checkPurity('packages/dashboard/src/shell.tsx', 'const now = Date.now()')).toHaveLength(
      1,
    )
    expect(checkPurity('packages/dashboard/src/clock.ts', 'const now = Date.now()')).toEqual([])
  })

  test('a file, a comment line or a function that has grown too long', () => {
    expect(checkSize('packages/core/src/x.ts', 'x\n'.repeat(601))).toHaveLength(1)
    expect(checkSize('packages/core/src/x.ts', `// ${'x'.repeat(101)}`)).toHaveLength(1)
    const long = `function long() {\n${'  x()\n'.repeat(70)}}\n`
    expect(checkFunctionsOf(long)).toHaveLength(1)
  })

  test('an algorithm without its truth table', () => {
    const source = "algorithms = {\n  'token-bucket': tokenBucket,\n  'new-one': newOne,\n}"
    const exists = (path: string) => path === 'conformance/token-bucket.json'
    expect(checkTables(source, exists)).toEqual([
      'new-one has no truth table; write conformance/new-one.json',
    ])
  })

  test('an unfinished word', () => {
    expect(checkWords('packages/core/src/x.ts', `// ${'TO'}${'DO'} later`)).toHaveLength(1)
  })
})

describe('the layout check accepts', () => {
  test('comments and texts that name a clock', () => {
    const text = "/** Date.now is not read here. */\nconst what = 'Date.now()'\n"
    expect(checkPurity('packages/core/src/x.ts', text)).toEqual([])
  })

  test('imports along the arrows', () => {
    expect(
      checkImports('packages/limiter/src/x.ts', "import { type Call } from '@sluice/core'"),
    ).toEqual([])
    expect(checkImports('packages/core/src/x.ts', "import { gcd } from './numbers.js'")).toEqual([])
  })
})

describe('the files of the tree', () => {
  let folder = ''
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'sluice-layout-'))
  })
  afterEach(() => rmSync(folder, { recursive: true }))

  test.each(['git', 'no-such-git'])('are found even if the git command is %s', (git) => {
    const own = ['a.ts', 'packages/core/src/b.ts', 'tools/c.mjs']
    const others = ['node_modules/d.ts', 'packages/core/dist/e.ts', '.git/f.ts', '.sluice/g.ts']
    for (const file of [...own, ...others]) {
      mkdirSync(dirname(join(folder, file)), { recursive: true })
      writeFileSync(join(folder, file), '')
    }
    const files: string[] = layout.listFiles(folder, git)
    expect(files.toSorted()).toEqual(own)
  })
})
