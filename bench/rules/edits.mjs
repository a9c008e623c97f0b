/**
 * How long the thread that decides is blocked while one rule of 10,000 is changed, compared with
 * parsing all of them: the preview of a change, which an editor requests at every keystroke, and
 * the activation of the rules on every node.
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
/** The rule after one more keystroke. */
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
    // The first is a warm-up.
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
