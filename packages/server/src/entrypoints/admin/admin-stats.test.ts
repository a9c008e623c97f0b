/** Tests statistics over the admin API. */
import { request } from 'node:http'
import { describe, expect, test } from 'vitest'
import type { LiveNode } from '../../rules/store/rule-store.js'
import {
  closeAfterTests,
  ROOT_TOKEN,
  startAdmin,
  type TestAdmin,
  withStore,
} from './admin.test-helper.js'
import {
  ALERT,
  BOARD_NODE,
  fakeAlerts,
  fakeFleetStats,
  TICK,
} from './fleet-stats-fake.test-helper.js'

closeAfterTests()

async function startWith(more: Parameters<typeof fakeFleetStats>[0] = {}) {
  const alerting = { active: [ALERT], recent: [] }
  const sight = fakeFleetStats({ alerts: async () => alerting, ...more })
  const alerts = fakeAlerts()
  const admin = await startAdmin({ deps: (parts) => ({ ...parts, fleetStats: sight, alerts }) })
  return { admin, sight, alerts }
}

describe('the routes of statistics', () => {
  test('return stats of all rules, or of one', async () => {
    const { admin, sight } = await startWith()
    const { status, body } = await admin.request('GET', '/stats')
    expect([status, body]).toMatchObject([200, { nodes: 1, rules: [{ rule: 'per-user' }] }])
    await admin.request('GET', '/stats?rule=per-user')
    expect(sight.requests).toEqual(['stats undefined', 'stats per-user'])
  })

  test.each(['/stats?rule=nothing', '/top?rule=nothing'])(
    'answer %s with 404, because the rule is unknown',
    async (p) => {
      const { admin, sight } = await startWith()
      const { status, body } = await admin.request('GET', p)
      expect([status, body]).toMatchObject([404, { error: 'rule_unknown' }])
      expect(sight.requests).toEqual([])
    },
  )

  test('return top callers with an order, a rule and a limit', async () => {
    const { admin, sight } = await startWith()
    const { status, body } = await admin.request('GET', '/top')
    expect([status, body]).toMatchObject([200, { callers: [{ caller: { user: 'u1' } }] }])
    await admin.request('GET', '/top?by=hours&rule=per-user&limit=100')
    expect(sight.requests).toEqual(['top refusals undefined 20', 'top hours per-user 100'])
  })

  test.each([
    ['/top?by=name', 'query.by: found "name"; accepted: refusals, use, zero, hours'],
    ['/top?limit=101', 'query.limit: found "101"; accepted: a whole number from 1 to 100'],
    ['/top?order=use', 'unknown parameter "order"'],
  ])('refuse %s', async (path, detail) => {
    const { admin } = await startWith()
    const answer = await admin.request('GET', path)
    expect([answer.status, answer.body]).toMatchObject([
      400,
      { detail: expect.stringContaining(detail) },
    ])
  })

  test('return active alerts, and those that ended', async () => {
    const { admin } = await startWith()
    const { body } = await admin.request('GET', '/alerts')
    expect(body).toEqual({ active: [ALERT], recent: [] })
  })
})

