/** Nodes with different wall clocks, and bursts at window edges. */
import { evenly, measureCell, startWarmFleet } from './cells.mjs'

const quick = process.argv.includes('--quick')
const NODES = 5
const ALGORITHMS = quick ? ['fixed-window'] : ['fixed-window', 'sliding-window-counter']
const APART_MS = [30, 300, 2000]
const MAX = 500
const WINDOW_MS = 1000
const WINDOWS = quick ? 3 : 6
/** Half the limit all the time, so that nodes hold leases when the edge comes. */
const CALM_RATE = (0.5 * MAX * 1000) / WINDOW_MS
/** Twice the limit within 60 ms around each edge: half of it before, half after. */
const BURST_CALLS = 2 * MAX
const BURST_MS = 60

export async function measureClocks() {
  const rows = []
  for (const apartMs of APART_MS) {
    const cells = ['leased', 'local'].flatMap((coordination) =>
      ALGORITHMS.map((algorithm) => ({
        id: `${coordination}-${algorithm}`,
        coordination,
        algorithm,
        apartMs,
        isAimed: true,
        max: MAX,
        windowMs: WINDOW_MS,
      })),
    )
    const clockOffsetsMs = Array.from(
      { length: NODES },
      (_, i) => apartMs * (i / (NODES - 1) - 0.5),
    )
    const fleet = await startWarmFleet({ nodes: NODES, cells, clockOffsetsMs })
    for (const cell of cells) {
      process.stderr.write(`clocks ${apartMs} ms apart, ${cell.id}\n`)
      rows.push(await measureCell(fleet, cell, { duesOf: aimed, startOf: midWindow }))
    }
    await fleet.stop()
  }
  return rows
}

/** In the middle of a window, by the clock of Redis, which is that of this machine. */
function midWindow() {
  return Math.ceil(Date.now() / WINDOW_MS + 0.5) * WINDOW_MS - WINDOW_MS / 2
}

/** What one node sends, in milliseconds after the middle of a window. */
function aimed(node) {
  const calm = evenly(CALM_RATE, WINDOWS * WINDOW_MS, node, NODES)
  const bursts = Array.from({ length: WINDOWS }, (_, i) => (i + 0.5) * WINDOW_MS).flatMap((edge) =>
    evenly((BURST_CALLS * 1000) / BURST_MS, BURST_MS, node, NODES).map(
      (due) => edge - BURST_MS / 2 + due,
    ),
  )
  return [...calm, ...bursts].toSorted((a, b) => a - b)
}
