/** What happens to leases when their node is killed, paused or closed. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test, vi } from 'vitest'
import {
  allowedOf,
  activeMs,
  burstNeeded,
  nextStart,
  oldestLease,
  sourcesOf,
  windowsOf,
  rowsWithin,
} from './admissions.test-helper.js'
import {
  expectStoreDecided,
  expectConserved,
  PATIENT_MS,
  shareFleets,
} from './share-fleets.test-helper.js'
import { type FleetNode, ruleOf, unitsIn } from './fleet-node.test-helper.js'

const MAX_STRANDED = 0.2
const leased = { coordination: 'leased', maxStranded: MAX_STRANDED, posture: 'closed' }
/** A window that does not end during the test, so that stored units can be counted. */
const ENDLESS = '366d'
/** The longest that a lease lasts. */
const LEASE_MS = 2000
const SOON = { timeout: 15_000, interval: 50 }

const fleets = shareFleets()

/** Makes calls until all these nodes hold a lease of at least this many units at the same time. */
async function untilAllHold(
  holders: readonly (readonly [FleetNode, string])[],
  units: number,
): Promise<void> {
  await vi.waitFor(async () => {
    const stats = await Promise.all(holders.map(([node]) => node.stats()))
    for (const [i, [, rule]] of holders.entries()) {
      expect(stats[i]?.rules[rule]?.held, rule).toBeGreaterThanOrEqual(units)
    }
  }, SOON)
}

test('a node killed with leases costs a bucket their refill time and a window their units', async () => {
  const WINDOW_MS = 2000
  const MAX = 400
  const PER_SECOND = MAX / (WINDOW_MS / 1000)
  const fixed = { algorithm: 'fixed-window', max: MAX, window: `${WINDOW_MS}ms` }
  const bucket = { algorithm: 'token-bucket', max: PER_SECOND, window: '1s' }
  const SYNC_EVERY_MS = 100
  /** Tolerance beyond that, unless a process stalled for longer. */
  const DELAY_MS = 200
  /** As long as an answer of the store may take, unless a process stalled for longer. */
  const ON_THE_WAY_MS = 50
  const endless = { algorithm: 'fixed-window', max: 100 * MAX, window: ENDLESS }
  const local = { coordination: 'local', syncEvery: `${SYNC_EVERY_MS}ms`, posture: 'closed' }
  const rules = [
    ruleOf('window', fixed, leased),
    ruleOf('bucket', bucket, leased),
    ruleOf('local', endless, local),
  ]
  const { nodes, rows, stallMs: stall } = await fleets.start({ size: 2, rules })
  const [first, second] = nodes
  if (first === undefined || second === undefined) throw new Error('No nodes')
  const windowHeld = Math.floor((MAX_STRANDED * MAX) / 2)
  const bucketHeld = Math.floor((MAX_STRANDED * PER_SECOND) / 2)

  await sleep(nextStart(WINDOW_MS) - Date.now())
  const offer = { rules: ['window', 'bucket', 'local'], perSecond: 1.5 * PER_SECOND }
  const ends = first.pace(offer).catch(() => 'killed')
  const rest = second.pace(offer)
  await sleep(WINDOW_MS / 8)
  await untilAllHold([[first, 'window']], 4)
  await first.kill()
  const killedMs = Date.now()
  expect(await ends).toBe('killed')
  // The window in which it died may be over by now: the next one is certainly without it.
  const nextMs = nextStart(WINDOW_MS)
  await sleep(nextMs + WINDOW_MS - Date.now())
  await Promise.all([second.stopPace(), rest])
  const stats = await second.stop()
  expectConserved([stats])
  const stallMs = stall()

  const windows = windowsOf(rows('window'), WINDOW_MS)
  for (const { admitted } of windows) expect(admitted, 'a window').toBeLessThanOrEqual(MAX)
  const [ofDeath, ofNext] = [nextMs - WINDOW_MS, nextMs].map((startMs) =>
    windows.find((window) => window.startMs === startMs),
  )
  // Includes draws for calls that died with the node.
  const onTheWay = (offer.perSecond * Math.max(ON_THE_WAY_MS, stallMs)) / 1000
  const isInDemand = (window = ofDeath) => (window?.offered ?? 0) >= 1.25 * MAX
  const lost = (rule: string) => stats.rules[rule]?.lost ?? 0
  if (isInDemand(ofDeath)) {
    const least = MAX - windowHeld - onTheWay - lost('window')
    expect(ofDeath?.admittedMaybe, 'the window it died in').toBeGreaterThanOrEqual(least)
  }
  if (isInDemand(ofNext)) {
    const least = MAX - lost('window')
    expect(ofNext?.admittedMaybe, 'the window after').toBeGreaterThanOrEqual(least)
  }

  // The units of the dead node count as spent, so throughput is normal again once they are
  // refilled. The units that the other node leaves in the bucket for its next draw are still there.
  const refilledMs = killedMs + (1000 * bucketHeld) / PER_SECOND
  const untilMs = nextMs + WINDOW_MS - 150
  const due = (activeMs(rows('bucket'), refilledMs, untilMs) / 1000) * PER_SECOND
  const left = MAX_STRANDED * PER_SECOND + PER_SECOND / 4 + lost('bucket')
  const since = allowedOf(rowsWithin(rows('bucket'), refilledMs, untilMs)).length
  expect(since, 'after its death').toBeGreaterThanOrEqual(due - left)
  expect(burstNeeded(rows('bucket'), PER_SECOND)).toBeLessThanOrEqual(PER_SECOND + 2 * bucketHeld)

  // Only counts that it had not reported are lost, and none is counted twice.
  const counted = allowedOf(rows('local')).length
  const reader = await fleets.join({
    rules,
    store: { url: fleets.redis().url, deadlineMs: PATIENT_MS },
  })
  const reported = unitsIn(await reader.stored('local'))
  const unreported = (offer.perSecond * (SYNC_EVERY_MS + Math.max(DELAY_MS, stallMs))) / 1000
  expect(reported, 'counts').toBeLessThanOrEqual(counted)
  expect(reported, 'counts').toBeGreaterThanOrEqual(counted - unreported)
  process.stdout.write(
    `  killed: window ${ofDeath?.admitted}, ${ofNext?.admitted}; bucket ${since} of ${Math.round(due)}; ` +
      `counts ${reported} of ${counted}; longest stall ${Math.round(stallMs)} ms\n`,
  )
})