describe('a simulation of limits', () => {
  test('returns the outcome of each limit for each call', async () => {
    const { admin } = await startWith()
    const calls = [{ atMs: 0 }, { atMs: 1, cost: 2 }]
    const answer = await admin.request('POST', '/simulate', { limits: ['2/second'], calls })
    expect([answer.status, answer.body]).toMatchObject([
      200,
      {
        trials: [
          {
            limit: '2/second',
            algorithm: 'token-bucket',
            outcomes: [{ allowed: true }, { allowed: false, retryAfterMs: 499 }],
          },
        ],
      },
    ])
  })

  test('reports problems of limits as rules do', async () => {
    const { admin } = await startWith()
    const answer = await admin.request('POST', '/simulate', { limits: ['10/s'], calls: [] })
    expect([answer.status, answer.body]).toMatchObject([
      400,
      { error: 'rules_invalid', errors: [{ code: 'bad-limit', field: 'limits[0]' }] },
    ])
  })

  const call = { atMs: 0 }
  test.each([
    [{ limits: [], calls: [] }, 'body.limits: found a list; accepted: 1 to 12 limits'],
    [{ limits: Array(13).fill('1/second'), calls: [] }, 'accepted: 1 to 12 limits'],
    [{ limits: ['1/second'], calls: Array(2001).fill(call) }, 'up to 2000 calls'],
    [{ limits: ['1/second'], calls: [{ atMs: -1 }] }, 'body.calls[0].atMs: found -1'],
    [{ limits: ['1/second'], calls: [{ atMs: 0.5 }] }, 'body.calls[0].atMs: found 0.5'],
    [{ limits: ['1/second'], calls: [{ atMs: 0, cost: -1 }] }, 'body.calls[0].cost: found -1'],
    [{ limits: ['1/second'], calls: [{ atMs: 5 }, { atMs: 4 }] }, 'calls[1].atMs: found 4 after 5'],
    [{ limits: ['1/second'], calls: [], rule: 1 }, 'unknown key "rule"'],
  ])('is refused for %j', async (body, detail) => {
    const { admin } = await startWith()
    const answer = await admin.request('POST', '/simulate', body)
    expect([answer.status, answer.body]).toMatchObject([
      400,
      { detail: expect.stringContaining(detail) },
    ])
  })

  test('accepts as many limits and calls as its bounds allow', async () => {
    const { admin } = await startWith()
    const calls = Array.from({ length: 2000 }, (_, i) => ({ atMs: i }))
    const limit = { algorithm: 'sliding-window-log', max: 10_000, window: '1d' }
    const answer = await admin.request('POST', '/simulate', {
      limits: Array(12).fill(limit),
      calls,
    })
    expect(answer.status).toBe(200)
  })
})

describe('nodes', () => {
  const nodesOf = async (admin: TestAdmin) =>
    ((await admin.request('GET', '/nodes')).body as { readonly nodes: readonly object[] }).nodes

  async function startWithNodes(
    seen: readonly LiveNode[],
    more: Parameters<typeof fakeFleetStats>[0],
  ) {
    return startAdmin({
      deps(parts) {
        const { store } = parts.ruleFollower
        if (store === undefined) throw new Error('no store')
        const listing = Object.assign(Object.create(store) as typeof store, {
          nodes: async () => seen,
        })
        return {
          ...parts,
          ruleFollower: withStore(parts.ruleFollower, listing),
          fleetStats: fakeFleetStats(more),
        }
      },
    })
  }

  const { decisionsPerSecond, refusalsPerSecond, clockOffsetMs, store, ...seen } = BOARD_NODE
  const figures = { decisionsPerSecond, refusalsPerSecond, clockOffsetMs, store }

  test('have the statistics of their snapshots, by their ids', async () => {
    const stored = { ...seen, seenMsAgo: 10_000, rulesVersion: 4, problem: 'a rule is bad' }
    const silent = { ...seen, id: 'node-3', seenMsAgo: 5 }
    const admin = await startWithNodes([stored, silent], { nodes: async () => [BOARD_NODE] })
    expect(await nodesOf(admin)).toEqual([
      { ...seen, ...figures, problem: 'a rule is bad', rulesVersion: 5, seenMsAgo: 900 },
      silent,
    ])
  })

  test('keep what the rule store received later than the snapshot', async () => {
    const stored = { ...seen, seenMsAgo: 10, rulesVersion: 6 }
    const admin = await startWithNodes([stored], { nodes: async () => [BOARD_NODE] })
    expect(await nodesOf(admin)).toEqual([{ ...stored, ...figures }])
  })

  test('have the problem that they reported last, or none', async () => {
    const stored = { ...seen, seenMsAgo: 10_000, problem: 'a rule is bad' }
    const listed = { ...BOARD_NODE, problem: 'Postgres is gone' }
    const gone = await startWithNodes([stored], { nodes: async () => [listed] })
    expect(await nodesOf(gone)).toMatchObject([{ problem: 'Postgres is gone' }])
    const well = { ...BOARD_NODE, problem: undefined }
    const back = await startWithNodes([stored], { nodes: async () => [well] })
    expect(await nodesOf(back)).toEqual([BOARD_NODE])
  })

  test('that have only a snapshot are listed too', async () => {
    const admin = await startWithNodes([], { nodes: async () => [BOARD_NODE] })
    expect(await nodesOf(admin)).toEqual([BOARD_NODE])
  })

  test('are listed without statistics if the snapshots are unavailable', async () => {
    const silent = { ...seen, seenMsAgo: 5 }
    const admin = await startWithNodes([silent], { nodes: () => Promise.reject(new Error('gone')) })
    expect(await nodesOf(admin)).toEqual([silent])
  })
})

