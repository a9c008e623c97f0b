/** What each package publishes: its files, its manifest, and what package linters say. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { stopAll } from '../process.test-helper.js'
import { binaryOf, FOLDERS, manifestOf, packAll, ROOT, run } from './packages.test-helper.js'

/** The files that are not the output of one source file in `src`. */
const OTHERS: Readonly<Record<string, readonly string[]>> = {
  'packages/cli': ['bin/sluice.mjs'],
  'packages/dashboard': ['dist/files.js', 'files.d.ts'],
}
const ALWAYS = ['LICENSE', 'README.md', 'package.json']

/** Three files for each source: the program, its types, and the map with the source. */
function builtFiles(folder: string): readonly string[] {
  if (folder === 'packages/dashboard') return []
  return readdirSync(join(ROOT, folder, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !/\.test(-helper)?\.ts$/.test(file))
    .map((file) => file.slice(0, -'.ts'.length))
    .flatMap((name) => ['.d.ts', '.js', '.js.map'].map((ending) => `dist/${name}${ending}`))
}

let archives: ReadonlyMap<string, string>
const archiveOf = (folder: string) => archives.get(manifestOf(folder).name) ?? ''

beforeAll(async () => {
  archives = await packAll('with scripts')
})
afterAll(stopAll)

describe.each(FOLDERS)('the archive of %s', (folder) => {
  test('has the outputs of its sources, and nothing that is not listed', async () => {
    const listed = await run('tar', ['tzf', archiveOf(folder)], ROOT)
    const files = listed.trim().split('\n')
    const expected = [...builtFiles(folder), ...(OTHERS[folder] ?? []), ...ALWAYS]
    expect(files.toSorted()).toEqual(expected.map((file) => `package/${file}`).toSorted())
  })

  test('is listed by npm pack as it was packed', async () => {
    const flags = ['--dry-run', '--json', '--ignore-scripts']
    const printed: unknown = JSON.parse(await run('npm', ['pack', ...flags], join(ROOT, folder)))
    const [packed] = Object.values(printed as object) as [{ readonly entryCount: number }]
    const listed = await run('tar', ['tzf', archiveOf(folder)], ROOT)
    expect(packed.entryCount).toBe(listed.trim().split('\n').length)
  })

  test('passes publint', async () => {
    const printed = await run(binaryOf('publint'), ['run', archiveOf(folder), '--strict'], ROOT)
    expect(printed).toContain('All good!')
  })

  test('has types that resolve, by arethetypeswrong', async () => {
    const flags = ['--profile', 'esm-only', '--format', 'ascii', '--no-emoji']
    const printed = await run(binaryOf('attw'), [archiveOf(folder), ...flags], ROOT)
    for (const entry of Object.keys(manifestOf(folder).exports)) {
      expect(printed).toContain(`"${manifestOf(folder).name}${entry.slice(1)}"`)
    }
  })

  test('has a manifest with all that the registry shows', () => {
    const { description, license, keywords, publishConfig, ...rest } = manifestOf(folder)
    expect({ license, publishConfig }).toEqual({
      license: 'Apache-2.0',
      publishConfig: { access: 'public' },
    })
    expect(description).toMatch(/\.$/)
    expect(keywords?.length).toBeGreaterThan(2)
    // There is no public address yet.
    expect(rest.repository).toBeUndefined()
  })

  test('needs no framework that its user has not chosen', () => {
    const { peerDependencies = {}, peerDependenciesMeta = {} } = manifestOf(folder)
    const required = Object.keys(peerDependencies).filter(
      (name) => peerDependenciesMeta[name]?.optional !== true,
    )
    expect(required).toEqual([])
  })
})
