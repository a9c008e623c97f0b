import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { findTiers, FULL, tierOf } from './test-tiers.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const tiers = findTiers(root)

describe('every test file', () => {
  test('is in exactly one tier', () => {
    const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard', '*.test.ts'], {
      cwd: root,
      encoding: 'utf8',
    })
    const files = listed.split('\n').filter((path) => path !== '')
    const inTiers = Object.values(tiers).flat()
    expect(files.length).toBeGreaterThan(0)
    expect(inTiers.toSorted()).toEqual(files.toSorted())
  })

  test('of the list of long tests is there', () => {
    expect(tiers.full.toSorted()).toEqual(FULL.toSorted())
  })
})

describe('a test file is', () => {
  const never = () => false
  const always = () => true

  test('end to end by its folder', () => {
    expect(tierOf('e2e/serve.test.ts', always)).toBe('e2e')
    expect(tierOf(String(FULL[0]), always)).toBe('full')
  })

  test('one with services by what it imports', () => {
    expect(tierOf('packages/limiter/src/a.test.ts', always)).toBe('services')
    expect(tierOf('packages/limiter/src/a.test.ts', never)).toBe('unit')
    expect(tiers.services).toContain('tools/redis/server.test.ts')
  })

  test('one with services where a helper of it imports them', () => {
    expect(tiers.services).toContain(
      'packages/server/src/entrypoints/http/http-listener-tls.test.ts',
    )
  })
})
