/**
 * `npm run bench -- grpc`: the rate limit service for Envoy under h2load. A server that gives a
 * constant answer, `sluice serve` on each of its gRPC servers, in memory and on Redis, and peers.
 *
 * Servers have one core, h2load and Redis another one. Rounds of all alternate, and figures are
 * medians. `--quick` measures a few short rounds; `--only TEXT` those whose name has the text;
 * `--ratelimit`, `--limitador` and `--gubernator` are paths of peers; `--write` writes the page,
 * and `--note TEXT` a sentence there.
 */
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { startRedis } from '../../tools/redis/server.mjs'
import { describePlaces, pin, stopAll } from '../gateway/processes.mjs'
import { median, printTable } from '../report.mjs'
import { checkCalls } from './client.mjs'
import { load, SHAPE } from './h2load.mjs'
import { writePage } from './page.mjs'
import { findSubjects } from './subjects.mjs'
import { tablesOf, targetsOf } from './tables.mjs'

const { values } = parseArgs({
  args: process.argv.slice(3),
  strict: false,
  options: {
    quick: { type: 'boolean' },
    write: { type: 'boolean' },
    only: { type: 'string' },
    note: { type: 'string', default: '' },
  },
})
const isQuick = values.quick === true
const ROUNDS = isQuick ? 5 : 9
const ROUND_S = isQuick ? 1 : 2
/** Compilers of JavaScript and pools of connections need some of it. */
const WARM_UP_ROUNDS = 3
const FIRST_CALLS = 5000
/** A rate that every subject sustains, so that latencies are those of the same load. */
const PACED_PER_SECOND = 4000
const PACED_S = isQuick ? 1 : 3
const CHECKED_CALLS = 20
const log = (line) => process.stderr.write(`${line}\n`)

const { subjects, missing } = findSubjects()
for (const program of missing) console.log(`${program}: not found, and not measured`)
console.log(`${describePlaces()}, as is Redis; h2load: ${SHAPE}\n`)
const redis = await startRedis()
try {
  pin(redis.pid, 'load')
  const runs = await startAll(subjects)
  for (let round = 0; round < WARM_UP_ROUNDS; round++) {
    for (const run of runs) run.calls = await warm(run)
  }
  for (let round = 0; round < ROUNDS; round++) {
    for (const run of runs) run.rounds.push(await measure(run))
  }
  report(runs.map(resultOf))
} finally {
  await stopAll()
  await redis.stop()
}

/** Starts each subject, and returns its runs: one for each kind of call. */
async function startAll(chosen) {
  const runs = []
  for (const subject of chosen) {
    if (values.only !== undefined && !subject.name.includes(values.only)) continue
    const { pid, url } = await start(subject)
    if (pid === undefined) continue
    for (const kind of subject.calls) {
      const { path, request, kindOf } = subject.service
      const name = [subject.name, subject.store, kind].filter(Boolean).join(', ')
      const wanted = kind === 'refused' ? kind : 'admitted'
      const method = { name, pid, url, path, request: request(wanted), kindOf, wanted }
      // The first call of those to be refused takes what there is.
      if (kind === 'refused') await checkCalls({ ...method, kindOf: () => kind, count: 1 })
      runs.push({ subject, kind, method, calls: FIRST_CALLS, rounds: [] })
    }
  }
  return runs
}

/** A peer that does not start is left out. */
async function start(subject) {
  try {
    return await subject.start(redis.url)
  } catch (error) {
    if (subject.program === undefined) throw error
    console.log(
      `${subject.name}, ${subject.store}: did not start, and is not measured\n${String(error)}`,
    )
    missing.push(`${subject.name} on ${subject.store}`)
    return {}
  }
}

/** How many calls a round needs. */
async function warm(run) {
  const answerBytes = await checkCalls({ ...run.method, count: CHECKED_CALLS })
  const { perSecond } = await load({ ...run.method, answerBytes, calls: run.calls })
  return Math.round(perSecond * ROUND_S)
}

/** One round at full load, and one at the rate of all. */
async function measure({ method, subject, calls }) {
  log(method.name)
  const answerBytes = await checkCalls({ ...method, count: CHECKED_CALLS })
  const before = redis.cpuMs()
  const full = await load({ ...method, answerBytes, calls })
  const redisUs = subject.store === 'Redis' ? ((redis.cpuMs() - before) / calls) * 1000 : undefined
  const paced = await load({
    ...method,
    answerBytes,
    calls: PACED_PER_SECOND * PACED_S,
    perSecond: PACED_PER_SECOND,
  })
  return { ...full, redisUs, pacedP99Ms: paced.p99Ms }
}

function resultOf({ subject, kind, rounds }) {
  const figure = (name) => {
    const all = rounds.map((round) => round[name])
    return all[0] === undefined
      ? undefined
      : { median: median(all), least: Math.min(...all), most: Math.max(...all) }
  }
  return {
    name: subject.name,
    store: subject.store,
    kind,
    perSecond: figure('perSecond'),
    cpuUs: figure('cpuUs'),
    redisUs: figure('redisUs'),
    p99Ms: figure('p99Ms'),
    pacedP99Ms: figure('pacedP99Ms'),
  }
}

function report(results) {
  const tables = tablesOf(results, PACED_PER_SECOND)
  for (const { title, header, rows } of tables) {
    if (rows.length === 0) continue
    console.log(`${title}:`)
    printTable(header, rows)
  }
  const targets = targetsOf(results)
  printTable(targets.header, targets.rows)
  if (values.write !== true) return
  const [cpu] = cpus()
  const machine = `${cpus().length} x ${cpu?.model.trim()}, Node ${process.version}`
  // Paths of peers are of this machine only.
  const command = ['grpc', ...(isQuick ? ['--quick'] : []), '--write'].join(' ')
  const measured = tables.filter(({ rows }) => rows.length > 0)
  const how = { missing, command, machine, rounds: ROUNDS, shape: SHAPE, note: values.note }
  writePage({ tables: measured, targets, ...how })
}
