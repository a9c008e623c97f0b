/** Several nodes share one limit: how much the fleet admits beyond what the rule allows. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import {
  allowedOf,
  activeMs,
  burstNeeded,
  mostOffered,
  nextStart,
  oldestLease,
  sourcesOf,
  windowsOf,
  rowsWithin,
} from './admissions.test-helper.js'
import { expectStoreDecided, expectConserved, shareFleets } from './share-fleets.test-helper.js'
import { type Row, ruleOf } from './fleet-node.test-helper.js'

const WINDOW_MS = 1000
const MAX = 200
/** Large enough for leases of several units on each of five nodes. */
const MAX_STRANDED = 0.2
const SYNC_EVERY_MS = 100
/**
 * How long a node may take beyond `syncEvery` to receive the counts of others, or as long as one
 * stalls.
 */
const DELAY_MS = 150
/** The default bound for the error of a node's estimate of the store's clock. */
const CLOCK_TOLERANCE_MS = 100
/** A lease lasts a quarter of its window. */
const LEASE_MS = WINDOW_MS / 4

const leased = { coordination: 'leased', maxStranded: MAX_STRANDED, posture: 'closed' }
const local = { coordination: 'local', syncEvery: `${SYNC_EVERY_MS}ms`, posture: 'closed' }
const fixed = { algorithm: 'fixed-window', max: MAX, window: `${WINDOW_MS}ms` }
const sliding = { ...fixed, algorithm: 'sliding-window-counter' }
const bucket = { ...fixed, algorithm: 'token-bucket' }

const RULES = [
  ruleOf('leased-fixed', fixed, leased),
  ruleOf('leased-bucket', bucket, leased),
  ruleOf('local-fixed', fixed, local),
  ruleOf('local-sliding', sliding, local),
  ruleOf('local-bucket', bucket, local),
]
const IDS = ['leased-fixed', 'leased-bucket', 'local-fixed', 'local-sliding', 'local-bucket']

const fleets = shareFleets()

describe.each([2, 5])('%i nodes with twice the limit in calls', (size) => {
  const OFFERED = 2 * MAX
  const SECONDS = 3
  /** The most that all nodes together hold. */
  const HELD_MAX = Math.floor((MAX_STRANDED * MAX) / size) * size
  /** The excess until every node has received the counts of the others. */
  const extraOf = (rows: readonly Row[], stallMs: number) =>
    Math.min((size - 1) * MAX, mostOffered(rows, SYNC_EVERY_MS + Math.max(DELAY_MS, stallMs)))

  test('stay within the bound of each coordination mode', async () => {
    const { nodes, rows, stallMs: stall } = await fleets.start({ size, rules: RULES })
    await sleep(nextStart(WINDOW_MS) - Date.now())
    const pace = { rules: IDS, perSecond: OFFERED / size, ms: SECONDS * 1000 }
    await Promise.all(nodes.map((node) => node.pace(pace)))
    const stats = await Promise.all(nodes.map((node) => node.stats()))
    expectConserved(stats)
    const stallMs = stall()
    describeRun(size, rows, stallMs)
    expectStoreDecided(rows())
    // A node that stalls for the time of a lease gives nothing of it back.
    const lostOf = (rule: string) =>
      stats.reduce((sum, { rules }) => sum + (rules[rule]?.lost ?? 0), 0)

    const leasedWindows = windowsOf(rows('leased-fixed'), WINDOW_MS)
    for (const { admitted, admittedMaybe, offered } of leasedWindows) {
      expect(admitted, 'leased, a fixed window').toBeLessThanOrEqual(MAX)
      if (offered < 1.5 * MAX) continue
      const least = MAX - HELD_MAX - lostOf('leased-fixed')
      expect(admittedMaybe, 'leased, a window in demand').toBeGreaterThanOrEqual(least)
    }
    // Includes calls decided around an edge, whose window is unknown; but not around the last edge,
    // which is followed by a window of its own.
    const starts = leasedWindows.map(({ startMs }) => startMs)
    const untilMs = Math.max(...starts) + WINDOW_MS
    const total = allowedOf(rowsWithin(rows('leased-fixed'), Math.min(...starts), untilMs)).length
    expect(total).toBeLessThanOrEqual(leasedWindows.length * MAX)
    expect(burstNeeded(rows('leased-bucket'), MAX)).toBeLessThanOrEqual(MAX + HELD_MAX)
    // Units that nodes hold, or leave in the bucket for their next draw, are not admitted yet.
    const asked = rows('leased-bucket').map(({ askedMs }) => askedMs)
    const askedMs = activeMs(rows('leased-bucket'), asked[0] ?? 0, asked.at(-1) ?? 0)
    const refilled = (MAX * askedMs) / 1000
    const unspent = 2 * MAX_STRANDED * MAX + (MAX * LEASE_MS) / 1000 + lostOf('leased-bucket')
    const due = Math.min(MAX + refilled, asked.length / 1.5) - unspent
    expect(allowedOf(rows('leased-bucket')).length).toBeGreaterThanOrEqual(due)
    for (const rule of ['leased-fixed', 'leased-bucket']) {
      expect(sourcesOf(rows(rule))['lease'], rule).toBeGreaterThan(0)
      expect(oldestLease(rows(rule)), rule).toBeLessThanOrEqual(LEASE_MS)
    }

    for (const { startMs, admitted } of windowsOf(rows('local-fixed'), WINDOW_MS)) {
      const extra = extraOf(rowsWithin(rows('local-fixed'), startMs, startMs + WINDOW_MS), stallMs)
      expect(admitted, 'local, a fixed window').toBeLessThanOrEqual(MAX + extra)
    }
    for (const { admitted } of windowsOf(rows('local-sliding'), WINDOW_MS)) {
      const extra = extraOf(rows('local-sliding'), stallMs)
      expect(admitted, 'local, a sliding window').toBeLessThanOrEqual(2 * MAX + extra)
    }
    const extra = extraOf(rows('local-bucket'), stallMs)
    expect(burstNeeded(rows('local-bucket'), MAX)).toBeLessThanOrEqual(MAX + extra)
    for (const rule of ['local-fixed', 'local-sliding', 'local-bucket']) {
      expect(sourcesOf(rows(rule))['local'], rule).toBeGreaterThan(0)
    }
  })
})

