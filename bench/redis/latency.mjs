/**
 * What a decision on Redis waits, against rate-limiter-flexible: with a network of 1 ms each way
 * and calls that arrive evenly, then on the loopback with so many callers waiting at any time.
 */
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { printTable } from '../report.mjs'
import {
  measureClosed,
  measureRounds,
  medianOf,
  openSubjects,
  quick,
  ratioOf,
  useWorkers,
} from './measure.mjs'
import { describePlaces, readStore, startDelay, startGenerator, stopAll } from './processes.mjs'
import { BUCKET, PEER, SLUICE } from './subjects.mjs'
import { atLeast, atMost, verdict } from './verdicts.mjs'

const DELAY_MS = 1
const RATES = [500, 2000, 10_000]
const SLICES = quick ? 5 : 11
const SLICE_MS = quick ? 1500 : 4000
const WARM_UP_MS = 2000
const WAITING = [1, 4, 16, 64, 256]
const CLOSED_SLICES = quick ? 5 : 11
const CLOSED_SLICE_MS = quick ? 300 : 500
const COLUMNS = ['p50 ms', 'p99 ms', 'client us', 'Redis us']
const FIGURES = ['p50', 'p99', 'clientUs', 'redisUs']

const only = process.argv.find((word) => word.startsWith('--only='))?.slice('--only='.length)

try {
  const subjects = await openSubjects([SLUICE, BUCKET, PEER])
  const generator = await startGenerator()
  const { redis_version: version } = await subjects[0].server.info('server')
  console.log(`Redis ${version}, ${describePlaces()}\n`)
  if (only !== 'closed') await measureDistant(subjects, generator)
  if (only !== 'distant') await measureLoopback(subjects)
} finally {
  await stopAll()
}

/** Calls that arrive evenly, sent by a process of their own over a socket. */
async function measureDistant(subjects, generator) {
  for (const subject of subjects) {
    subject.url = (await startDelay(subject.server, DELAY_MS)).url
  }
  await useWorkers(subjects, { autoPipelining: false })
  for (const [index, subject] of subjects.entries()) {
    subject.path = join(tmpdir(), `sluice-bench-${process.pid}-${index}`)
    await subject.workers[0].order({ kind: 'serve', path: subject.path, rules: 1 })
  }
  const results = new Map()
  for (const rate of RATES) {
    process.stderr.write(`${rate} calls a second, ${DELAY_MS} ms away each way\n`)
    const slice = (ms) => (subject) => measureSlice(subject, generator, { rate, ms })
    await measureRounds(subjects, 1, slice(WARM_UP_MS))
    results.set(rate, await measureRounds(subjects, SLICES, slice(SLICE_MS)))
  }
  console.log(
    `One rule, uniform callers, ${DELAY_MS} ms to Redis and ${DELAY_MS} ms back; calls arrive evenly, sent by a process of ` +
      `their own.\nEach process decided 10^5 calls and ${WARM_UP_MS / 1000} s of calls at each rate before its first slice. ` +
      `Medians of ${SLICES} alternating slices of ${SLICE_MS / 1000} s.\n`,
  )
  printFigures(results, (rate) => `${rate}/s`)
  printRatios(results, (rate) => `${rate}/s`, [
    { figure: 'p50', what: 'p50', ...atMost(1.05) },
    { figure: 'p99', what: 'p99', ...atMost(1.25) },
    { figure: 'clientUs', what: 'client CPU' },
    { figure: 'redisUs', what: 'Redis CPU' },
  ])
  for (const subject of subjects) subject.url = undefined
}

async function measureSlice({ server, workers: [worker], path }, generator, { rate, ms }) {
  const before = await readStore(server)
  await worker.order({ kind: 'used' })
  const answer = await generator.order({ path, rate, ms })
  const { cpuUs } = await worker.order({ kind: 'used' })
  const after = await readStore(server)
  return {
    ...answer,
    clientUs: cpuUs / answer.decisions,
    redisUs: (after.cpuUs - before.cpuUs) / answer.decisions,
  }
}

/** This many concurrent calls, in the subject's own process. */
async function measureLoopback(subjects) {
  await useWorkers(subjects, { autoPipelining: false })
  const results = new Map()
  const cells = [...WAITING.map((waiting) => ({ waiting, rules: 1 })), { waiting: 256, rules: 3 }]
  for (const cell of cells) {
    process.stderr.write(`${cell.waiting} waiting, ${cell.rules} rules\n`)
    const slice = (ms) => (subject) => measureClosed(subject, { ...cell, spread: 'uniform', ms })
    await measureRounds(subjects, 1, slice(CLOSED_SLICE_MS))
    results.set(cell, await measureRounds(subjects, CLOSED_SLICES, slice(CLOSED_SLICE_MS)))
  }
  console.log(
    `Uniform callers on the loopback, so many waiting at any time. Each process decided 10^5 calls, 1.2 s of ` +
      `calls and a slice before its first.\nMedians of ${CLOSED_SLICES} alternating slices of ${CLOSED_SLICE_MS / 1000} s.\n`,
  )
  const name = ({ waiting, rules }) => `${waiting} waiting${rules === 1 ? '' : ', three rules'}`
  printFigures(results, name, 'rate')
  const leastRate = ({ waiting, rules }) => {
    if (waiting === 4 || waiting === 16) return atLeast(1)
    if (waiting === 256) return atLeast(rules === 1 ? 2 : 3)
    return {}
  }
  const isLarge = ({ waiting }) => waiting === 256
  printRatios(results, name, [
    { figure: 'rate', what: 'decisions/s', targetOf: leastRate },
    {
      figure: 'redisUs',
      what: 'Redis CPU',
      targetOf: (cell) => (isLarge(cell) ? atMost(0.5) : {}),
    },
    {
      figure: 'clientUs',
      what: 'client CPU',
      targetOf: (cell) => (isLarge(cell) ? atMost(0.333) : {}),
    },
  ])
}

function printFigures(results, nameOf, rate) {
  const rows = [...results].flatMap(([cell, found]) =>
    [...found].map(([name, slices]) => [
      `${nameOf(cell)}: ${name}`,
      ...(rate === undefined ? [] : [Math.round(medianOf(slices, rate))]),
      ...FIGURES.map((figure) => medianOf(slices, figure).toFixed(2)),
    ]),
  )
  printTable(['', ...(rate === undefined ? [] : ['decisions/s']), ...COLUMNS], rows)
}

/** The ratio in each slice to the peer's slice beside it. */
function printRatios(results, nameOf, figures) {
  for (const name of [SLUICE, BUCKET]) {
    const rows = [...results].flatMap(([cell, found]) =>
      figures.map(({ figure, what, targetOf, ...always }) => {
        const { median, least, most } = ratioOf(found.get(name), found.get(PEER), figure)
        const { target = '', isReached } = targetOf === undefined ? always : targetOf(cell)
        const shown = [median, least, most].map((ratio) => ratio.toFixed(2))
        const reached = isReached === undefined ? '' : verdict(isReached(median))
        return [`${nameOf(cell)}: ${what}`, ...shown, target, reached]
      }),
    )
    printTable([`${name} of ${PEER}`, 'median', 'lowest', 'highest', 'target', ''], rows)
  }
}
