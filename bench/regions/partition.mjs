/** A region is cut off under load; how long after that all regions have counted everything. */
import { setTimeout as sleep } from 'node:timers/promises'
import { REGIONS } from './setting.mjs'
import { SLUICE } from './subjects.mjs'

const CELL = 'cut'
const MAX = 1_000_000_000
/** So long that no window ends meanwhile. */
const CELLS = [{ id: CELL, algorithm: 'fixed-window', max: MAX, windowMs: 366 * 86_400_000 }]
const LOST = 'us'
const CALLERS = 50
const PER_SECOND = 600
const BEFORE_SECONDS = 1
/** Calls go on for longer than the links are cut. */
const AFTER_SECONDS = 1

export async function measurePartition(world, { seconds, log }) {
  world.delay(40)
  const fleet = await world.startFleet(SLUICE, CELLS)
  const users = Array.from({ length: CALLERS }, (_, i) => `caller-${i}`)
  log(`${LOST} is cut off for ${seconds} s`)
  const load = { cell: CELL, users, perSecond: PER_SECOND, startMs: Date.now() + 100 }
  const playing = fleet.play({ ...load, seconds: BEFORE_SECONDS + seconds + AFTER_SECONDS })
  await sleep(BEFORE_SECONDS * 1000)
  await world.cutOff(LOST)
  await sleep(seconds * 1000)
  await world.heal(LOST)
  const healedMs = performance.now()
  // Until everything of before is known; calls go on, so that it never is everything of all.
  const isOld = async () => {
    const sinceMs = performance.now() - healedMs
    const links = (await fleet.orderAll({ kind: 'lags' })).flatMap(({ list }) => list)
    return links.some(({ lagMs }) => lagMs >= sinceMs)
  }
  while (await isOld()) await sleep(5)
  const healMs = performance.now() - healedMs
  const played = await playing
  await fleet.orderAll({ kind: 'told' })
  const result = { seconds, healMs, ...(await compare(fleet, { played, users })) }
  await fleet.stop()
  return result
}

/** What each region has counted of each caller, beside what was admitted. */
async function compare(fleet, { played, users }) {
  const spent = users.map((_, i) => played.reduce((sum, { admittedBy }) => sum + admittedBy[i], 0))
  const counted = await fleet.orderOfEach({ kind: 'remaining', cell: CELL, users })
  const unknown = unknownTo(await fleet.orderAll({ kind: 'units' }))
  let twice = 0
  let missing = 0
  let unexplained = 0
  for (const [r, region] of REGIONS.entries()) {
    const lost = spent.map((units, i) => units - (MAX - counted[r][i]))
    twice += lost.reduce((sum, units) => sum + Math.max(0, -units), 0)
    const short = lost.reduce((sum, units) => sum + Math.max(0, units), 0)
    missing += short
    unexplained += Math.max(0, short - (unknown.get(region) ?? 0))
  }
  return {
    units: spent.reduce((sum, units) => sum + units, 0),
    twice,
    missing,
    unexplained,
    slowestMs: Math.max(...played.flatMap(({ latencies }) => [...latencies])),
    posture: played.reduce((sum, each) => sum + each.posture, 0),
  }
}

/** Units of which a region may not have heard, by region. */
function unknownTo(units) {
  const sums = new Map()
  for (const { region, unknown, dropped } of units.flatMap(({ list }) => list)) {
    sums.set(region, (sums.get(region) ?? 0) + unknown + dropped)
  }
  return sums
}
