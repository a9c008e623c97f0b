/**
 * All middlewares with counters in one Redis: the same traffic gets the same decisions, and a Redis
 * that does not answer is replaced by the posture of each rule.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { createLimiter, type Decision, type Limiter } from '../../packages/limiter/src/index.js'
import { sluice as wsSluice } from '../../packages/limiter/src/middleware/ws.js'
import { redisStore } from '../../packages/limiter/src/redis/index.js'
import { type RedisServer, startRedis } from '../../tools/redis/server.mjs'
import { ADAPTERS, type App, type RunningAdapter } from './adapters.test-helper.js'

/** Long enough for a busy machine; Redis is paused until the calls are answered. */
const DEADLINE_MS = 1000
const RULES = [
  {
    id: 'logins',
    match: { path: '/login' },
    by: ['user'],
    limits: [{ algorithm: 'fixed-window', start: 'call', max: 2, window: '1d', block: '15d' }],
  },
  { id: 'open', match: { path: '/open' }, by: ['user'], posture: 'open', limits: ['1/day'] },
  { id: 'closed', match: { path: '/closed' }, by: ['user'], posture: 'closed', limits: ['9/day'] },
]
const PATHS = ['/login', '/login', '/login', '/login', '/open', '/open', '/closed'] as const
const app: App = async () => ({ status: 200, body: 'ok' })

let redis: RedisServer
beforeAll(async () => {
  redis = await startRedis()
})
afterAll(() => redis.stop())

interface Started {
  readonly limiter: Limiter
  readonly decisions: Decision[]
  /** The status of a call of one user. */
  call(user: string, path: string): Promise<number>
  close(): Promise<void>
}

const attributesOf = (header: (name: string) => string | undefined) => ({ user: header('x-user') })

async function openLimiter(): Promise<Limiter> {
  const store = redisStore({ url: redis.url, deadlineMs: DEADLINE_MS, denyCacheMs: 0 })
  const limiter = createLimiter({ rules: RULES, store })
  await limiter.ready()
  return limiter
}

/** The ordinary requests of every framework. */
const REQUESTS = ADAPTERS.map(([name, startAdapter]) => {
  const start = async (): Promise<Started> => {
    const limiter = await openLimiter()
    const decisions: Decision[] = []
    const onDecision = (decision: Decision) => void decisions.push(decision)
    const running: RunningAdapter = await startAdapter(
      { limiter, attributes: attributesOf, onDecision },
      app,
    )
    return {
      limiter,
      decisions,
      call: async (user, path) => {
        const url = `http://127.0.0.1:${running.port}${path}`
        const response = await fetch(url, { headers: { 'x-user': user } })
        await response.text()
        return response.status
      },
      close: async () => {
        await running.close()
        await limiter.close()
      },
    }
  }
  return [name, start] as const
})

/** The upgrades of `ws`; an accepted one counts as 200. */
async function startWs(): Promise<Started> {
  const limiter = await openLimiter()
  const decisions: Decision[] = []
  const limits = wsSluice({
    limiter,
    attributes: ({ headers }) => ({ user: headers['x-user']?.toString() }),
    onDecision: (decision) => void decisions.push(decision),
    logger: { warn: () => {}, error: () => {} },
  })
  const server = createServer()
  server.on('upgrade', limits.upgrade(new WebSocketServer({ noServer: true })))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    limiter,
    decisions,
    call: (user, path) =>
      new Promise((resolve, reject) => {
        const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, {
          headers: { 'x-user': user },
        })
        socket.on('open', () => {
          socket.terminate()
          resolve(200)
        })
        socket.on('unexpected-response', (_request, { statusCode = 0 }) => {
          socket.terminate()
          resolve(statusCode)
        })
        socket.on('error', reject)
      }),
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      await limits.close()
      await limiter.close()
    },
  }
}

describe.each([...REQUESTS, ['ws', startWs] as const])(
  '%s with counters in Redis',
  (name, start) => {
    test('decides the same traffic in the same way', async () => {
      const started = await start()
      try {
        const statuses: number[] = []
        for (const path of PATHS) statuses.push(await started.call(`user of ${name}`, path))
        expect(statuses).toEqual([200, 200, 429, 429, 200, 429, 200])
        const decided = started.decisions.map(({ reason, remaining }) => [reason, remaining])
        expect(decided).toEqual([
          ['within', 1],
          ['within', 0],
          ['blocked', 0],
          ['blocked', 0],
          ['within', 0],
          ['over', 0],
          ['within', 8],
        ])
        expect(new Set(started.decisions.map(({ source }) => source))).toEqual(new Set(['store']))
      } finally {
        await started.close()
      }
    })

    test('answers by posture while Redis does not', async () => {
      const started = await start()
      try {
        redis.pause()
        const user = `other user of ${name}`
        expect(await started.call(user, '/open')).toBe(200)
        expect(await started.call(user, '/closed')).toBe(429)
        expect(started.decisions.map(({ postures }) => postures)).toEqual([
          { open: 'open' },
          { closed: 'closed' },
        ])
      } finally {
        redis.resume()
        await started.close()
      }
    })
  },
)