test('one node alone exceeds its local limit only by calls of a new caller that were already on their way to the store', async () => {
  const short = ['10ms', '100ms', '400ms'].map((syncEvery, i) =>
    ruleOf(`alone-${i}`, { ...fixed, max: 20 }, { coordination: 'local', syncEvery }),
  )
  const rules = ['alone-0', 'alone-1', 'alone-2']
  const { nodes, rows, stallMs } = await fleets.start({ size: 1, rules: short })
  await sleep(nextStart(WINDOW_MS) - Date.now())
  await Promise.all(nodes.map((node) => node.pace({ rules, perSecond: 200, ms: 3000 })))
  for (const rule of rules) {
    for (const { startMs, admitted, offered } of windowsOf(rows(rule), WINDOW_MS)) {
      // The answer to the first makes the caller known; calls sent beside it are not counted yet.
      const inside = rowsWithin(rows(rule), startMs, startMs + WINDOW_MS)
      const asked = sourcesOf(allowedOf(inside))['store'] ?? 0
      expect(admitted, rule).toBeLessThanOrEqual(20 + Math.max(0, asked - 1))
      // A node that stalled has a poor estimate of the store's time and counts for the previous
      // window.
      const isKept = offered > 100 && stallMs() < CLOCK_TOLERANCE_MS
      if (isKept) expect(admitted, rule).toBeGreaterThan(15)
    }
    expect(sourcesOf(rows(rule))['local'], rule).toBeGreaterThan(0)
  }
})

function describeRun(size: number, rows: (rule: string) => readonly Row[], stallMs: number): void {
  process.stdout.write(`  ${size} nodes, longest stall: ${Math.round(stallMs)} ms\n`)
  for (const rule of IDS) {
    const sources = Object.entries(sourcesOf(rows(rule))).map((pair) => pair.join(' '))
    const admitted = allowedOf(rows(rule)).length
    process.stdout.write(`  ${size} nodes, ${rule}: ${admitted} admitted; ${sources.join(', ')}\n`)
  }
}
