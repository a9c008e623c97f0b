/**
 * The store is gone for several windows: what the fleet admits together, and what it charges later.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test, vi } from 'vitest'
import { allowedOf, nextStart, sourcesOf, windowsOf } from './admissions.test-helper.js'
import { shareFleets } from './share-fleets.test-helper.js'
import { type FleetNode, type NodeStats, ruleOf, unitsIn } from './fleet-node.test-helper.js'

const SIZE = 4
const WINDOW_MS = 1000
/** Not a multiple of the number of nodes, so each share is rounded up. */
const MAX = 42
const DEADLINE_MS = 100
const BEFORE_MS = 1200
const OUTAGE_MS = 3500
const AFTER_MS = 1000
/** All nodes together make twice as many calls as the limit allows. */
const PER_SECOND = (2 * MAX) / SIZE
const LEASE_SECONDS = 2
const SOON = { timeout: 15_000, interval: 50 }
/** A window that does not end during the test, so that stored units can be counted. */
const ENDLESS = '366d'
const ENDLESS_MAX = 20_000

/**
 * Given to all nodes, because a Redis that comes back empty might otherwise get a new secret on
 * which the nodes disagree.
 */
const SECRET = '00112233445566778899aabbccddeeff'

const leased = { coordination: 'leased', maxStranded: 0.4 }
const window = { algorithm: 'fixed-window', max: MAX, window: `${WINDOW_MS}ms` }
const endless = { algorithm: 'fixed-window', max: ENDLESS_MAX, window: ENDLESS }

const RULES = [
  ruleOf('exact', window),
  ruleOf('leased', window, leased),
  ruleOf('half', window, { ...leased, posture: { local: 0.5 } }),
  ruleOf('exact-endless', endless),
  ruleOf('leased-endless', endless, leased),
]
const IDS = ['exact', 'leased', 'half', 'exact-endless', 'leased-endless']
const FACTORS: Readonly<Record<string, number>> = { exact: 1, leased: 1, half: 0.5 }

const fleets = shareFleets()

const sumOf = (stats: readonly NodeStats[], of: (stats: NodeStats) => number) =>
  stats.reduce((sum, each) => sum + of(each), 0)

/** Enough calls that some are admitted, even if a node stalled for most of a window. */
const SOME = SIZE

/** Windows in which no call could reach the store any more. */
function darkWindows(
  rule: string,
  rows: Parameters<typeof windowsOf>[0],
  goneMs: number,
  backMs: number,
) {
  const dark = windowsOf(rows, WINDOW_MS).filter(
    ({ startMs }) => startMs > goneMs + DEADLINE_MS && startMs + WINDOW_MS < backMs,
  )
  expect(dark.length, `${rule}: windows without the store`).toBeGreaterThanOrEqual(2)
  return dark
}

describe('a paused store with four nodes', () => {
  test('lets the fleet admit the limit plus one unit for each other node, and the usage is charged later', async () => {
    const redis = fleets.redis()
    const { nodes, rows } = await fleets.start({
      size: SIZE,
      rules: RULES,
      deadlineMs: DEADLINE_MS,
    })
    await sleep(nextStart(WINDOW_MS) - Date.now())
    const ms = BEFORE_MS + OUTAGE_MS + AFTER_MS
    const paces = nodes.map((node) => node.pace({ rules: IDS, perSecond: PER_SECOND, ms }))
    await sleep(BEFORE_MS)
    redis.pause()
    const goneMs = Date.now()
    await sleep(OUTAGE_MS)
    // Before it is back, because this process may be kept waiting between the two.
    const backMs = Date.now()
    redis.resume()
    await Promise.all(paces)

    for (const [rule, factor] of Object.entries(FACTORS)) {
      const most = factor * MAX + SIZE - 1
      for (const { admitted, offered } of darkWindows(rule, rows(rule), goneMs, backMs)) {
        expect(admitted, `${rule}: without the store`).toBeLessThanOrEqual(most)
        if (offered < SOME) continue
        expect(admitted, `${rule}: without the store`).toBeGreaterThan(0)
      }
      for (const { admitted } of windowsOf(rows(rule), WINDOW_MS)) {
        expect(admitted, `${rule}: with a switch in it`).toBeLessThanOrEqual(MAX + most)
      }
    }

    // Calls in flight when it stopped may be lost; all others are counted.
    const stats = await waitUntilSettled(nodes)
    for (const rule of ['exact-endless', 'leased-endless']) {
      const admitted = allowedOf(rows(rule))
      expect(sourcesOf(admitted)['posture'], `${rule}: by posture`).toBeGreaterThan(0)
      // On a busy machine a probe may be late, like any call.
      const state = await vi.waitFor(() => nodes[0]?.stored(rule), SOON)
      const stored = unitsIn(state ?? null)
      const dropped = sumOf(stats, ({ reportsDropped }) => reportsDropped)
      // Sent and never answered: decided by posture, but only after their deadline.
      const unheard = rows(rule).filter(
        ({ source, askedMs, answeredMs }) =>
          source === 'posture' && answeredMs - askedMs >= DEADLINE_MS - 1,
      ).length
      // A lease is as large as the usage in its duration, and its draw may be lost too.
      const drawn = rule === 'exact-endless' ? 0 : SIZE * PER_SECOND * LEASE_SECONDS
      const held = sumOf(stats, ({ rules }) => (rules[rule]?.held ?? 0) + (rules[rule]?.lost ?? 0))
      const givesLost = sumOf(stats, (each) => each.givesLost)
      process.stdout.write(
        `  ${rule}: ${admitted.length} admitted, ${stored} stored, ${unheard} unheard, ` +
          `${dropped} dropped, ${held} held or lost, ${givesLost} gives lost\n`,
      )
      expect(stored, rule).toBeGreaterThanOrEqual(admitted.length - unheard - dropped)
      expect(stored, rule).toBeLessThanOrEqual(admitted.length + held + givesLost + unheard + drawn)
    }
  })
})

