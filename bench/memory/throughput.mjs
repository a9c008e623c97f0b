/**
 * Decisions per second and bytes per counter, each subject in its own process, in alternating
 * rounds.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { median, printTable } from '../report.mjs'
import { subjects } from './subjects.mjs'

const COUNTERS = 1_000_000
const DECISIONS = 1_000_000
const ROUNDS = 7
const isSync = (name) => name.includes('checkSync') || name.includes('Map')

const worker = fileURLToPath(new URL('./worker.mjs', import.meta.url))
const results = []
for (const name of Object.keys(subjects)) {
  process.stderr.write(`filling ${name}\n`)
  const child = fork(worker, [name, String(COUNTERS)], { execArgv: ['--expose-gc'] })
  const [{ bytes }] = await once(child, 'message')
  results.push({ name, child, bytes, rates: [] })
}
for (let round = 0; round <= ROUNDS; round++) {
  process.stderr.write(`round ${round} of ${ROUNDS}${round === 0 ? ' (warm-up)' : ''}\n`)
  for (const { name, child, rates } of results) {
    child.send({ decisions: DECISIONS, sync: isSync(name) })
    const [{ rate }] = await once(child, 'message')
    if (round > 0) rates.push(rate)
  }
}
for (const { child } of results) child.kill()

const peer = results.find(({ name }) => name === 'rate-limiter-flexible')
const ratios = ({ rates }) => median(rates.map((rate, round) => rate / peer.rates[round]))
console.log(`\nOne limit per user, ${COUNTERS} counters, median of ${ROUNDS} alternating rounds\n`)
printTable(
  ['', 'decisions/s', 'x rate-limiter-flexible', 'bytes/counter'],
  results.map((result) => [
    result.name,
    Math.round(median(result.rates)),
    ratios(result).toFixed(2),
    Math.round(result.bytes),
  ]),
)
