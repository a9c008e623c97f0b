/**
 * How long the thread that decides is held while somebody changes one rule of 10,000, against
 * reading them all: what a change would mean, as an editor asks it at every key, and the rules that
 * are put in force then, on every node.
 */
import { parseRules, RuleCache } from '../../packages/core/dist/index.js'
import { createLimiter } from '../../packages/limiter/dist/index.js'
import { median, printTable } from '../report.mjs'

const RULES = 10_000
const ROUNDS = process.argv.includes('--quick') ? 5 : 15
const EDITED = 5000

const matchOf = (i) =>
  [
    { path: `/v1/p${i}/:id` },
    { path: `/v1/p${i}/*`, method: ['POST'] },
    { where: { tenant: `t${i}` } },
    { path: '/v1/shared/:id', where: { tenant: [`t${i}`, `u${i}`] } },
  ][i % 4]
const ruleOf = (i, max) => {
  return { id: `rule-${i}`, match: matchOf(i), by: ['user'], limits: [`${max}/minute`] }
}
const rules = Array.from({ length: RULES }, (_, i) => ruleOf(i, 100))
const edited = new Set([`rule-${EDITED}`])

let typed = 0
/** As it stands after one more key. */
function afterOneKey() {
  return { routes: [], rules: rules.with(EDITED, ruleOf(EDITED, 1 + (typed++ % 1000))) }
}

function time(work) {
  const began = performance.now()
  work()
  return performance.now() - began
}

const cache = new RuleCache()
const { errors } = parseRules({ rules }, { cache })
if (errors.length > 0) throw new Error(errors[0].message)

const limiter = createLimiter({ rules: [] })
const ways = [
  { name: 'all rules read anew', work: (set) => parseRules(set), times: [] },
  {
    name: 'the one that changed',
    work: (set) => parseRules(set, { cache, warnOf: edited }),
    times: [],
  },
  {
    name: 'in force (one that changed)',
    prepare: (set) => parseRules(set, { cache, compare: false }),
    work: (parsed) => limiter.setParsedRules(parsed),
    times: [],
  },
]
for (let round = 0; round <= ROUNDS; round++) {
  for (const { work, prepare = (set) => set, times } of ways) {
    const set = prepare(afterOneKey())
    const ms = time(() => work(set))
    // The first is to get warm.
    if (round > 0) times.push(ms)
  }
}

const [whole] = ways
printTable(
  [`${RULES} rules`, 'ms', 'of reading all'],
  ways.map(({ name, times }) => [
    name,
    median(times).toFixed(1),
    (median(times) / median(whole.times)).toFixed(3),
  ]),
)
await limiter.close()
