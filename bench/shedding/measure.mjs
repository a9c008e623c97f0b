/**
 * What is served in overload, and of what: Sluice beside @fastify/under-pressure,
 * overload-protection and toobusy-js. `--quick` measures 0.7 and 3 times the capacity once;
 * `--short` measures four loads once, and a minute of what otherwise takes ten; `--only=loop` and
 * `--only=in-flight` one of the halves; `--write` writes tables and plots to `docs/shedding`.
 */
import { cpus } from 'node:os'
import { describePlaces } from '../gateway/processes.mjs'
import { median, printTable } from '../report.mjs'
import { inFlight, loop } from './halves.mjs'
import { writePages } from './page.mjs'
import { overloadAndBack, PRIORITIES, sawtooth, stepTo } from './setting.mjs'
import { figuresOf } from './tally.mjs'

const isQuick = process.argv.includes('--quick')
const isShort = process.argv.includes('--short')
const only = process.argv.find((argument) => argument.startsWith('--only='))?.slice(7)
const ALL_LOADS = isShort ? [0.7, 1.5, 3, 6] : [0.7, 1, 1.5, 2, 3, 6]
const LOADS = isQuick ? [0.7, 3] : ALL_LOADS
const ROUNDS = isQuick || isShort ? 1 : 3
/** Below the capacity nothing has to settle. */
const QUIET_SETTLE_S = 1
const TEETH = isShort ? 2 : 4
const TOOTH_S = 15
const LONG_MINUTES = isShort ? 1 : 10
const LONG_S = LONG_MINUTES * 60
/** The same, as logs and the summary say it. */
const LONG_TEXT = isShort ? 'a minute' : 'ten minutes'
const BACK_S = 90
/** Sluice's own setting in the guide; peers are tuned. */
const DELAY_MS = 50
const TURNS_MAX = 20
const BACK_S_MAX = 60
const P99_RATIO_MAX = 2
const PAUSED_MAX = 0.05

const percent = (share) => `${(share * 100).toFixed(1)} %`
const log = (line) => process.stderr.write(`${line}\n`)

console.log(`${describePlaces()}; calls: ${PRIORITIES.join(', ')} as 10, 20, 50 and 20 %\n`)
const halves = [inFlight, loop].filter(
  ({ name }) => only === undefined || name.replace(' ', '-') === only,
)
const measured = []
for (const half of halves) {
  const { subjects, quickSubjects = subjects } = half
  measured.push(await measure({ ...half, subjects: isQuick ? quickSubjects : subjects }))
}
if (process.argv.includes('--write')) {
  const [cpu] = cpus()
  const machine = `${cpus().length} x ${cpu?.model.trim()}, Node ${process.version}`
  writePages(measured, { command: process.argv.slice(2).join(' '), machine })
}
process.exit(0)

async function measure(half) {
  const delays = await tune(half)
  const runOf = async (subject, profile) => {
    const ran = await half.run(subject, profile, delays[subject])
    return { capacity: ran.capacity, paused: ran.paused ?? 0, ...figuresOf(ran) }
  }
  const { steps, capacity, paused } = await measureSteps(half, runOf)
  const long = isQuick ? {} : await measureLong(half, runOf)
  const figures = { half, capacity, paused, delays, steps, ...long }
  const result = { ...figures, tables: tablesOf(figures), summary: summaryOf(figures) }
  report(result)
  return result
}

/** The delay that each subject aims at: for peers the one with the best goodput at 3 times. */
async function tune({ subjects, delays, run, settleS }) {
  const chosen = {}
  for (const subject of subjects) {
    const candidates = isQuick || subject.startsWith('Sluice') ? [DELAY_MS] : delays
    let best = { goodput: -1, delayMs: candidates[0] }
    for (const delayMs of candidates.length === 1 ? [] : candidates) {
      log(`${subject}: tries ${delayMs} ms`)
      const profile = stepTo(3, { settleS, seconds: 8 })
      const { goodput } = figuresOf(await run(subject, profile, delayMs))
      if (goodput > best.goodput) best = { goodput, delayMs }
    }
    chosen[subject] = best.delayMs
  }
  return chosen
}

/** Medians by subject and load, in alternating rounds. */
async function measureSteps({ subjects, settleS, seconds, quick }, runOf) {
  const lengths = isQuick ? quick : { settleS, seconds }
  const runs = []
  for (let round = 1; round <= ROUNDS; round++) {
    for (const x of LOADS) {
      for (const subject of subjects) {
        log(`round ${round} of ${ROUNDS}: ${x} times, ${subject}`)
        const profile = stepTo(x, x < 1 ? { ...lengths, settleS: QUIET_SETTLE_S } : lengths)
        runs.push({ subject, x, ...(await runOf(subject, profile)) })
      }
    }
  }
  const steps = subjects.flatMap((subject) =>
    LOADS.map((x) => {
      const own = runs.filter((run) => run.subject === subject && run.x === x)
      const of = (read) => median(own.map(read))
      const served = PRIORITIES.map((name) => [name, of((run) => run.served[name])])
      return {
        subject,
        x,
        served: Object.fromEntries(served),
        goodput: of(({ goodput }) => goodput),
        p99: of(({ p99 }) => p99),
        shed: of(({ shed }) => shed),
      }
    }),
  )
  const paused = Math.max(...runs.map((run) => run.paused))
  return { steps, capacity: median(runs.map((run) => run.capacity)), paused }
}

