/**
 * Nodes with different wall clocks: only the store's clock counts, even for bursts at a window
 * edge.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import {
  allowedOf,
  mostOffered,
  nextStart,
  oldestLease,
  sourcesOf,
  windowsOf,
  rowsWithin,
} from './admissions.test-helper.js'
import { expectStoreDecided, expectConserved, shareFleets } from './share-fleets.test-helper.js'
import { ruleOf } from './fleet-node.test-helper.js'

const SIZE = 3
const WINDOW_MS = 1000
const EDGES = 2
const MAX = 60
const PER_SECOND = 40
const SYNC_EVERY_MS = 50
/**
 * How long a node may take beyond that to receive the counts of the others, or as long as one
 * stalls.
 */
const DELAY_MS = 150
/** Calls in one burst of each node. */
const BURST = 15
/** Of a rule with capacity left when its window ends, so that some leases are not spent. */
const CALM_MAX = 240
const CALM_PER_SECOND = 60
const CALM_BURST = 120
const limit = { algorithm: 'fixed-window', max: MAX, window: `${WINDOW_MS}ms` }

const leased = { coordination: 'leased', maxStranded: 0.3, posture: 'closed' }

const RULES = [
  ruleOf('leased', limit, leased),
  ruleOf('calm', { ...limit, max: CALM_MAX }, leased),
  ruleOf('local', limit, {
    coordination: 'local',
    syncEvery: `${SYNC_EVERY_MS}ms`,
    posture: 'closed',
  }),
]

const fleets = shareFleets()

test.each([30, 300, 2000])(
  'nodes whose clocks are %i ms apart open no window twice',
  async (apartMs) => {
    const { nodes, rows, stallMs } = await fleets.start({
      size: SIZE,
      rules: RULES,
      wallOffsetsMs: [0, apartMs, -apartMs],
    })
    const fromMs = nextStart(WINDOW_MS, 100)
    await sleep(fromMs - Date.now())
    // Around each window edge of the store, and around the edges by a node's wrong clock.
    const edges = Array.from({ length: EDGES }, (_, i) => fromMs + (i + 1) * WINDOW_MS)
    const aimed = edges.flatMap((edge) =>
      [0, apartMs, -apartMs].flatMap((off) => {
        const at = edge + (off % WINDOW_MS)
        return [at - 15, at + 5]
      }),
    )
    const last = (edges.at(-1) ?? 0) + WINDOW_MS / 2
    const ms = last - Date.now()
    await Promise.all(
      nodes.flatMap((node) => [
        node.pace({ rules: ['leased', 'local'], perSecond: PER_SECOND, ms }),
        node.pace({ rules: ['calm'], perSecond: CALM_PER_SECOND, ms }),
        ...edges.map((edge) => node.burst({ rule: 'calm', count: CALM_BURST, atMs: edge + 5 })),
        ...[...new Set(aimed)]
          .filter((atMs) => atMs < last)
          .flatMap((atMs) => [
            node.burst({ rule: 'leased', count: BURST, atMs }),
            node.burst({ rule: 'local', count: BURST, atMs }),
          ]),
      ]),
    )
    expectConserved(await Promise.all(nodes.map((node) => node.stats())))
    expectStoreDecided(rows())
    const windows = windowsOf(rows('leased'), WINDOW_MS)
    for (const { admitted } of windows) expect(admitted).toBeLessThanOrEqual(MAX)
    for (const { admitted } of windowsOf(rows('calm'), WINDOW_MS)) {
      expect(admitted, 'with leases of the window before').toBeLessThanOrEqual(CALM_MAX)
    }
    for (const rule of ['leased', 'calm']) {
      expect(sourcesOf(rows(rule))['lease'], rule).toBeGreaterThan(0)
      expect(oldestLease(rows(rule)), rule).toBeLessThanOrEqual(WINDOW_MS / 4)
    }
    // A call at the last moment may be decided in a window in which no call was made.
    const times = rows('leased').flatMap(({ askedMs, answeredMs }) => [askedMs, answeredMs])
    const touched = new Set(times.map((atMs) => Math.floor(atMs / WINDOW_MS)))
    expect(allowedOf(rows('leased')).length).toBeLessThanOrEqual(touched.size * MAX)

    const delayMs = Math.max(DELAY_MS, stallMs())
    const localWindows = windowsOf(rows('local'), WINDOW_MS)
    for (const { startMs, admitted } of localWindows) {
      const inside = rowsWithin(rows('local'), startMs, startMs + WINDOW_MS)
      const extra = mostOffered(inside, SYNC_EVERY_MS + delayMs)
      const most = MAX + Math.min((SIZE - 1) * MAX, extra)
      expect(admitted, 'the fleet, in a window').toBeLessThanOrEqual(most)
      for (const { number } of nodes) {
        const own = allowedOf(inside).filter(({ node }) => node === number)
        expect(own.length, 'one node, in a window').toBeLessThanOrEqual(MAX)
      }
    }
    expect(sourcesOf(rows('local'))['local']).toBeGreaterThan(0)
    const shown = [windows, localWindows].map((each) => each.map(({ admitted }) => admitted))
    process.stdout.write(
      `  ${apartMs} ms apart: leased ${shown[0]?.join(' ')}, local ${shown[1]?.join(' ')}\n`,
    )
  },
)
