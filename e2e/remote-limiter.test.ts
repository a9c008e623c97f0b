/** The remote limiter of @sluice/client, with real servers that are well, slow, gone or wrong. */
import { createServer, type Server } from 'node:net'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { type RemoteDecision, remoteLimiter } from '../packages/client/src/index.js'
import type { RemoteLimiterOptions, RemoteState } from '../packages/client/src/index.js'
import { createLimiter } from '../packages/limiter/src/index.js'
import { freePort } from '../tools/ports.mjs'
import { stopAll } from './process.test-helper.js'
import { TimerCanary } from './redis/fault-canary.test-helper.js'
import { shareRedis, startNode } from './serve-redis.test-helper.js'

const RULES = 'rules: [{ id: per-user, by: [user], limits: ["1000/day"] }]'
const CALL = { attributes: { user: 'u1' } }
const DEADLINE_MS = 60
const GRACE_MS = 25
/** Stalls that the canary does not record. */
const RESOLUTION_MS = 5

const redis = shareRedis()
const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
  await stopAll()
})

function connect(options: RemoteLimiterOptions) {
  const states: RemoteState[] = []
  const limiter = remoteLimiter({
    logger: false,
    onState: (state) => void states.push(state),
    ...options,
  })
  closing.push(() => limiter.close())
  return { limiter, states }
}

interface Asked {
  readonly decision: RemoteDecision
  /** Beyond the deadline, and beyond the stalls of a bare timer. */
  readonly excessMs: number
}

/** Makes calls one after the other, and measures each against a bare timer. */
async function ask(
  limiter: ReturnType<typeof remoteLimiter>,
  calls: number,
  deadlineMs = DEADLINE_MS,
): Promise<readonly Asked[]> {
  const canary = new TimerCanary()
  const asked: Asked[] = []
  try {
    for (let i = 0; i < calls; i++) {
      // The canary has to fire once before and once after to have seen the call.
      await new Promise((resolve) => setTimeout(resolve, 25))
      const fromMs = performance.now()
      const decision = await limiter.check(CALL)
      const untilMs = performance.now()
      await new Promise((resolve) => setTimeout(resolve, 2))
      const tookMs = untilMs - fromMs
      asked.push({ decision, excessMs: tookMs - deadlineMs - canary.stalledIn(fromMs, untilMs) })
    }
  } finally {
    canary.stop()
  }
  return asked
}

function expectInTime(asked: readonly Asked[]): void {
  const excessMs = Math.max(...asked.map((each) => each.excessMs))
  expect(excessMs, 'beyond the deadline').toBeLessThanOrEqual(GRACE_MS + RESOLUTION_MS)
}

