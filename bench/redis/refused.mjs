/** Callers far over their limit that retry constantly; libraries that cache refusals may do so. */
import { printTable } from '../report.mjs'
import { measureRounds, medianOf, quick, useWorkers } from './measure.mjs'
import { readStore } from './processes.mjs'

const MAX = 10
const ROUNDS = 3
const ROUND_MS = quick ? 1000 : 3000
const CALLERS = [1, 1000]

/** Refusals a second by name, for one caller. */
export async function measureRefused(subjects) {
  await useWorkers(subjects, { max: MAX, warms: false })
  const found = new Map()
  for (const callers of CALLERS) {
    process.stderr.write(`${callers} refused callers\n`)
    const results = await measureRounds(subjects, ROUNDS, (subject) => measure(subject, callers))
    found.set(callers, results)
    console.log(`${callers === 1 ? 'One caller' : `${callers} callers`} far over the limit\n`)
    printTable(
      ['', 'refusals/s', 'client us', 'store calls/s'],
      [...results].map(([name, rounds]) => [
        name,
        Math.round(medianOf(rounds, 'rate')),
        medianOf(rounds, 'clientUs').toFixed(2),
        medianOf(rounds, 'scripts').toFixed(1),
      ]),
    )
  }
  return found.get(1)
}

async function measure({ server, workers: [worker] }, callers) {
  // Just refused, like a caller that retries constantly.
  await worker.order({ kind: 'exhaust', callers })
  const before = await readStore(server)
  const { decisions, seconds, cpuUs } = await worker.order({
    kind: 'refused',
    callers,
    ms: ROUND_MS,
  })
  const after = await readStore(server)
  return {
    rate: decisions / seconds,
    clientUs: cpuUs / decisions,
    scripts: (after.scripts - before.scripts) / seconds,
  }
}
