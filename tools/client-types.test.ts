/** The published types of @sluice/client need neither zod nor @sluice/api. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

const read = (path: string) => readFileSync(fileURLToPath(new URL(path, import.meta.url)), 'utf8')
const dist = fileURLToPath(new URL('../packages/client/dist', import.meta.url))
const types = read('../packages/client/dist/api-types.d.ts')

describe('the built types of @sluice/client', () => {
  test('import nothing from another package', () => {
    const files = readdirSync(dist, { recursive: true, encoding: 'utf8' })
    const imports = files
      .filter((file) => file.endsWith('.d.ts'))
      .flatMap(
        (file) =>
          readFileSync(join(dist, file), 'utf8').match(/(?:from |import\()["'][^.][^"']*/g) ?? [],
      )
    expect(imports).toEqual([])
  })

  test('include every type of packages/api', () => {
    const folder = fileURLToPath(new URL('../packages/api/src', import.meta.url))
    // Nodes exchange snapshots with each other, and no client reads them.
    const internal = ['schema.ts', 'node-snapshots.ts']
    const sources = readdirSync(folder).filter((file) => !internal.includes(file))
    const names = sources.flatMap((file) =>
      [...readFileSync(join(folder, file), 'utf8').matchAll(/^export type (\w+) =/gm)].map(
        ([, name]) => name,
      ),
    )
    expect(names.length).toBeGreaterThan(50)
    const written = [...types.matchAll(/^export type (\w+) =/gm)].map(([, name]) => name)
    expect(names.filter((name) => !written.includes(name))).toEqual([])
  })

  test('mark what may be absent, and what may be null', () => {
    expect(types).toContain('  readonly shadowUntil?: string\n')
    expect(types).toContain('  readonly until?: string | undefined\n')
    expect(types).toContain('  readonly next: string | null\n')
    expect(types).toContain('  readonly p50Ms: readonly (number | null)[]\n')
  })
})
