/** One node of three is cut off from the store for 10 s and comes back. */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test, vi } from 'vitest'
import {
  allowedOf,
  longestSilence,
  oldestLease,
  rowsTouching,
  windowsOf,
} from './admissions.test-helper.js'
import { expectConserved, shareFleets } from './share-fleets.test-helper.js'
import { type FleetNode, ruleOf } from './fleet-node.test-helper.js'

const SIZE = 3
const CUT_MS = 10_000
const BEFORE_MS = 1500
const AFTER_MS = 4500
const WINDOW_MS = 1000
const MAX = 50
/** The rate of each node: together three times the limit. */
const PER_SECOND = 50
const SYNC_EVERY_MS = 100
const DEADLINE_MS = 100
const DENY_CACHE_MS = 1000
/**
 * A breaker waits a second and probes with jitter; a connection that lost bytes is opened again.
 */
const RECOVERY_MS = 3000
/** Tolerance for a busy machine. */
const NOISE_MS = 1000
/** After a longer stall a node may have lost the store once more. */
const STALL_MS_MAX = 250
/** The error of a node's estimate of where a window ends by the store's clock. */
const EDGE_MS = 20
const SOON = { timeout: 20_000, interval: 50 }

const local = { coordination: 'local', syncEvery: `${SYNC_EVERY_MS}ms`, posture: 'closed' }
const leased = { coordination: 'leased', maxStranded: 0.3, posture: 'closed' }
const fixed = { algorithm: 'fixed-window', max: MAX, window: `${WINDOW_MS}ms` }
const sliding = { ...fixed, algorithm: 'sliding-window-counter' }
const bucket = { ...fixed, algorithm: 'token-bucket' }

const IDS = ['fixed', 'sliding', 'bucket', 'leased']
const RULES = [
  ruleOf('fixed', fixed, local),
  ruleOf('sliding', sliding, local),
  ruleOf('bucket', bucket, local),
  ruleOf('leased', fixed, leased),
]

const fleets = shareFleets()

/** The largest stored count of each window of a rule, by the window's start. */
class StoredWindows {
  readonly byStartMs = new Map<number, number>()

  async watch(node: FleetNode, rule: string, isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      // A late sample is one of many.
      const state = await node.stored(rule).catch(() => null)
      if (state !== null) {
        const startMs = (state['start'] ?? 0) / 1000
        this.record(startMs, state['count'] ?? state['curr'] ?? 0)
        this.record(startMs - WINDOW_MS, state['prev'] ?? 0)
      }
      await sleep(40)
    }
  }

  private record(startMs: number, count: number): void {
    this.byStartMs.set(startMs, Math.max(count, this.byStartMs.get(startMs) ?? 0))
  }
}

