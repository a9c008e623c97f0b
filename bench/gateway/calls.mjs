/** The measured calls: a hundred callers with a key each, which read an order in turn. */
const CALLERS = 100
const ADDRESS = '203.0.113.7'

export const KEY_HEADER = 'x-api-key'
/** The limit of the peers per caller and hour: never reached, like our own limits. */
export const PEER_MAX = 1_000_000_000
export const PEER_WINDOW_MS = 3_600_000

export const callers = Array.from({ length: CALLERS }, (_, i) => ({
  key: `sk_bench_${String(i).padStart(4, '0')}_6f1d2c9ab47e`,
  user: `user-${i}`,
  plan: 'pro',
}))

/** What every call reads. */
export const order = {
  id: 42,
  status: 'shipped',
  customer: 'user-17',
  currency: 'EUR',
  total: 129.9,
  items: [
    { sku: 'A-1001', name: 'Valve, brass, 15 mm', count: 2 },
    { sku: 'B-2044', name: 'Seal ring, 15 mm', count: 8 },
  ],
  placed: '2025-01-01T10:00:00Z',
}

const path = (i) => `/v1/orders/${1000 + i}`

/** Calls through a gateway. */
export const forwarded = callers.map(({ key }, i) => ({
  method: 'GET',
  path: path(i),
  headers: { [KEY_HEADER]: key, accept: 'application/json', 'user-agent': 'bench/1.0' },
}))

/** The same calls as requests to the decision API. */
export const decisionCalls = callers.map(({ key, user, plan }, i) => ({
  method: 'POST',
  path: '/v1/check',
  headers: { 'content-type': 'application/json', 'user-agent': 'bench/1.0' },
  body: JSON.stringify({
    attributes: { user, plan, api_key: key, ip: ADDRESS, method: 'GET', path: path(i) },
  }),
}))
