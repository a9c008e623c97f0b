import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
// @ts-expect-error: plain JavaScript, run by npm without a build
import { missingFiles, staleFiles } from './prepack.mjs'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-prepack-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

function write(...files: readonly string[]): void {
  for (const file of files) {
    mkdirSync(dirname(join(folder, file)), { recursive: true })
    writeFileSync(join(folder, file), '')
  }
}

describe('before a package is packed', () => {
  test('files of dist that no source makes are found', () => {
    write('src/index.ts', 'src/deep/a.ts', 'src/b.test.ts', 'src/c.test-helper.ts')
    write('dist/index.js', 'dist/index.js.map', 'dist/index.d.ts', 'dist/.tsbuildinfo')
    write('dist/deep/a.js', 'dist/deep/removed.js', 'dist/b.test.js', 'dist/c.test-helper.d.ts')
    write('dist/index.d.ts.map')
    const names = (staleFiles(folder) as string[]).map((file) => file.slice(folder.length + 1))
    expect(names.toSorted()).toEqual([
      'dist/b.test.js',
      'dist/c.test-helper.d.ts',
      'dist/deep/removed.js',
      'dist/index.d.ts.map',
    ])
  })

  test('files that the manifest names must exist, and README and LICENSE too', () => {
    const manifest = {
      bin: { x: 'bin/x.mjs' },
      exports: { '.': { types: './dist/index.d.ts', default: './dist/index.js' } },
    }
    write('dist/index.js', 'LICENSE')
    writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest))
    expect(missingFiles(folder)).toEqual(['./dist/index.d.ts', 'bin/x.mjs', 'README.md'])
  })
})