test('a partition heals with no window charged twice, and no caller refused for longer than documented', async () => {
  const { nodes, proxies, rows, stallMs } = await fleets.start({
    size: SIZE,
    rules: RULES,
    breakable: 1,
    deadlineMs: DEADLINE_MS,
  })
  const [lonely, second] = nodes
  const [proxy] = proxies
  if (lonely === undefined || second === undefined || proxy === undefined)
    throw new Error('No nodes')
  let isOver = false
  const paces = nodes.map((node) => node.pace({ rules: IDS, perSecond: PER_SECOND }))
  const stored = { fixed: new StoredWindows(), sliding: new StoredWindows() }
  const watches = [
    stored.fixed.watch(second, 'fixed', () => isOver),
    stored.sliding.watch(second, 'sliding', () => isOver),
  ]
  await sleep(BEFORE_MS)
  proxy.blackhole()
  const cutMs = Date.now()
  await sleep(CUT_MS)
  const healingMs = Date.now()
  await proxy.heal()
  const healedMs = Date.now()
  await sleep(AFTER_MS)
  const firstBack = () =>
    lonely
      .rows()
      .find(
        ({ rule, askedMs, source }) =>
          rule === 'leased' && askedMs >= healedMs && (source === 'store' || source === 'lease'),
      )
  await vi.waitFor(() => expect(firstBack(), 'an answer by the store').toBeDefined(), SOON)
  const endMs = Date.now()
  isOver = true
  await Promise.all([...nodes.map((node) => node.stopPace()), ...paces, ...watches])
  const stats = await Promise.all(nodes.map((node) => node.stats()))
  expectConserved(stats)

  for (const rule of ['fixed', 'sliding'] as const) {
    const admitted = allowedOf(rows(rule))
    for (const [startMs, count] of stored[rule].byStartMs) {
      // Includes calls around its edges, whose window may be unknown.
      const near = rowsTouching(admitted, startMs - EDGE_MS, startMs + WINDOW_MS + EDGE_MS)
      expect(count, `${rule}: stored of the window ${startMs}`).toBeLessThanOrEqual(near.length)
    }
  }

  // During the partition each side admits at most the limit.
  const alone = lonely.rows()
  const ownWindows = windowsOf(
    alone.filter(({ rule }) => rule === 'fixed'),
    WINDOW_MS,
  )
  for (const { startMs, admitted, offered } of ownWindows) {
    if (startMs < cutMs || startMs + WINDOW_MS > healingMs) continue
    expect(admitted, 'the node that is cut off').toBeLessThanOrEqual(MAX)
    if (offered < MAX / 2) continue
    expect(admitted, 'the node that is cut off').toBeGreaterThan(0)
  }

  const silences = IDS.map((rule) => longestSilence(rows(rule), healedMs, endMs))
  const debt = Math.max(MAX, (SIZE * MAX * SYNC_EVERY_MS) / 1000)
  const statedMs = [WINDOW_MS, 2 * WINDOW_MS, (debt / MAX) * 1000, WINDOW_MS]
  for (const [i, rule] of IDS.entries()) {
    expect(silences[i], `${rule}: silenced`).toBeLessThanOrEqual((statedMs[i] ?? 0) + NOISE_MS)
  }

  // Nor is a caller whose calls all come to one node, while each node counts for itself.
  for (const { number } of nodes) {
    for (const [i, rule] of ['fixed', 'sliding', 'bucket'].entries()) {
      const own = rows(rule).filter(({ node }) => node === number)
      const silence = longestSilence(own, healedMs, endMs)
      expect(silence, `${rule} on node ${number}`).toBeLessThanOrEqual(
        (statedMs[i] ?? 0) + NOISE_MS,
      )
    }
  }

  // Drawn units are spent within the lease; then the posture decides until the store is back.
  const leaseMs = WINDOW_MS / 4
  const cutOff = alone.filter(
    ({ rule, askedMs, answeredMs }) =>
      rule === 'leased' && askedMs > cutMs + leaseMs + DEADLINE_MS && answeredMs < healingMs,
  )
  expect(allowedOf(cutOff)).toEqual([])
  // A refusal just before the partition is cached for a while.
  const later = cutOff.filter(({ askedMs }) => askedMs > cutMs + DENY_CACHE_MS + DEADLINE_MS)
  expect(new Set(later.map(({ source }) => source))).toEqual(new Set(['posture']))
  const back = firstBack()
  if (stallMs() <= STALL_MS_MAX) {
    expect((back?.askedMs ?? Infinity) - healedMs).toBeLessThanOrEqual(RECOVERY_MS + NOISE_MS)
  }
  expect(oldestLease(rows('leased'))).toBeLessThanOrEqual(leaseMs)
  process.stdout.write(
    `  silent after the cut: ${IDS.map((rule, i) => `${rule} ${silences[i]} ms`).join(', ')}; ` +
      `leased back after ${(back?.askedMs ?? 0) - healedMs} ms; ` +
      `longest stall ${Math.round(stallMs())} ms\n`,
  )
})
