/** What clients of two Envoys see whose quota filters are assigned leases by Sluice. */
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from './http-client.mjs'
import { quotaFilter } from './quota-filter.mjs'

/** By user; two windows of the short one are watched. */
export const QUOTA_RULES = `rules:
  - id: hour
    match: { where: { domain: hour } }
    by: [user]
    limits: [{ algorithm: fixed-window, max: 40, window: 1h }]
  - id: short
    match: { where: { domain: short } }
    by: [user]
    limits: [{ algorithm: fixed-window, max: 20, window: 10s }]
`
const HOUR = 40
const SHORT = 20
const WINDOW_MS = 10_000

/** Longer than an assignment lasts. */
const EXPIRED_MS = 6_000
const PAUSE_MS = 100

const listener = (domain, withoutAssignment, expired) => ({
  name: domain,
  routes: [{ name: 'quota' }],
  filters: [quotaFilter({ cluster: 'service', domain, withoutAssignment, expired })],
})

/** Strict about what is not assigned, so that nothing but leases is admitted; then both ways. */
export const QUOTA_LISTENERS = [
  listener('hour', 'DENY_ALL', 'DENY_ALL'),
  listener('short', 'DENY_ALL', 'ALLOW_ALL'),
]

export async function checkQuotas({ envoys, sluice, check }) {
  const [first, second] = envoys
  const clients = envoys.map((envoy) => createClient(envoy.port('hour')))
  const short = createClient(first.port('short'))
  const isAllowed = async (client, user = 'u1') =>
    (await client.get('/quota', { user })).status === 200 ? 1 : 0

  let total = 0
  let isIdle = false
  let besideIdle = 0
  const byWindow = new Map()
  let wasRefused = false
  const endMs = Date.now() + 3.2 * WINDOW_MS
  while (Date.now() < endMs) {
    for (const client of clients) total += await isAllowed(client)
    // The first proxy has one call of this user and a lease, the second one all others.
    if (isIdle) besideIdle += await isAllowed(clients[1], 'idle')
    else isIdle = (await isAllowed(clients[0], 'idle')) === 1
    const window = Math.floor(Date.now() / WINDOW_MS)
    const allowed = await isAllowed(short)
    wasRefused ||= allowed === 0
    byWindow.set(window, (byWindow.get(window) ?? 0) + allowed)
    await sleep(PAUSE_MS)
  }
  check(`two proxies admit ${HOUR} of ${HOUR} together`, total === HOUR, String(total))
  const left = HOUR - 1
  check('what an idle proxy held goes to the other', besideIdle === left, String(besideIdle))
  // The first and the last were not watched whole.
  const whole = [...byWindow.values()].slice(1, -1)
  const isNear = (count) => count >= 0.7 * SHORT && count <= 1.5 * SHORT
  const what = `windows of ${SHORT} admit ${whole.join(', ')}, and refuse the rest`
  check(what, wasRefused && whole.length > 0 && whole.every(isNear), whole.join(', '))

  await sluice.stop()
  await sleep(EXPIRED_MS)
  const closed = createClient(second.port('hour'))
  const expired = [await isAllowed(short), await isAllowed(short), await isAllowed(closed)]
  check('without Sluice, expired assignments do as configured', expired.join('') === '110', expired)
  for (const client of [...clients, short, closed]) client.close()
}