describe('a dead store', () => {
  test('while eight nodes join lets the fleet admit the configured share of each', async () => {
    const JOINING = 8
    const redis = fleets.redis()
    const rules = RULES.slice(0, 3)
    const ids = IDS.slice(0, 3)
    const { nodes, rows } = await fleets.start({
      size: SIZE,
      rules,
      deadlineMs: DEADLINE_MS,
      secret: SECRET,
    })
    await Promise.all(
      nodes.map((node) => node.pace({ rules: ids, perSecond: PER_SECOND, ms: 800 })),
    )
    await redis.kill()
    const goneMs = Date.now()
    // Half of them are configured with the future number of nodes, half with the old one.
    const fleetSizeOf = (i: number) => (i % 2 === 0 ? SIZE : SIZE + JOINING)
    const joined = await Promise.all(
      Array.from({ length: JOINING }, (_, i) =>
        fleets.join({
          rules,
          store: {
            url: redis.url,
            deadlineMs: DEADLINE_MS,
            fleetSize: fleetSizeOf(i),
            secret: SECRET,
          },
        }),
      ),
    )
    await sleep(nextStart(WINDOW_MS) - Date.now())
    const pace = { rules: ids, perSecond: MAX / 2, ms: 2300 }
    await Promise.all([...nodes, ...joined].map((node) => node.pace(pace)))
    const backMs = Date.now()
    await redis.start()

    for (const [rule, factor] of Object.entries(FACTORS)) {
      const shares = [...nodes.map(() => SIZE), ...joined.map((_, i) => fleetSizeOf(i))]
      const most = shares.reduce((sum, size) => sum + Math.ceil((factor * MAX) / size), 0)
      for (const { admitted, offered } of darkWindows(rule, rows(rule), goneMs, backMs)) {
        expect(admitted, `${rule}: without the store`).toBeLessThanOrEqual(most)
        if (offered < SOME) continue
        expect(admitted, `${rule}: without the store`).toBeGreaterThan(0)
      }
    }
    // All of them notice that it is back, and enforce one limit together.
    await Promise.all([...nodes, ...joined].map((node) => node.waitForFleet(SIZE + JOINING)))
    const againMs = nextStart(WINDOW_MS)
    await sleep(againMs - Date.now())
    await Promise.all(
      [...nodes, ...joined].map((node) => node.pace({ ...pace, perSecond: 20, ms: 900 })),
    )
    for (const rule of ids) {
      const after = rows(rule).filter(({ askedMs }) => askedMs >= againMs)
      const byPosture = allowedOf(after).filter(({ source }) => source === 'posture').length
      for (const { admitted, offered } of windowsOf(after, WINDOW_MS)) {
        expect(admitted - byPosture, `${rule}: with the store`).toBeLessThanOrEqual(MAX)
        // Most calls come in one window, unless they began late in it.
        if (offered < 2 * MAX) continue
        expect(admitted, `${rule}: with the store`).toBeGreaterThan(MAX / 2)
      }
      expect(allowedOf(after).length, `${rule}: with the store`).toBeGreaterThan(MAX / 2)
    }
  })
})

/** Waits until usage without the store is charged to it. */
function waitUntilSettled(nodes: readonly FleetNode[]): Promise<readonly NodeStats[]> {
  return vi.waitFor(async () => {
    const stats = await Promise.all(nodes.map((node) => node.stats()))
    expect(sumOf(stats, ({ reportsWaiting }) => reportsWaiting)).toBe(0)
    return stats
  }, SOON)
}