test('a node paused for 5 s spends nothing of the leases it held', async () => {
  const MAX = 5000
  const DEADLINE_MS = 1000
  const window = { algorithm: 'fixed-window', max: MAX, window: ENDLESS }
  const slow = { ...window, algorithm: 'token-bucket' }
  const rules = [ruleOf('near', window, leased), ruleOf('far', slow, leased)]
  const { nodes, proxies, rows } = await fleets.start({
    size: 3,
    rules,
    breakable: 1,
    deadlineMs: DEADLINE_MS,
  })
  const [far, near, third] = nodes
  const [proxy] = proxies
  if (far === undefined || near === undefined || third === undefined || proxy === undefined) {
    throw new Error('No nodes')
  }
  const pace = { perSecond: 200 }
  const paces = [far.pace({ ...pace, rules: ['far'] }), near.pace({ ...pace, rules: ['near'] })]
  // Longer than it takes to pause them, however long this process has to wait.
  await untilAllHold(
    [
      [far, 'far'],
      [near, 'near'],
    ],
    150,
  )
  far.pause()
  near.pause()
  // A few milliseconds may pass until they are paused.
  const stoppedMs = Date.now() + 1000
  // One of them cannot reach the store when it resumes, so all that it admits is from old leases.
  proxy.blackhole()
  await sleep(5000)
  // Meanwhile the rest of the limit is available to other nodes.
  await third.burst({ rule: 'near', count: 50 })
  far.resume()
  near.resume()
  const asked = (rule: string, fromMs: number) =>
    rows(rule).filter(({ askedMs }) => askedMs > fromMs)
  await vi.waitFor(() => {
    expect(asked('far', stoppedMs).length, 'asked without a store').toBeGreaterThan(50)
  }, SOON)
  const fromHeld = asked('far', stoppedMs)
  await proxy.heal()
  const healedMs = Date.now()
  expect(allowedOf(fromHeld), 'admitted without a store').toEqual([])
  // Until both hold a lease again and spend it.
  await vi.waitFor(() => {
    for (const rule of ['near', 'far']) {
      expect(allowedOf(asked(rule, healedMs)).length, `${rule}, again`).toBeGreaterThan(0)
      expect(sourcesOf(asked(rule, stoppedMs))['lease'], rule).toBeGreaterThan(0)
    }
  }, SOON)
  await Promise.all([far.stopPace(), near.stopPace(), ...paces])
  for (const rule of ['near', 'far']) {
    expect(oldestLease(rows(rule)), rule).toBeLessThanOrEqual(LEASE_MS)
  }

  const stats = await Promise.all([near.stop(), far.stop(), third.stop()])
  expectConserved(stats)
  const [ofNear, ofFar, ofThird] = stats
  const reader = await fleets.join({
    rules,
    store: { url: fleets.redis().url, deadlineMs: PATIENT_MS },
  })
  // A node that could reach the store gave back once: stored units equal admitted units.
  const nearAdmitted = allowedOf(rows('near')).length
  const nearLost = (ofNear?.rules['near']?.lost ?? 0) + (ofThird?.rules['near']?.lost ?? 0)
  const nearStored = unitsIn(await reader.stored('near'))
  expect(nearStored).toBe(nearAdmitted + nearLost)
  // The other node could not: its units count as spent, and at most one draw without an answer.
  const farAdmitted = allowedOf(rows('far')).length
  const farLost = ofFar?.rules['far']?.lost ?? 0
  const farStored = unitsIn(await reader.stored('far'))
  expect(farLost).toBeGreaterThan(0)
  expect(farStored).toBeGreaterThanOrEqual(farAdmitted + farLost)
  expect(farStored).toBeLessThanOrEqual(farAdmitted + farLost + (MAX_STRANDED * MAX) / 3)
  process.stdout.write(
    `  stopped: near ${nearAdmitted} admitted, ${nearStored} stored, ${nearLost} lost; ` +
      `far ${farAdmitted} admitted, ${farStored} stored, ${farLost} lost\n`,
  )
})

