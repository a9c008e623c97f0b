/** Fleets of 2, 5 and 10 nodes, with loads from half the limit to ten times the limit. */
import { setTimeout as sleep } from 'node:timers/promises'
import { evenly, measureCell, startWarmFleet } from './cells.mjs'

const quick = process.argv.includes('--quick')
const FLEETS = quick ? [2, 10] : [2, 5, 10]
const LOADS = quick ? [1, 10] : [0.5, 1, 2, 10]
const MAX = 1000
const WINDOW_MS = 2000
/** Two windows and a half: at least one edge, and a bucket that was emptied long ago. */
const PLAY_MS = quick ? 3000 : 5000
const ALGORITHMS = ['fixed-window', 'token-bucket', 'sliding-window-counter']
const SUBJECTS = quick
  ? [
      ['leased', 'token-bucket'],
      ['local', 'fixed-window'],
    ]
  : ['leased', 'local'].flatMap((each) => ALGORITHMS.map((algorithm) => [each, algorithm]))

/** Ten nodes, counts merged every 100 ms, 100 a minute, 1,000 calls a second spread evenly. */
const TEXTBOOK = {
  id: 'textbook',
  coordination: 'local',
  algorithm: 'fixed-window',
  max: 100,
  windowMs: 60_000,
}
const TEXTBOOK_NODES = 10
const TEXTBOOK_RATE = 1000
const TEXTBOOK_MS = 4000
const BEGIN_AFTER_MS = 100

export async function measureLoads() {
  const rows = []
  for (const nodes of FLEETS) {
    const cells = cellsOf()
    const fleet = await startWarmFleet({ nodes, cells })
    for (const cell of cells) {
      process.stderr.write(`${nodes} nodes, ${cell.id}\n`)
      const rate = (cell.load * MAX) / (WINDOW_MS / 1000)
      const duesOf = (node) => evenly(rate, PLAY_MS, node, nodes)
      rows.push(await measureCell(fleet, cell, { duesOf }))
    }
    await fleet.stop()
  }
  return rows
}

export async function measureTextbook() {
  process.stderr.write('textbook\n')
  const nodes = TEXTBOOK_NODES
  const fleet = await startWarmFleet({ nodes, cells: [TEXTBOOK] })
  const duesOf = (node) => evenly(TEXTBOOK_RATE, TEXTBOOK_MS, node, nodes)
  const row = await measureCell(fleet, TEXTBOOK, { duesOf, startOf: withinWindow })
  await fleet.stop()
  return row
}

function cellsOf() {
  return SUBJECTS.flatMap(([coordination, algorithm]) =>
    LOADS.map((load) => ({
      id: `${coordination}-${algorithm}-${String(load).replace('.', '-')}`,
      coordination,
      algorithm,
      load,
      max: MAX,
      windowMs: WINDOW_MS,
    })),
  )
}

/** All calls fall into one window, so that the excess occurs once. */
async function withinWindow() {
  const { windowMs } = TEXTBOOK
  const sinceMs = (Date.now() + BEGIN_AFTER_MS) % windowMs
  if (sinceMs + 2 * TEXTBOOK_MS > windowMs) await sleep(windowMs - sinceMs)
  return Date.now() + BEGIN_AFTER_MS
}
