import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
// @ts-expect-error: plain JavaScript, run by npm without a build
import * as layout from './layout.mjs'
// @ts-expect-error: plain JavaScript, run by npm without a build
import * as packages from './layout-packages.mjs'
import { sourceAliases, sourcePaths, sourcesConfig } from './source-paths.mjs'
// @ts-expect-error: plain JavaScript, run by npm without a build
import { textModules } from './write-text-modules.mjs'

/** Checks entry point `p` of a package of these files. */
function checkFiles(files: Readonly<Record<string, string>>): readonly string[] {
  const read = (path: string) => files[path] ?? ''
  const sources = new Map([
    ['p', 'a/index.ts'],
    ['q', 'b/index.ts'],
  ])
  const problems = packages.checkPortable(['p'], sources, read, layout.codeOf) as string[]
  return problems.map((problem) => problem.split(', which')[0] ?? '')
}

describe('the check of entry points that run without Node', () => {
  test.each([
    "import { hash } from 'node:crypto'",
    "import {\n  hash,\n  type Hash,\n} from 'node:crypto'",
    "import 'node:crypto'",
    "export * from 'node:crypto'",
    "export { hash } from 'node:crypto'",
    "const crypto = await import('node:crypto')",
  ])('finds a module of Node in %s', (line) => {
    expect(checkFiles({ 'a/index.ts': line })).toEqual(['p -> a/index.ts: imports node:crypto'])
  })

  test('finds a module of Node by its old name', () => {
    expect(checkFiles({ 'a/index.ts': "import fs from 'fs'" })).toHaveLength(1)
  })

  test('finds it in a file that is loaded by another file, in another package', () => {
    const problems = checkFiles({
      'a/index.ts': "export { x } from './deep/x.js'",
      'a/deep/x.ts': "import { y } from '../y.js'",
      'a/y.ts': "import { q } from 'q'\nimport './deep/x.js'",
      'b/index.ts': "import net from 'node:net'",
    })
    expect(problems).toEqual([
      'p -> a/index.ts -> a/deep/x.ts -> a/y.ts -> b/index.ts: imports node:net',
    ])
  })

  test.each(['Buffer.from(text)', 'process.env', "require('x')"])(
    'finds the global in %s',
    (use) => {
      expect(checkFiles({ 'a/index.ts': `const a = ${use}` })).toHaveLength(1)
    },
  )

  test.each([
    "import type { Socket } from 'node:net'",
    "export type { Socket } from 'node:net'",
    "import type { X } from './x.js'",
    '// Buffer.from and process.env are words here',
    'const isHere = stored.process',
    "import { parse } from 'yaml'",
  ])('allows %s', (line) => {
    const files = { 'a/index.ts': line, 'a/x.ts': "import net from 'node:net'" }
    expect(checkFiles(files)).toEqual([])
  })

  test('walks from the limiter to its memory store and to core', () => {
    const visited: string[] = []
    const read = (path: string) => {
      visited.push(path)
      return readFileSync(path, 'utf8')
    }
    const sources = new Map(sourcePaths())
    expect(packages.checkPortable(['@sluice/limiter'], sources, read, layout.codeOf)).toEqual([])
    expect(visited).toContain('packages/limiter/src/memory/memory-store.ts')
    expect(visited).toContain('packages/core/src/decision/plan.ts')
    expect(visited).not.toContain('packages/limiter/src/redis/redis-store.ts')
  })
})

describe('the check of exports', () => {
  test('finds a condition that points at a file that is not published', () => {
    const exports = {
      '.': { source: './src/index.ts', types: './dist/index.d.ts', default: './dist/index.js' },
      './text': { types: './dist/text.d.ts', default: './dist/text.js' },
    }
    expect(packages.checkExports('packages/x/package.json', { exports })).toEqual([
      'packages/x/package.json: exports["."]: found source, types, default; accepted: types, default',
    ])
  })
})

describe('the sources of the entry points', () => {
  test('are named for type checks by a file that is checked to be current', () => {
    const current = sourcesConfig()
    expect(packages.checkSourcesFile(current, current)).toEqual([])
    expect(packages.checkSourcesFile('{}', current)).toEqual([
      'tsconfig.sources.json: is not current; run npm run generate',
    ])
  })

  test('replace an entry point by its whole name only', () => {
    const matches = (name: string) =>
      sourceAliases().flatMap(({ find, replacement }) => (find.test(name) ? [replacement] : []))
    expect(matches('@sluice/core')).toEqual([
      expect.stringMatching(/packages\/core\/src\/index\.ts$/),
    ])
    expect(matches('@sluice/core/text')).toEqual([
      expect.stringMatching(/packages\/core\/src\/text\/index\.ts$/),
    ])
    expect(matches('@sluice/core/nothing')).toEqual([])
  })
})

describe('the modules of texts', () => {
  test('are those of the files from which they were written', () => {
    const modules = textModules() as ReadonlyMap<string, string>
    expect(modules.size).toBe(5)
    for (const [path, text] of modules) expect(readFileSync(path, 'utf8'), path).toBe(text)
  })
})
