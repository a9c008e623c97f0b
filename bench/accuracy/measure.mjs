/**
 * How far each algorithm is from the exact log on real traffic: every call of a recorded trace is
 * decided by each of them, with the same limit by caller, in the time of the trace.
 *
 * The trace has a line `second,caller` for each call: 25,000 requests to the SEC's EDGAR archive of
 * 30 June 2017, callers numbered. Its times are whole seconds, so the calls of a second are spread
 * over it evenly, in their order.
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { gunzipSync } from 'node:zlib'
import { createLimiter } from '@sluice/limiter'
import { manualClock } from '@sluice/limiter/testing'
import { printTable } from '../report.mjs'

const TRACE = fileURLToPath(new URL('./sec-edgar-2017-06-30.csv.gz', import.meta.url))
const LIMITS = [
  { max: 10, window: '1s', windowUs: 1_000_000 },
  { max: 100, window: '10s', windowUs: 10_000_000 },
  { max: 60, window: '30s', windowUs: 30_000_000 },
]
const ALGORITHMS = [
  { algorithm: 'sliding-window-log' },
  { algorithm: 'sliding-window-counter' },
  { algorithm: 'fixed-window' },
  { algorithm: 'token-bucket' },
  { algorithm: 'token-bucket', share: 0.2 },
  { algorithm: 'gcra' },
]
/** Bytes of a counter in a memory store of a million, and of a log with its entries. */
const COUNTER_BYTES = 48
const LOG_BYTES = 200
const LOG_ENTRY_BYTES = 16

const calls = readTrace()
const callers = new Set(calls.map(({ caller }) => caller)).size
console.log(`${calls.length} calls of ${callers} callers in ${Math.ceil(calls.at(-1).us / 1e6)} s`)
for (const limit of LIMITS) {
  const exact = decide({ algorithm: 'sliding-window-log' }, limit)
  const beyond = new Set(calls.filter((_, at) => !exact[at]).map(({ caller }) => caller))
  console.log(`\n${limit.max} in ${limit.window} by caller\n`)
  printTable(
    ['', 'refused', 'wrongly admitted', 'wrongly refused', 'of callers within', 'bytes a caller'],
    ALGORITHMS.map((algorithm) => {
      const decisions = decide(algorithm, limit)
      const { refused, over, under, longest } = judge(decisions, limit)
      const within = calls.filter(({ caller }, at) => !decisions[at] && !beyond.has(caller)).length
      const cells = [refused, over, under, within].map(percent)
      return [nameOf(algorithm, limit), ...cells, bytesOf(algorithm, longest)]
    }),
  )
}

/**
 * Holds each decision against what a log of the calls admitted so far would say: an admitted call
 * is wrong where `max` were admitted in the last window, a refused one where fewer were.
 */
function judge(decisions, { max, windowUs }) {
  const admitted = new Map()
  const longest = new Map()
  const found = { refused: 0, over: 0, under: 0 }
  for (const [at, { caller, us }] of calls.entries()) {
    const log = (admitted.get(caller) ?? []).filter((each) => each > us - windowUs)
    admitted.set(caller, log)
    if (!decisions[at]) found.refused++
    if (decisions[at] && log.length >= max) found.over++
    if (!decisions[at] && log.length < max) found.under++
    if (decisions[at]) log.push(us)
    longest.set(caller, Math.max(longest.get(caller) ?? 0, log.length))
  }
  return { ...found, longest: [...longest.values()] }
}

function readTrace() {
  const file = process.argv.at(-1)?.endsWith('.csv.gz') ? process.argv.at(-1) : TRACE
  const lines = gunzipSync(readFileSync(file)).toString('utf8').trim().split('\n')
  const rows = lines.map((line) => line.split(','))
  const perSecond = new Map()
  for (const [second] of rows) perSecond.set(second, (perSecond.get(second) ?? 0) + 1)
  const seen = new Map()
  return rows.map(([second, caller]) => {
    const place = seen.get(second) ?? 0
    seen.set(second, place + 1)
    return {
      caller,
      us: Math.floor((Number(second) + place / perSecond.get(second)) * 1e6),
    }
  })
}

function decide({ algorithm, share }, { max, window }) {
  const clock = manualClock()
  const midnight = clock.now()
  const burst = share === undefined ? {} : { burst: Math.max(1, max * share) }
  const limits = [{ algorithm, max, window, ...burst }]
  const limiter = createLimiter({ rules: [{ id: 'by-caller', by: ['user'], limits }], clock })
  return calls.map(({ caller, us }) => {
    clock.set(midnight + us)
    return limiter.checkSync({ attributes: { user: caller } }).allowed
  })
}

/** Of a log: the mean over all callers when each is longest, and the most. */
function bytesOf({ algorithm }, longest) {
  if (algorithm !== 'sliding-window-log') return COUNTER_BYTES
  const bytes = longest.map((entries) => LOG_BYTES + LOG_ENTRY_BYTES * entries)
  const mean = Math.round(bytes.reduce((sum, each) => sum + each, 0) / bytes.length)
  return `${mean}, up to ${Math.max(...bytes)}`
}

function nameOf({ algorithm, share }, { max }) {
  return share === undefined ? algorithm : `${algorithm}, burst ${Math.max(1, max * share)}`
}

function percent(count) {
  return `${((100 * count) / calls.length).toFixed(2)} %`
}
