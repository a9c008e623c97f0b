/**
 * What a decision costs with 10, 1,000 and 10,000 rules. Half of the rules differ by path, half
 * only by one `where` value; every call meets one of each.
 */
import { compileRules, matchRules, parseRules, sipKey } from '../../packages/core/dist/index.js'
import { createLimiter } from '../../packages/limiter/dist/index.js'
import { median, printTable } from '../report.mjs'

const SIZES = [10, 1000, 10_000]
const CALLS = 300_000
const ROUNDS = 7

function rulesOf(count) {
  return Array.from({ length: count }, (_, i) => ({
    id: `rule-${i}`,
    match: i % 2 === 0 ? { path: `/v1/p${i}/:id` } : { where: { tenant: `t${i}` } },
    by: ['user'],
    limits: [{ algorithm: 'fixed-window', max: 1_000_000_000, window: '1h' }],
  }))
}

/**
 * 5,000 callers, each matched by two rules of the set: the number of counters does not depend on
 * the number of rules.
 */
function callsOf(count) {
  let seed = 7
  return Array.from({ length: 5000 }, (_, i) => {
    seed = (Math.imul(seed, 1103515245) + 12345) >>> 0
    const even = 2 * (seed % (count / 2))
    return { attributes: { user: `u${i}`, path: `/v1/p${even}/7`, tenant: `t${even + 1}` } }
  })
}

const subjects = SIZES.map((count) => {
  const rules = rulesOf(count)
  const snapshot = compileRules(parseRules(rules).rules, { secret: sipKey(new Uint8Array(16)) })
  const limiter = createLimiter({ rules })
  return { count, calls: callsOf(count), snapshot, limiter, match: [], decide: [] }
})

function time(calls, run) {
  const started = process.hrtime.bigint()
  for (let i = 0; i < CALLS; i++) run(calls[i % calls.length])
  return Number(process.hrtime.bigint() - started) / CALLS
}

for (let round = 0; round <= ROUNDS; round++) {
  for (const { calls, snapshot, limiter, match, decide } of subjects) {
    const matching = time(calls, (call) => matchRules(snapshot, call))
    const deciding = time(calls, (call) => limiter.checkSync(call))
    if (round === 0) continue
    match.push(matching)
    decide.push(deciding)
  }
}

const [few] = subjects
const ratio = (list, base) => median(list.map((ns, round) => ns / base[round])).toFixed(2)
console.log(`Two rules met by each call, median of ${ROUNDS} alternating rounds\n`)
printTable(
  ['rules', 'matching, ns', 'x 10 rules', 'decision, ns', 'x 10 rules'],
  subjects.map(({ count, match, decide }) => [
    count,
    Math.round(median(match)),
    ratio(match, few.match),
    Math.round(median(decide)),
    ratio(decide, few.decide),
  ]),
)