/** A sawtooth for all, and what takes long for Sluice alone. */
async function measureLong({ subjects }, runOf) {
  const teeth = []
  for (const subject of subjects) {
    log(`sawtooth, ${subject}`)
    teeth.push({ subject, ...(await runOf(subject, sawtooth(TEETH, TOOTH_S))) })
  }
  const [sluice] = subjects
  log(`0.7 times for ${LONG_TEXT}`)
  const quiet = await runOf(sluice, stepTo(0.7, { settleS: 1, seconds: LONG_S }))
  log(`twice for ${LONG_TEXT}, and back`)
  const long = await runOf(sluice, overloadAndBack(LONG_S, BACK_S))
  return { teeth, quiet, long }
}

/** The tables of a half, and a sentence on what takes long. */
function tablesOf({ half, delays, steps, teeth }) {
  const at = (subject, x) => steps.find((step) => step.subject === subject && step.x === x)
  const overload = {
    header: [
      'at 3 times',
      ...PRIORITIES,
      'goodput',
      'p99 critical',
      'p99 at 0.7',
      'shed at 0.7',
      'aims at',
    ],
    rows: half.subjects.map((subject) => {
      const { served, goodput, p99 } = at(subject, 3)
      const quietly = at(subject, 0.7)
      return [
        subject,
        ...PRIORITIES.map((name) => percent(served[name])),
        percent(goodput),
        `${p99.toFixed(0)} ms`,
        `${quietly.p99.toFixed(0)} ms`,
        percent(quietly.shed),
        `${delays[subject]} ms`,
      ]
    }),
  }
  const byLoad = ([what, read]) => ({
    header: [what, ...LOADS.map((x) => `${x} x`)],
    rows: half.subjects.map((subject) => [
      subject,
      ...LOADS.map((x) => percent(read(at(subject, x)))),
    ]),
  })
  const loads = [
    ['critical served', ({ served }) => served.critical],
    ['goodput', ({ goodput }) => goodput],
  ]
  const sawteeth = {
    header: ['sawtooth to 3 times', 'critical', 'goodput', 'p99 critical'],
    rows: (teeth ?? []).map(({ subject, served, goodput, p99 }) => [
      subject,
      percent(served.critical),
      percent(goodput),
      `${p99.toFixed(0)} ms`,
    ]),
  }
  return isQuick ? [overload] : [overload, ...loads.map(byLoad), sawteeth]
}

function summaryOf({ half, quiet, long }) {
  if (long === undefined) return ''
  return (
    `${half.subjects[0]}: ${quiet.shedCalls} calls shed in ${LONG_TEXT} at 0.7 times the capacity; ` +
    `${long.turns} turns of what is shed in ${LONG_TEXT} at twice the capacity; ` +
    `all calls are back ${long.backS} s after it.`
  )
}

function report(result) {
  const { half, capacity, paused, tables, summary } = result
  console.log(`${half.about}: ${Math.round(capacity)} calls a second\n`)
  for (const { header, rows } of tables) printTable(header, rows)
  if (summary !== '') console.log(`${summary}\n`)
  if (paused > PAUSED_MAX) {
    const found = `a process could not run for ${percent(paused)} of its time`
    console.log(`the machine is busy: ${found}, which makes timers of peers late\n`)
  }
  for (const miss of missed(result)) console.log(`target missed: ${miss}`)
}

/** What was promised and not reached, as far as it was measured. */
function missed({ half, steps, quiet, long }) {
  const [sluice] = half.subjects
  const at = (subject, x) => steps.find((step) => step.subject === subject && step.x === x)
  const { served, goodput, p99 } = at(sluice, 3)
  const best = Math.max(...half.subjects.map((subject) => at(subject, 3).goodput))
  const quietP99 = at(sluice, 0.7).p99
  const { targets } = half
  const misses = [
    served.critical < targets.critical &&
      `critical served ${percent(served.critical)}; wanted: ${percent(targets.critical)}`,
    goodput < targets.goodput * best &&
      `goodput ${percent(goodput)}; wanted: ${percent(targets.goodput)} of ${percent(best)}`,
    p99 > P99_RATIO_MAX * quietP99 &&
      `p99 of critical calls ${p99.toFixed(0)} ms; wanted: ${P99_RATIO_MAX} times ${quietP99.toFixed(0)} ms`,
    (quiet?.shedCalls ?? 0) > 0 && `${quiet?.shedCalls} calls shed at 0.7 times; wanted: none`,
    (long?.turns ?? 0) > TURNS_MAX && `${long?.turns} turns; wanted: at most ${TURNS_MAX}`,
    (long?.backS ?? 0) > BACK_S_MAX && `back after ${long?.backS} s; wanted: ${BACK_S_MAX} s`,
  ]
  return misses.filter((miss) => miss !== false).map((miss) => `${half.name}: ${miss}`)
}
