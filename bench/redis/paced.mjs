/** Calls that come evenly at half of what each subject can do, with the deadline users have. */
import { median, printTable } from '../report.mjs'
import { measureRounds, quick, useWorkers } from './measure.mjs'

const ROUNDS = 3
const ROUND_MS = quick ? 1500 : 5000

/** `peaks`: decisions a second by name. Answers p50, p99 and the share of the store, by name. */
export async function measurePaced(subjects, peaks) {
  await useWorkers(subjects, { deadlineMs: undefined })
  process.stderr.write('half the peak rate\n')
  const results = await measureRounds(subjects, ROUNDS, ({ name, workers: [worker] }) =>
    worker.order({ kind: 'paced', rate: peaks.get(name) / 2, rules: 1, ms: ROUND_MS }),
  )
  const found = new Map([...results].map(([name, rounds]) => [name, summaryOf(rounds)]))
  console.log('One rule, uniform callers at half the peak rate, evenly; default deadline\n')
  printTable(
    ['', 'decisions/s', 'p50 ms', 'p99 ms', 'by the store'],
    [...found].map(([name, { p50, p99, share }]) => [
      name,
      Math.round(peaks.get(name) / 2),
      p50.toFixed(2),
      p99.toFixed(2),
      `${(share * 100).toFixed(3)} %`,
    ]),
  )
  return found
}

function summaryOf(rounds) {
  const sum = (figure) => rounds.reduce((total, round) => total + round[figure], 0)
  return {
    p50: median(rounds.map(({ p50 }) => p50)),
    p99: median(rounds.map(({ p99 }) => p99)),
    share: sum('fromStore') / sum('decisions'),
  }
}