test('a node whose wall clock jumped ahead, as after a sleep, spends nothing of its leases', async () => {
  const DEADLINE_MS = 250
  const window = { algorithm: 'fixed-window', max: 5000, window: ENDLESS }
  const { nodes, proxies } = await fleets.start({
    size: 2,
    rules: [ruleOf('window', window, leased)],
    breakable: 2,
    deadlineMs: DEADLINE_MS,
  })
  const [slept, awake] = nodes
  if (slept === undefined || awake === undefined) throw new Error('No nodes')
  const paces = nodes.map((node) => node.pace({ rules: ['window'], perSecond: 100 }))
  // Enough for both to continue for a while without a store.
  await untilAllHold(
    nodes.map((node) => [node, 'window'] as const),
    60,
  )
  await slept.step(LEASE_MS)
  for (const proxy of proxies) proxy.blackhole()
  const cutMs = Date.now()
  const since = (node: FleetNode) =>
    node.rows().filter(({ askedMs, source }) => askedMs > cutMs && source !== 'store')
  await sleep(2 * DEADLINE_MS)
  await vi.waitFor(() => {
    expect(allowedOf(since(awake)).length, 'the other one').toBeGreaterThan(0)
    expect(since(slept).length).toBeGreaterThan(0)
  }, SOON)
  await Promise.all([...nodes.map((node) => node.stopPace()), ...paces])
  expect(allowedOf(since(slept)), 'from leases that are over').toEqual([])
})

describe('closing nodes', () => {
  test('give back their leases and report their counts, so nothing is lost', async () => {
    const MAX = 3000
    const window = { algorithm: 'fixed-window', max: MAX, window: ENDLESS }
    const sliding = { ...window, algorithm: 'sliding-window-counter' }
    const bucket = { ...window, algorithm: 'token-bucket' }
    const local = { coordination: 'local', posture: 'closed' }
    const rules = [
      ruleOf('leased-window', window, leased),
      ruleOf('leased-sliding', sliding, leased),
      ruleOf('leased-bucket', bucket, leased),
      ruleOf('local-window', window, local),
      ruleOf('local-sliding', sliding, local),
      ruleOf('local-bucket', bucket, local),
    ]
    const ids = ['leased-window', 'leased-sliding', 'leased-bucket']
    const localIds = ['local-window', 'local-sliding', 'local-bucket']
    const { nodes, rows } = await fleets.start({ size: 3, rules })
    const [first, ...others] = nodes
    const pace = { rules: [...ids, ...localIds], perSecond: 100, ms: 1000 }
    await Promise.all(others.map((node) => node.pace(pace)))
    // Under full load they hold leases and counts that are not reported yet. A lease that ended
    // because the machine stalled is followed by another with the next calls.
    await vi.waitFor(async () => {
      const held = await Promise.all(others.map((node) => node.stats()))
      for (const rule of ids) {
        const sum = held.reduce((all, { rules: by }) => all + (by[rule]?.held ?? 0), 0)
        if (sum === 0) await Promise.all(others.map((node) => node.burst({ rule, count: 2 })))
        expect(sum, `${rule}: held before`).toBeGreaterThan(0)
      }
    }, SOON)
    expectStoreDecided(rows())
    const stats = await Promise.all(others.map((node) => node.stop()))
    expectConserved(stats)
    for (const rule of [...ids, ...localIds]) {
      const state = (await first?.stored(rule)) ?? null
      // The limit has capacity for all, so every call was admitted.
      const admitted = allowedOf(rows(rule)).length
      expect(admitted, rule).toBe(rows(rule).length)
      expect(admitted, rule).toBeGreaterThan(50)
      expect(unitsIn(state), rule).toBe(admitted)
      for (const { rules: by } of stats) {
        expect([by[rule]?.held, by[rule]?.lost, by[rule]?.unreported], rule).toEqual([0, 0, 0])
      }
    }
  })
})
