import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config'
import { sourceAliases } from './tools/source-paths.mjs'
import { findThorough, findTiers, type Tier } from './tools/test-tiers.mjs'

const tiers = findTiers(import.meta.dirname)

/** Tiers run one after the other, so that the long one does not disturb the others. */
const ORDER: readonly Tier[] = ['unit', 'services', 'e2e', 'full', 'downloads']

/**
 * For two cores. Some unit tests wait for sockets and timers. End-to-end tests mostly wait for
 * programs that they started, so more of them fit.
 */
const WORKERS: Readonly<Record<Tier, number>> = {
  unit: 4,
  services: 3,
  e2e: 4,
  full: 4,
  downloads: 2,
}

/** A test that takes as long hangs. No test is about its own speed, and a machine may be busy. */
const HANG_MS = 180_000

/**
 * The part of its generated cases that a test runs in its tier; the full tier runs it again with
 * all of them. A number from outside, as of `npm run test:long`, is for every tier: one run is
 * enough then.
 */
const RUNS: Readonly<Record<Tier, string>> = {
  unit: '0.1',
  services: '0.3',
  e2e: '0.3',
  full: '1',
  downloads: '1',
}
const givenRuns = process.env['SLUICE_RUNS']
const again = givenRuns === undefined ? findThorough(import.meta.dirname, tiers) : []

function projectOf(name: Tier): TestProjectInlineConfiguration {
  const isEndToEnd = name === 'e2e' || name === 'full'
  return {
    resolve: { alias: sourceAliases() },
    test: {
      name,
      include: name === 'full' ? [...tiers.full, ...again] : tiers[name],
      globalSetup: name === 'unit' ? [] : ['tools/services.setup.ts'],
      maxWorkers: WORKERS[name],
      // Most unit tests take less time than their imports, which files of one process share.
      isolate: name !== 'unit',
      // Not called SLUICE_RUNS: servers that tests start would warn of a variable they do not know.
      env: { TIER_RUNS: RUNS[name] },
      sequence: { groupOrder: ORDER.indexOf(name) },
      // A test that passes only when repeated is listed at the end: see tools/flaky-reporter.mjs.
      retry: isEndToEnd && process.env['CI'] ? 1 : 0,
      testTimeout: HANG_MS,
      hookTimeout: HANG_MS,
    },
  }
}

export default defineConfig({
  test: {
    globalSetup: ['tools/build.setup.ts'],
    reporters: ['default', './tools/flaky-reporter.mjs'],
    projects: ORDER.map(projectOf),
  },
})
