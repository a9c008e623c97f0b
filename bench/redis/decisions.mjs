/**
 * Decisions on Redis against peers: how many, what they cost this side and that side, and how long
 * they take; in one process and in several, at half the peak rate, and for callers over the limit.
 */
import { printTable } from '../report.mjs'
import {
  measureClosed,
  measureRounds,
  medianOf,
  openSubjects,
  quick,
  useWorkers,
} from './measure.mjs'
import { measurePaced } from './paced.mjs'
import { describePlaces, stopAll } from './processes.mjs'
import { measureRefused } from './refused.mjs'
import { BUCKET, FLOOR, PACKED, PEER, PEER_AUTO, SLUICE, subjects as known } from './subjects.mjs'
import { printTargets } from './targets.mjs'

const ROUNDS = quick ? 3 : 5
const ROUND_MS = quick ? 300 : 500
/** Cells with a target: longer, and in several processes, because V8's compilation varies. */
const KEY_ROUNDS = 3
const KEY_ROUND_MS = quick ? 400 : 1000
const KEY_PROCESSES = quick ? 1 : 3
const PROCESSES = quick ? [4] : [1, 2, 4]
const WAITING = [1, 16, 256, 1024]
const HEADER = ['decisions/s', 'client us', 'Redis us', 'p50 ms', 'p99 ms']

const cells = [1, 3].flatMap((rules) =>
  ['uniform', 'zipf'].flatMap((spread) => WAITING.map((waiting) => ({ rules, spread, waiting }))),
)
const isKey = ({ rules, spread, waiting }) =>
  spread === 'uniform' && (waiting === 256 || (waiting === 1 && rules === 1))
const isWanted = ({ rules, spread, waiting }) =>
  !quick || (waiting === 256 && spread === 'uniform') || (rules === 1 && spread === 'uniform')
const nameOf = ({ rules, spread, waiting }) => `${rules} ${spread} ${waiting}`

/** Of each cell, the results by the name of the subject. */
const measured = new Map()

try {
  const subjects = await openSubjects(Object.keys(known))
  const only = (...names) => subjects.filter(({ name }) => names.includes(name))
  const without = (...names) => subjects.filter(({ name }) => !names.includes(name))
  await measureCells(subjects, ({ waiting }) => waiting > 1, { autoPipelining: true })
  // With one caller there is nothing to pipeline, and trying costs a turn.
  const alone = { autoPipelining: false }
  await measureCells(without(PEER_AUTO), ({ waiting }) => waiting === 1, alone)
  const { redis_version: version } = await subjects[0].server.info('server')
  console.log(`Redis ${version}, ${describePlaces()}\n`)
  for (const rules of [1, 3]) for (const spread of ['uniform', 'zipf']) printCells(rules, spread)
  await measureProcesses(only(SLUICE, PACKED, PEER, PEER_AUTO, FLOOR))
  const peaks = new Map(subjects.map(({ name }) => [name, peakOf(name)]))
  const paced = await measurePaced(only(SLUICE, PACKED, BUCKET, PEER, PEER_AUTO), peaks)
  const refused = await measureRefused(without(FLOOR, PEER_AUTO))
  const resultsOf = (rules, waiting) => measured.get(nameOf({ rules, spread: 'uniform', waiting }))
  printTargets({ resultsOf, paced, refused })
} finally {
  await stopAll()
}

async function measureCells(subjects, isIn, options) {
  await useWorkers(subjects, options)
  for (const cell of cells.filter((each) => isWanted(each) && isIn(each))) {
    process.stderr.write(`${cell.rules} rules, ${cell.spread}, ${cell.waiting} waiting\n`)
    const [rounds, ms] = isKey(cell) ? [KEY_ROUNDS, KEY_ROUND_MS] : [ROUNDS, ROUND_MS]
    const measure = (subject) => measureClosed(subject, { ...cell, ms })
    const results = await measureRounds(subjects, rounds, measure)
    for (let more = 1; isKey(cell) && more < KEY_PROCESSES; more++) {
      await useWorkers(subjects, options)
      const others = await measureRounds(subjects, rounds, measure)
      for (const [name, found] of others) results.get(name).push(...found)
    }
    measured.set(nameOf(cell), results)
  }
}

function figuresOf(results) {
  return [
    Math.round(medianOf(results, 'rate')),
    ...['clientUs', 'redisUs', 'p50', 'p99'].map((figure) => medianOf(results, figure).toFixed(2)),
  ]
}

function printCells(rules, spread) {
  const found = cells.filter(
    (cell) => cell.rules === rules && cell.spread === spread && measured.has(nameOf(cell)),
  )
  if (found.length === 0) return
  const rows = found.flatMap((cell) =>
    [...measured.get(nameOf(cell))].map(([name, results]) => [
      `${cell.waiting} waiting: ${name}`,
      ...figuresOf(results),
    ]),
  )
  const what = rules === 1 ? 'One rule' : 'Three rules (peers: three limiters side by side)'
  console.log(`${what}, ${spread} callers; CPU per decision, medians of alternating rounds\n`)
  printTable(['', ...HEADER], rows)
}

/** The same 256 callers on one Redis, behind one process or shared by several. */
async function measureProcesses(subjects) {
  const rows = []
  for (const processes of PROCESSES) {
    process.stderr.write(`${processes} processes\n`)
    await useWorkers(subjects, { processes })
    const cell = { waiting: 256, rules: 1, spread: 'uniform', ms: ROUND_MS, processes }
    const results = await measureRounds(subjects, ROUNDS, (each) => measureClosed(each, cell))
    for (const [name, found] of results) rows.push([`${processes}: ${name}`, ...figuresOf(found)])
  }
  console.log('One rule, uniform callers, 256 waiting in all; several processes on one Redis\n')
  printTable(['processes', ...HEADER], rows)
}

function peakOf(name) {
  const rates = WAITING.filter((waiting) => waiting > 1)
    .map((waiting) => measured.get(nameOf({ rules: 1, spread: 'uniform', waiting })))
    .map((results) => medianOf(results.get(name), 'rate'))
  return Math.max(...rates)
}
