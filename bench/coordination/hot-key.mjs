/** One caller on four processes: the Redis requests and throughput of each coordination mode. */
import { median } from '../report.mjs'
import { evenly, startWarmFleet } from './cells.mjs'

const quick = process.argv.includes('--quick')
const NODES = 4
const COORDINATIONS = ['exact', 'leased', 'split']
/** V8's compilation varies from process to process, so several fleets are measured. */
const FLEETS = quick ? 1 : 3
const ROUNDS = 3
const ROUND_MS = quick ? 600 : 1200
const PACED_ROUNDS = quick ? 1 : 2
/** Leases begin small; a longer run makes that matter less. */
const PACED_MS = quick ? 4000 : 10_000
/** Concurrent calls on each node. */
const WAITING = quick ? [64] : [1, 64]
/** A long deadline: the benchmark measures throughput, so no call times out. */
const DEADLINE_MS = 10_000
/** 1,000 for each node, the least for which there is a target; and more than any caller uses. */
const SMALL = 4000
const LARGE = 4_000_000
const CROWD_RATE = 20_000
const CALM_RATE = 3600

export const TARGETS = { ratio: 5, storeCalls: 1 / 50 }

export async function measureHotKey() {
  const cells = COORDINATIONS.flatMap((coordination) => [
    cellOf('large', coordination, LARGE),
    cellOf('crowd', coordination, SMALL),
    cellOf('calm', coordination, SMALL),
  ])
  const options = { nodes: NODES, cells, isPinned: true, deadlineMs: DEADLINE_MS }
  const rounds = new Map()
  let fleet = await startWarmFleet(options)
  const crowd = await measurePaced(fleet, 'crowd', CROWD_RATE)
  const calm = await measurePaced(fleet, 'calm', CALM_RATE)
  for (let another = 0; another < FLEETS; another++) {
    if (another > 0) fleet = await startWarmFleet(options)
    for (const waiting of WAITING) await hammerByTurns(fleet, waiting, rounds)
    await fleet.stop()
  }
  const large = WAITING.flatMap((waiting) => summariesOf(rounds, waiting))
  return { nodes: NODES, large, crowd, calm, limits: { large: LARGE, crowd: SMALL, calm: SMALL } }
}

function cellOf(name, coordination, max) {
  return {
    id: `${name}-${coordination}`,
    coordination,
    algorithm: 'token-bucket',
    max,
    windowMs: 1000,
  }
}

/** At full speed, alternating, in the same processes. */
async function hammerByTurns(fleet, waiting, rounds) {
  const hammer = (coordination) =>
    fleet.hammer({ rule: `large-${coordination}-0`, waiting, ms: ROUND_MS })
  // Compiled before anything counts.
  for (const coordination of COORDINATIONS) await hammer(coordination)
  for (let round = 0; round < ROUNDS; round++) {
    process.stderr.write(`hot key, ${waiting} waiting, round ${round + 1}\n`)
    const turn = round % 2 === 0 ? COORDINATIONS : COORDINATIONS.toReversed()
    for (const coordination of turn) {
      const found = rounds.get(nameOf(coordination, waiting)) ?? []
      rounds.set(nameOf(coordination, waiting), [...found, await hammer(coordination)])
    }
  }
}

const nameOf = (coordination, waiting) => `${coordination} ${waiting}`

function summariesOf(rounds, waiting) {
  const exact = rounds.get(nameOf('exact', waiting))
  return COORDINATIONS.map((coordination) => {
    const found = rounds.get(nameOf(coordination, waiting))
    const perDecision = (figure) => median(found.map((each) => each[figure] / each.decisions))
    return {
      coordination,
      waiting,
      rate: median(found.map(({ rate }) => rate)),
      ratio: median(found.map(({ rate }, round) => rate / exact[round].rate)),
      refused: median(found.map((each) => 1 - each.admitted / each.decisions)),
      storeCalls: perDecision('scripts'),
      clientUs: perDecision('clientUs'),
      redisUs: perDecision('redisUs'),
      ...leaseSums(found),
    }
  })
}

/** Calls that come evenly, each node's in turn. */
async function measurePaced(fleet, name, rate) {
  const rounds = new Map(COORDINATIONS.map((coordination) => [coordination, []]))
  for (let round = 0; round < PACED_ROUNDS; round++) {
    process.stderr.write(`hot key, ${rate} calls/s, round ${round + 1}\n`)
    for (const coordination of COORDINATIONS) {
      const rule = `${name}-${coordination}-0`
      const duesOf = (node) => evenly(rate, PACED_MS, node, NODES)
      rounds.get(coordination).push(await fleet.play({ rule, duesOf }))
    }
  }
  return COORDINATIONS.map((coordination) => {
    const found = rounds.get(coordination)
    const perDecision = (of) => median(found.map((each) => of(each) / each.calls.length))
    return {
      coordination,
      offered: rate,
      admitted: median(found.map(({ admitted, seconds }) => admitted.length / seconds)),
      calls: median(found.map(({ calls, seconds }) => calls.length / seconds)),
      storeCalls: perDecision(({ scripts }) => scripts),
      redisUs: perDecision(({ redisUs }) => redisUs),
      byPosture: found.reduce((total, each) => total + each.byPosture, 0),
      ...leaseSums(found),
    }
  })
}

/** The sums of a rule go on from round to round. */
function leaseSums(found) {
  const { draws = 0, drawn = 0, spent = 0 } = found.at(-1)?.stats ?? {}
  return { draws, drawn, spent }
}

/** An error on any machine: more spent than drawn. */
export function problemsOfHotKey({ large, crowd, calm }) {
  return [...large, ...crowd, ...calm].flatMap(({ coordination, drawn, spent }) =>
    spent > drawn ? [`${coordination}: ${spent} units spent, but only ${drawn} drawn`] : [],
  )
}
