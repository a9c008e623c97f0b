/**
 * One node in a process that is always busy: every turn of the event loop takes 40 ms and requests
 * some decisions. Prints a line of JSON each half second: the sources of decisions and the memory.
 *
 *     node --expose-gc busy-process.fixture.mjs '{ "url": …, "rules": … }'
 */
import { createLimiter } from '@sluice/limiter'
import { redisStore } from '@sluice/limiter/redis'

const TURN_MS = 40
const CALLS_A_TURN = 200
const REPORT_MS = 500

const { url, rules } = JSON.parse(process.argv[2])
const store = redisStore({ url, deadlineMs: 20, denyCacheMs: 0 })
const limiter = createLimiter({ rules, store })
await limiter.ready()

let sources = {}
let reportAtMs = performance.now() + REPORT_MS

function turn() {
  const startedMs = performance.now()
  while (performance.now() - startedMs < TURN_MS);
  for (let n = 0; n < CALLS_A_TURN; n++) {
    void limiter.check({ attributes: { user: `u${n}` } }).then(({ source }) => {
      sources[source] = (sources[source] ?? 0) + 1
    })
  }
  if (performance.now() > reportAtMs) report()
  setImmediate(turn)
}

function report() {
  globalThis.gc()
  const [node] = store.stats().nodes
  const { heapUsed } = process.memoryUsage()
  console.log(JSON.stringify({ sources, heapUsed, isBreakerOpen: node?.isBreakerOpen }))
  sources = {}
  reportAtMs = performance.now() + REPORT_MS
}

turn()
