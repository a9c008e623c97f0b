/**
 * What priorities cost a decision in memory: the same rules without them, with two priorities, and
 * with ten lines of `classify`. With `--against PATH`, another checkout that is built decides the
 * same calls without priorities: what the feature costs those who do not use it.
 *
 * Each subject has several processes, because V8 compiles each a little differently; all run in
 * alternating rounds, and their CPU time is compared, which does not depend on what else runs.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { median, printTable } from '../report.mjs'

const isQuick = process.argv.includes('--quick')
const PROCESSES = isQuick ? 3 : 7
const ROUNDS = isQuick ? 20 : 80
/** Short rounds, so that what else the machine does falls on all subjects alike. */
const DECISIONS = 50_000
/** Rounds before V8 has compiled all that it will. */
const WARM_UP = 8
const TARGETS = { lines: 1.03, unused: 1.01 }

const here = fileURLToPath(new URL('../..', import.meta.url))
const at = process.argv.indexOf('--against')
const before = at === -1 ? undefined : resolve(process.argv[at + 1] ?? '.')

const subjects = [
  { name: 'no priorities', root: here, lines: undefined },
  { name: 'two priorities, no line', root: here, lines: 0 },
  { name: 'two priorities, 10 lines', root: here, lines: 10 },
  ...(before === undefined ? [] : [{ name: 'no priorities, before', root: before }]),
]

const worker = fileURLToPath(new URL('./priorities-worker.mjs', import.meta.url))
const processes = []
for (let i = 0; i < PROCESSES; i++) {
  for (const { name, root, lines } of subjects) {
    const child = fork(worker, [root, String(lines ?? '')])
    await once(child, 'message')
    processes.push({ name, child, costs: [] })
  }
}
for (let round = 1 - WARM_UP; round <= ROUNDS; round++) {
  if (round % 10 === 0) process.stderr.write(`round ${round} of ${ROUNDS}\n`)
  for (const { child, costs } of processes) {
    child.send({ decisions: DECISIONS })
    const [{ ns }] = await once(child, 'message')
    if (round > 0) costs.push(ns)
  }
}
for (const { child } of processes) child.kill()

/** The costs of a subject: for each round, the median of its processes. */
function costsOf(name) {
  const own = processes.filter((each) => each.name === name)
  return Array.from({ length: ROUNDS }, (_, round) => median(own.map(({ costs }) => costs[round])))
}
const base = costsOf('no priorities')
const ratioOf = (name, others = base) =>
  median(costsOf(name).map((cost, round) => cost / others[round]))

console.log(
  `Two rules met by each call, ${PROCESSES} processes each, median of ${ROUNDS} alternating rounds\n`,
)
printTable(
  ['', 'CPU per decision, ns', 'x no priorities'],
  subjects.map(({ name }) => [name, Math.round(median(costsOf(name))), ratioOf(name).toFixed(3)]),
)
const lines = ratioOf('two priorities, 10 lines')
if (lines > TARGETS.lines) {
  console.log(`target missed: 10 lines cost ${lines.toFixed(3)}; wanted: ${TARGETS.lines}`)
}
if (before !== undefined) {
  const unused = 1 / ratioOf('no priorities, before')
  const found = `without priorities, after / before: ${unused.toFixed(3)}`
  console.log(unused > TARGETS.unused ? `target missed: ${found}; wanted: 1` : found)
}