/** Accepts connections, and does with them what the test wants. */
async function listen(onConnection: (server: Server) => void): Promise<string> {
  const server = createServer()
  onConnection(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closing.push(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Accepts connections and never answers. */
const listenSilently = () =>
  listen((server) =>
    server.on('connection', (socket) => {
      socket.on('error', () => {})
      closing.push(() => socket.destroy())
    }),
  )

/** Answers each request correctly, half a second too late. */
const listenSlowly = () =>
  listen((server) =>
    server.on('connection', (socket) => {
      socket.on('error', () => {})
      closing.push(() => socket.destroy())
      const late = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]'
      socket.on('data', () => setTimeout(() => socket.write(late), 500))
    }),
  )

describe('without a decision of the server', () => {
  test.each([
    ['that refuses connections', async () => `http://127.0.0.1:${await freePort()}`],
    ['that accepts connections and never answers', listenSilently],
    ['that answers too late', listenSlowly],
  ])(
    'a server %s costs each call its deadline at most, and no call once it is known',
    async (_name, start) => {
      for (const posture of ['open', 'closed'] as const) {
        const { limiter, states } = connect({
          url: await start(),
          deadlineMs: DEADLINE_MS,
          posture,
        })
        const asked = await ask(limiter, 10)
        expectInTime(asked)
        for (const { decision } of asked) {
          expect(decision).toMatchObject({
            allowed: posture === 'open',
            source: 'posture',
            reason: 'posture',
          })
        }
        expect(states).toMatchObject([{ state: 'unreachable' }])
        expect(limiter.stats.requests).toBeLessThan(10)
      }
    },
  )

  test('a server that stops and goes on is asked again by itself', async () => {
    const { api, program } = await startNode(RULES, {})
    const { limiter, states } = connect({ url: api, deadlineMs: 1000 })
    expect((await limiter.check(CALL)).source).toBe('store')
    const impatient = connect({ url: api, deadlineMs: DEADLINE_MS })
    program.signal('SIGSTOP')
    const asked = await ask(impatient.limiter, 8)
    expectInTime(asked)
    expect(asked.at(-1)?.decision.source).toBe('posture')
    program.signal('SIGCONT')
    await expect
      .poll(async () => (await impatient.limiter.check(CALL)).source, { timeout: 30_000 })
      .toBe('store')
    expect(states).toEqual([])
  })

  test('a wrong token is reported once, and calls are decided by posture', async () => {
    const token = 'the-right-token-0123456789'
    const { api } = await startNode(RULES, { SLUICE_API_TOKEN: token })
    const wrong = connect({ url: api, token: 'a-wrong-token', deadlineMs: 1000 })
    const asked = await ask(wrong.limiter, 5, 1000)
    expectInTime(asked)
    expect(asked.every(({ decision }) => decision.source === 'posture')).toBe(true)
    expect(wrong.states).toMatchObject([{ state: 'unauthorized' }])
    expect(wrong.limiter.stats.requests).toBe(1)
    const right = connect({ url: api, token, deadlineMs: 1000 })
    expect(await right.limiter.check(CALL)).toMatchObject({ source: 'store', remaining: 999 })
  })

  test('a server whose store is gone decides by the postures of its rules', async () => {
    const { api } = await startNode(RULES, { SLUICE_REDIS_URL: redis().url })
    const { limiter, states } = connect({ url: api, deadlineMs: 2000 })
    expect((await limiter.check(CALL)).source).toBe('store')
    await redis().kill()
    const asked = await ask(limiter, 5, 2000)
    expectInTime(asked)
    expect(asked.at(-1)?.decision).toMatchObject({
      source: 'posture',
      postures: { 'per-user': 'local' },
    })
    expect(states).toEqual([])
  })

  test('a limiter in this process decides as the fallback', async () => {
    const fallback = createLimiter({ rules: [{ id: 'own', by: ['user'], limits: ['2/day'] }] })
    const url = `http://127.0.0.1:${await freePort()}`
    const { limiter } = connect({ url, deadlineMs: DEADLINE_MS, fallback })
    const asked = await ask(limiter, 3)
    expectInTime(asked)
    const decided = asked.map(({ decision: { allowed, source } }) => [allowed, source])
    expect(decided).toEqual([
      [true, 'posture'],
      [true, 'posture'],
      [false, 'posture'],
    ])
    await fallback.close()
  })
})

describe('with a server', () => {
  test('100,000 calls in lists are counted exactly, and so are their refunds', async () => {
    const rules = `rules: [{ id: all, by: [], limits: [{ algorithm: fixed-window, max: 50000, window: 365d }] }]`
    const { api } = await startNode(rules, {})
    const { limiter } = connect({ url: api, deadlineMs: 60_000 })
    let admitted = 0
    const receipts: string[] = []
    for (let wave = 0; wave < 10; wave++) {
      const calls = Array.from({ length: 10_000 }, (_, index) =>
        limiter.check({ attributes: { user: `u${index}` } }, { receipt: index < 10 }),
      )
      for (const { allowed, source, receipt } of await Promise.all(calls)) {
        if (source !== 'store') expect(source).toBe('store')
        if (allowed) admitted++
        if (receipt !== undefined) receipts.push(receipt)
      }
    }
    expect(admitted).toBe(50_000)
    expect(limiter.stats).toMatchObject({ requests: 100, decided: 100_000, byPosture: 0 })
    expect(receipts).toHaveLength(50)
    await Promise.all(receipts.map((receipt) => limiter.refund(receipt)))
    expect(limiter.stats.requests).toBe(101)
    expect(await limiter.peek({ attributes: {} })).toMatchObject({ remaining: 50 })
  })
})
