/**
 * A fleet that saturates one Redis: whether throughput holds while every process has more calls
 * than Redis can answer, with a slow script of another client, and whether latency recovers as soon
 * as that ends.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { printTable } from '../report.mjs'
import { measureClosed, medianOf, openSubjects, quick, useWorkers } from './measure.mjs'
import { describePlaces, readStore, stopAll } from './processes.mjs'
import { PEER, SLUICE } from './subjects.mjs'

const PROCESSES = 4
const SLICES = 3
const SLICE_MS = quick ? 1000 : 3000
/** Lua that keeps Redis busy for some 10 ms, again and again: two thirds of its time. */
const SLOW_SCRIPT = "local x = 0 for i = 1, 500000 do x = x + i end return 'done'"
const SLOW_PAUSE_MS = 5

const PHASES = [
  { name: 'calm, before', waiting: 16, processes: 1 },
  { name: 'four processes, 4 waiting in each', waiting: 16, processes: PROCESSES },
  { name: 'four processes, 64 waiting in each', waiting: 256, processes: PROCESSES },
  { name: 'the same, a slow script beside', waiting: 256, processes: PROCESSES, isSlow: true },
  { name: 'one process, a slow script beside', waiting: 16, processes: 1, isSlow: true },
  { name: 'calm, after', waiting: 16, processes: 1 },
]

try {
  const subjects = await openSubjects([SLUICE, PEER])
  await useWorkers(subjects, { processes: PROCESSES, autoPipelining: false })
  console.log(
    `\n${describePlaces()}; one rule, uniform callers, closed loop; medians of ${SLICES} slices\n`,
  )
  const rows = []
  for (const phase of PHASES) {
    process.stderr.write(`${phase.name}\n`)
    for (const subject of subjects) rows.push(await measurePhase(subject, phase))
  }
  printTable(['', 'decisions/s', 'p50 ms', 'p99 ms', 'Redis us', 'decisions per script'], rows)
} finally {
  await stopAll()
}

async function measurePhase(subject, { name, waiting, processes, isSlow = false }) {
  const over = new AbortController()
  const slow = isSlow ? keepSlow(subject.server, over.signal) : undefined
  const cell = { waiting, processes, rules: 1, spread: 'uniform', ms: SLICE_MS }
  const slices = []
  for (let slice = 0; slice < SLICES; slice++) {
    const before = await readStore(subject.server)
    const found = await measureClosed(subject, cell)
    const { scripts } = await readStore(subject.server)
    const decisions = (found.rate * SLICE_MS) / 1000
    slices.push({ ...found, size: decisions / (scripts - before.scripts) })
  }
  over.abort()
  await slow
  const figures = ['p50', 'p99', 'redisUs', 'size'].map((of) => medianOf(slices, of).toFixed(2))
  return [`${name}: ${subject.name}`, Math.round(medianOf(slices, 'rate')), ...figures]
}

async function keepSlow(server, signal) {
  while (!signal.aborted) {
    await server.call('EVAL', SLOW_SCRIPT, '0')
    await sleep(SLOW_PAUSE_MS)
  }
}
