/** One subject of `priorities` in a process of its own: runs a round on command. */
import { pathToFileURL } from 'node:url'

const [, , root, linesText] = process.argv
const { createLimiter } = await import(pathToFileURL(`${root}/packages/limiter/dist/index.js`).href)

/** Lines as an API has them: by an attribute, by method and path, and for the rest. */
const LINES = [
  { match: { where: { mode: ['test'] } }, as: 'reads' },
  { match: { method: 'POST', path: '/v1/charges' }, as: 'critical' },
  { match: { method: 'POST', path: '/v1/refunds' }, as: 'critical' },
  { match: { method: 'POST', path: '/v1/payouts/*' }, as: 'critical' },
  { match: { path: '/v1/webhooks/:id' }, as: 'reads' },
  { match: { path: '/v1/reports/*' }, as: 'reads' },
  { match: { path: '/v1/exports/*' }, as: 'reads' },
  { match: { method: 'DELETE' }, as: 'reads' },
  { match: { method: 'GET' }, as: 'reads' },
  { as: 'critical' },
]

const MAX = 1_000_000_000
const rules = [
  { id: 'per-user', by: ['user'], limits: [{ algorithm: 'token-bucket', max: MAX, window: '1h' }] },
  {
    id: 'orders',
    match: { method: ['GET', 'POST'], path: '/v1/orders/:id' },
    by: ['user', 'ip'],
    limits: [{ algorithm: 'fixed-window', max: MAX, window: '1h' }],
  },
]
const isClassified = linesText !== ''
const classify = LINES.slice(0, Number(linesText))
const limiter = createLimiter({
  rules: isClassified ? { priorities: ['critical', 'reads'], classify, rules } : rules,
})

/** New attribute objects for each call, as an entry point makes them. */
function call(n) {
  return limiter.checkSync({
    attributes: {
      method: n % 8 === 0 ? 'POST' : 'GET',
      path: `/v1/orders/${n % 1000}`,
      ip: '203.0.113.7',
      user: `u${n % 5000}`,
      plan: 'pro',
    },
  })
}

if (!call(0).allowed) throw new Error('a call was refused')
process.send('ready')
process.on('message', ({ decisions }) => {
  const started = process.cpuUsage()
  for (let n = 0; n < decisions; n++) call(n)
  const { user, system } = process.cpuUsage(started)
  process.send({ ns: ((user + system) * 1000) / decisions })
})