describe('the event stream', () => {
  const headers = { authorization: `Bearer ${ROOT_TOKEN}` }

  async function firstPieces(response: Response, count: number): Promise<string> {
    const reader = response.body?.getReader()
    let text = ''
    while (text.split('\n\n').length <= count) {
      const piece = await reader?.read()
      if (piece?.value === undefined) break
      text += new TextDecoder().decode(piece.value)
    }
    await reader?.cancel()
    return text
  }

  test('sends events over a socket, and must not be cached', async () => {
    const { admin } = await startWith()
    const { url } = await admin.listen()
    const asked = { ...headers, 'accept-encoding': 'gzip' }
    const response = await fetch(`${url}/admin/v1/events`, { headers: asked })
    expect(response.status).toBe(200)
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
    })
    expect(response.headers.has('content-encoding')).toBe(false)
    const text = await firstPieces(response, 2)
    expect(text).toContain('retry: 2000\n\n')
    expect(text).toContain(`id: ${TICK.endMs}\nevent: tick\ndata: {`)
  })

  test('needs a token or a session', async () => {
    const { admin } = await startWith()
    const { url } = await admin.listen()
    expect((await fetch(`${url}/admin/v1/events`)).status).toBe(401)
    const foreign = { ...headers, origin: 'https://evil.example' }
    expect((await fetch(`${url}/admin/v1/events`, { headers: foreign })).status).toBe(403)
  })

  test('answers HEAD with the headers, and opens nothing', async () => {
    const { admin, alerts } = await startWith()
    const answer = await admin.request('HEAD', '/events')
    expect([answer.status, answer.text]).toEqual([200, ''])
    expect(answer.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
    expect(alerts.listeners()).toBe(0)
  })

  test('is limited to 32 per token, independent of other tokens, and a closed one frees its place', async () => {
    const { admin, alerts } = await startWith()
    const { url } = await admin.listen()
    const ending = new AbortController()
    const open = () => fetch(`${url}/admin/v1/events`, { headers, signal: ending.signal })
    const opened = await Promise.all(Array.from({ length: 32 }, open))
    expect(opened.every(({ status }) => status === 200)).toBe(true)
    const refused = await open()
    expect([refused.status, await refused.json()]).toMatchObject([
      503,
      { error: 'too_many_streams' },
    ])
    const other = { authorization: `Bearer ${await admin.tokenOf('read')}` }
    const init = { headers: other, signal: ending.signal }
    expect((await fetch(`${url}/admin/v1/events`, init)).status).toBe(200)
    ending.abort()
    await expect.poll(() => alerts.listeners(), { timeout: 20_000 }).toBe(0)
    const again = await fetch(`${url}/admin/v1/events`, { headers })
    expect(again.status).toBe(200)
    await again.body?.cancel()
  })

  test('is cut if its client reads nothing', async () => {
    const store = { ...TICK.store, state: 'x'.repeat(2_000_000) }
    const { admin, alerts } = await startWith({ tick: async () => ({ ...TICK, store }) })
    const { url } = await admin.listen()
    const closed = await new Promise<boolean>((resolve) => {
      const sent = request(`${url}/admin/v1/events`, { headers }, (response) => {
        response.pause()
        response.on('close', () => resolve(true))
        response.on('error', () => resolve(true))
      })
      sent.on('error', () => resolve(true))
      sent.end()
    })
    expect(closed).toBe(true)
    await expect.poll(() => alerts.listeners(), { timeout: 20_000 }).toBe(0)
  })

  test('ends when the server stops, without delaying it', async () => {
    const { admin } = await startWith()
    const { url, close } = await admin.listen()
    const response = await fetch(`${url}/admin/v1/events`, { headers })
    close()
    expect(await response.text()).toContain('retry: 2000')
  })
})
