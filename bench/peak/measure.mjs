/**
 * `npm run bench -- peak`: the peak that Sluice is built for, 58,000 decisions a second for ten
 * minutes, by several processes on one Redis, with two rules for each call and calls that come
 * evenly. Where the machine does not carry that, the highest rate at which 99.99 % of the decisions
 * are the store's is looked for first, and held for the whole time.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { printTable } from '../report.mjs'
import { describePlaces, pin, readStore, startStore, stopAll } from '../redis/processes.mjs'

const { values: options } = parseArgs({
  args: process.argv.slice(3),
  options: {
    rate: { type: 'string', default: '58000' },
    minutes: { type: 'string', default: '10' },
    processes: { type: 'string', default: '2' },
    callers: { type: 'string', default: '100000' },
    deadline: { type: 'string' },
    quick: { type: 'boolean', default: false },
  },
})
const WANTED = Number(options.rate)
const PROCESSES = Number(options.processes)
const MEASURE_MS = options.quick ? 20_000 : Number(options.minutes) * 60_000
const WARM_UP_MS = options.quick ? 5000 : 20_000
const TRIAL_MS = options.quick ? 5000 : 20_000
const SHARE_MIN = 0.9999
/** Rates to try if the target rate is not sustained, as shares of it. */
const STEPS = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]

const server = await startStore()
const nodes = []
process.once('exit', () => {
  for (const child of nodes) child.kill('SIGKILL')
})

try {
  for (let n = 0; n < PROCESSES; n++) nodes.push(await startNode())
  console.log(`${PROCESSES} processes, one Redis, two rules a call, ${describePlaces()}`)
  console.log(
    `warm-up: ${WARM_UP_MS / 1000} s at half the rate, then ${TRIAL_MS / 1000} s a trial\n`,
  )
  await run(WANTED / 2, WARM_UP_MS)
  const rate = await findRate()
  if (rate === undefined) {
    console.log(`No rate from ${0.1 * WANTED} to ${WANTED} had ${SHARE_MIN * 100} % by the store.`)
  } else {
    process.stderr.write(`${rate} a second for ${MEASURE_MS / 60_000} minutes\n`)
    report([await run(rate, MEASURE_MS)])
  }
} finally {
  for (const child of nodes.splice(0)) await stopNode(child)
  await stopAll()
}

/** The highest rate that is sustained in a trial. */
async function findRate() {
  const trials = []
  let found
  for (const share of [1, ...STEPS]) {
    const rate = Math.round(WANTED * share)
    const trial = await run(rate, TRIAL_MS).catch((error) => ({ rate, failed: String(error) }))
    trials.push(trial)
    const held = trial.failed === undefined && trial.share >= SHARE_MIN && trial.reached > 0.99
    if (held) found = rate
    if (held) break
  }
  if (trials.length > 1) {
    console.log('Trials:\n')
    report(trials)
  }
  return found
}

/** All nodes together at a rate, each with its share. */
async function run(rate, ms) {
  const before = await readStore(server)
  const startedMs = performance.now()
  const results = await Promise.all(nodes.map((child) => order(child, rate / nodes.length, ms)))
  const seconds = (performance.now() - startedMs) / 1000
  const after = await readStore(server)
  const calls = results.reduce((sum, result) => sum + result.calls, 0)
  const byStore = results.reduce((sum, { sources }) => sum + (sources.store ?? 0), 0)
  return {
    rate,
    reached: calls / seconds / rate,
    share: byStore / calls,
    // Nodes are alike and have the same number of calls: the slower one represents both.
    percentiles: results[0].percentiles.map((_, i) =>
      Math.max(...results.map(({ percentiles }) => percentiles[i])),
    ),
    nodeCpu: results.reduce((sum, { cpuShare }) => sum + cpuShare, 0),
    redisCpu: (after.cpuUs - before.cpuUs) / 1e6 / seconds,
    callsPerScript: calls / Math.max(1, after.scripts - before.scripts),
  }
}

function report(runs) {
  const ms = (us) => (us / 1000).toFixed(2)
  printTable(
    [
      'decisions/s',
      'by the store',
      'p50 ms',
      'p99 ms',
      'p99.9 ms',
      'most ms',
      'node CPU',
      'Redis CPU',
      'calls a script',
    ],
    runs.map((trial) =>
      trial.failed === undefined
        ? [
            trial.rate,
            `${(trial.share * 100).toFixed(4)} %`,
            ms(trial.percentiles[0]),
            ms(trial.percentiles[2]),
            ms(trial.percentiles[3]),
            ms(trial.percentiles[5]),
            `${Math.round(trial.nodeCpu * 100)} %`,
            `${Math.round(trial.redisCpu * 100)} %`,
            trial.callsPerScript.toFixed(1),
          ]
        : [trial.rate, trial.failed, '', '', '', '', '', '', ''],
    ),
  )
}

async function startNode() {
  const path = fileURLToPath(new URL('./worker.mjs', import.meta.url))
  const deadlineMs = options.deadline === undefined ? undefined : Number(options.deadline)
  const task = { url: server.url, callers: Number(options.callers), deadlineMs }
  const env = { ...process.env, NODE_ENV: 'production' }
  const child = fork(path, [JSON.stringify(task)], { env })
  pin(child.pid, 'worker')
  await once(child, 'message')
  return child
}

async function order(child, rate, ms) {
  child.send({ rate, ms })
  const [result] = await once(child, 'message')
  if (result.failed !== undefined) throw new Error(result.failed)
  return result
}

async function stopNode(child) {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.disconnect()
  await ended
}
