import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { findThorough, findTiers, FULL, tierOf } from './test-tiers.mjs'

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

  test('in the list of long tests exists', () => {
    expect(tiers.full.toSorted()).toEqual(FULL.toSorted())
  })
})

describe('the tier of a test file', () => {
  const never = () => false
  const always = () => true

  test('is e2e or full by its folder', () => {
    expect(tierOf('e2e/serve.test.ts', always)).toBe('e2e')
    expect(tierOf(String(FULL[0]), always)).toBe('full')
  })

  test('is services if it imports them', () => {
    expect(tierOf('packages/limiter/src/a.test.ts', always)).toBe('services')
    expect(tierOf('packages/limiter/src/a.test.ts', never)).toBe('unit')
    expect(tiers.services).toContain('tools/redis/server.test.ts')
  })

  test('is services if one of its helpers imports them', () => {
    expect(tiers.services).toContain(
      'packages/server/src/entrypoints/http/http-listener-tls.test.ts',
    )
  })
})

test('a test that runs a part of its cases in its tier runs all of them in the full tier', () => {
  const thorough = findThorough(root, tiers)
  expect(thorough).toContain('packages/core/src/algorithms/properties.test.ts')
  expect(thorough).toContain('simulation/simulation.test.ts')
  expect(thorough).not.toContain('packages/core/src/algorithms/conformance.test.ts')
})
