/**
 * One cell of a table: one rule, one fleet, one pattern of calls. It is measured again if the
 * machine was too busy to measure coordination: a posture decided because the store was late, or
 * heartbeats were so late that nodes took each other for dead.
 */
import { judge } from './bounds.mjs'
import { startFleet } from './fleet.mjs'

const TRIES_MAX = 4
const WARM_UP = { rate: 4000, ms: 1000, max: 1000, windowMs: 1000 }

/** A fleet with a rule for each time that a cell may be measured, after a warm-up. */
export async function startWarmFleet({ cells, ...options }) {
  const warmUps = warmUpsOf(cells)
  const attempts = cells.flatMap((cell) =>
    Array.from({ length: TRIES_MAX }, (_, i) => attempt(cell, i)),
  )
  const fleet = await startFleet({ ...options, cells: [...warmUps, ...attempts] })
  for (const { id: rule } of warmUps) {
    const duesOf = (node) => evenly(WARM_UP.rate, WARM_UP.ms, node, fleet.size)
    await fleet.play({ rule, duesOf })
  }
  return fleet
}

/** One for each coordination: below the limit and above it. */
function warmUpsOf(cells) {
  const { max, windowMs } = WARM_UP
  return [...new Map(cells.map((cell) => [cell.coordination, cell])).values()].map(
    ({ coordination, algorithm }) => ({
      id: `warm-${coordination}`,
      coordination,
      algorithm,
      max,
      windowMs,
    }),
  )
}

/** Each time with a new counter. */
const attempt = (cell, i) => ({ ...cell, id: `${cell.id}-${i}` })

/** `startOf` returns when to begin, in milliseconds since 1970; undefined begins immediately. */
export async function measureCell(fleet, cell, { duesOf, startOf }) {
  for (let i = 0; ; i++) {
    await fleet.meet()
    const startMs = await startOf?.()
    const played = await fleet.play({ rule: attempt(cell, i).id, duesOf, startMs })
    const row = { ...judge(cell, fleet.size, played), lastMs: lastAdmissionMs(played) }
    const isAbout = row.byPosture === 0 && row.leastFleet === fleet.size
    if (isAbout || i + 1 === TRIES_MAX) return row
    process.stderr.write(`  once more: ${row.problems[0]}\n`)
  }
}

/** Calls of all nodes together come evenly, each node's in turn. */
export function evenly(rate, ms, node, nodes) {
  const gapMs = (1000 * nodes) / rate
  const count = Math.floor(ms / gapMs)
  return Array.from({ length: count }, (_, i) => (i + node / nodes) * gapMs)
}

function lastAdmissionMs({ asked, admitted }) {
  return Math.round((admitted.at(-1) - asked[0]) / 1000)
}
