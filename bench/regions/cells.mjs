/** What all regions together admit beyond a limit, beside the bound of it. */
import { createLimiter, memoryStore, regionalStore } from '../../packages/limiter/dist/index.js'
import { excessOf, mostWithin } from '../coordination/excess.mjs'
import { othersOf, REGIONS } from './setting.mjs'
import { PEER, ruleOf, SLUICE } from './subjects.mjs'

const HALF_SYNC_MS = 50
/** How much later than planned units may be known before a row is measured again. */
const LATE_MS_MAX = 40
const BEGIN_AFTER_MS = 100
/** Lags are looked at so often. */
const LOOK_MS = 2

const WINDOW = 'fixed-window'
const ROWS = [
  { what: '30,000 a minute, window', algorithm: WINDOW, max: 30_000, windowMs: 60_000 },
  { what: '100 in 10 s, window', algorithm: WINDOW, max: 100, windowMs: 10_000 },
  { what: '1,000 a second, window', algorithm: WINDOW, max: 1000, windowMs: 1000 },
  { what: '1,000/s, bucket of 1,000', algorithm: 'token-bucket', max: 1000, windowMs: 1000 },
]
const LOADS = [
  { perSecond: 1000, seconds: 35, isLong: true },
  { perSecond: 1000, seconds: 3, isPeers: true },
  { perSecond: 2000, seconds: 6, isPeers: true },
  { perSecond: 2000, seconds: 6 },
]
export const BUCKET_RATE = 1000
export const BUCKET_BURST = 1000

/** Each row for each delay; not the long ones in a quick run. */
function cellsOf(delays, isQuick) {
  return ROWS.flatMap((limit, i) =>
    delays
      .filter(() => !isQuick || !LOADS[i].isLong)
      .map((delayMs) => ({ id: `row-${i}-${delayMs}`, ...limit, ...LOADS[i], delayMs })),
  )
}

export async function measureCells(world, { delays, isQuick, bucketSeconds, log }) {
  const cells = cellsOf(delays, isQuick)
  const tries = isQuick ? 1 : 3
  const paid = { ...cells.find(isBucketAt40), id: 'paid-back', seconds: bucketSeconds }
  const sluice = await world.startFleet(SLUICE, [...cells, paid])
  const found = []
  for (const cell of cells) found.push(await measureCell(world, sluice, { cell, tries, log }))
  const paidBack = await measureCell(world, sluice, { cell: paid, tries, log })
  await sluice.stop()
  const beside = new Map()
  for (const cell of cells.filter(({ isPeers }) => isPeers)) {
    log(`${PEER}: ${nameOf(cell)}`)
    // Nodes of its own: it may still synchronize what earlier ones spent a minute later.
    const peer = await world.startFleet(PEER, [cell])
    beside.set(cell.id, await playCell(world, peer, cell))
    await peer.stop()
  }
  return { rows: found.map((row) => ({ ...row, peer: beside.get(row.id) })), paidBack }
}

const isBucketAt40 = ({ algorithm, delayMs }) => algorithm !== WINDOW && delayMs === 40
const nameOf = ({ what, delayMs, perSecond }) => `${what}, ${delayMs} ms, ${perSecond}/s`

/** Again if the machine was too busy for what is measured here. */
async function measureCell(world, fleet, { cell, tries, log }) {
  for (let left = tries; ; left -= 1) {
    log(`${SLUICE}: ${nameOf(cell)}`)
    const played = await playCell(world, fleet, cell, `caller-${left}`)
    const { delayMs, perSecond, max, algorithm } = cell
    const plannedMs = HALF_SYNC_MS + delayMs
    const isLate = played.knownMs > plannedMs + LATE_MS_MAX || played.posture > 0
    if (isLate && left > 1) continue
    const most = algorithm === WINDOW ? (REGIONS.length - 1) * max : Infinity
    const share = (REGIONS.length - 1) / REGIONS.length
    const formula = Math.min(most, (share * perSecond * plannedMs) / 1000)
    const bound = Math.min(most, played.elsewhere)
    return { ...cell, ...played, plannedMs, formula, bound, isWithin: played.excess <= bound }
  }
}

/**
 * Plays the calls of a cell, within one window if it is a long one. `knownMs`: how long the slowest
 * unit took to be known elsewhere, with the decision of a call; `elsewhere`: the most calls that
 * the other regions made in so long.
 */
async function playCell(world, fleet, cell, user = 'u1') {
  const { id, delayMs, perSecond, seconds, algorithm, windowMs } = cell
  world.delay(delayMs)
  await fleet.orderAll({ kind: 'told' })
  const startMs = startOf(cell)
  const order = { cell: id, users: [user], perSecond, seconds, startMs }
  const played = await fleet.play(order)
  const admitted = sorted(played.flatMap((each) => [...each.admitted]))
  // A lag ends when the confirmation is back, one way later than the unit is known.
  const lagMs = Math.max(...played.map((each) => each.lagMs)) - delayMs + LOOK_MS
  const roundTripMs = Math.max(...played.map((each) => each.roundTripMs))
  const knownMs = lagMs + roundTripMs
  const sum = (read) => played.reduce((total, each) => total + read(each), 0)
  return {
    admitted: admitted.length,
    offered: sum(({ asked }) => asked.length),
    unsent: sum(({ unsent }) => unsent),
    posture: sum(({ posture }) => posture),
    excess: Math.round(excessOf({ ...cell, algorithm, windowMs }, admitted)),
    knownMs,
    elsewhere: Math.max(...REGIONS.map((region) => offeredElsewhere(played, region, knownMs))),
    tookSeconds: (admitted.at(-1) - admitted[0]) / 1e6,
  }
}

function offeredElsewhere(played, region, ms) {
  const others = othersOf(region)
  const asked = played.filter((each) => others.includes(each.region)).flatMap((each) => each.asked)
  return mostWithin(sorted(asked), ms * 1000)
}

/** At once, or if the calls would not fit into the window, when the next one begins. */
function startOf({ windowMs, seconds, algorithm }) {
  const nowMs = Date.now() + BEGIN_AFTER_MS
  const isShort = windowMs < seconds * 1000
  if (isShort || algorithm !== WINDOW) return nowMs
  const leftMs = windowMs - (nowMs % windowMs)
  return leftMs > seconds * 1000 ? nowMs : nowMs + leftMs + BEGIN_AFTER_MS
}

const sorted = (times) => Float64Array.from(times).sort()

/** Whether a bucket that cannot hold what is spent until the others know is refused at load. */
export async function refusalOfSmallBurst() {
  const store = regionalStore({ region: 'eu', store: memoryStore(), others: { us: memoryStore() } })
  const rule = ruleOf({ id: 'a', algorithm: 'gcra', max: 1000, windowMs: 1000, burst: 1 })
  try {
    const limiter = createLimiter({ rules: [rule], store, secret: new Uint8Array(16) })
    await limiter.close()
    return undefined
  } catch (error) {
    await store.close()
    return error.message
  }
}
