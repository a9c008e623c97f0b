/** The store's clock is set forth and back, under nodes that decide. */
import { createLimiter } from '@sluice/limiter'
import { redisStore } from '@sluice/limiter/redis'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ShiftedRedis, startShiftedRedis } from '../../tools/redis/shifted.js'
import { waitFor } from '../../tools/redis/wait-for.js'
import { PingCanary, TimerCanary } from './fault-canary.test-helper.js'
import { runFault, TEST_MS_MAX } from './fault-run.test-helper.js'

vi.setConfig({ testTimeout: TEST_MS_MAX })

const HOUR_MS = 3_600_000

let server: ShiftedRedis
afterEach(() => server.stop())

test('a clock that is set by an hour, forth and back, costs nobody a decision', async () => {
  server = await startShiftedRedis()
  await runFault({
    name: 'store clock +1 h, back, -1 h, back',
    urls: [server.url],
    servers: async () => [server],
    well: [server],
    degrades: false,
    fault: async () => {
      for (const offset of [HOUR_MS, 0, -HOUR_MS, 0]) {
        server.shiftClock(offset)
        await sleep(500)
      }
    },
  })
})

const WINDOW_MS = 1500
const MAX = 4
const USERS = 5
const EVERY_MS = 25

/**
 * Each algorithm, what it admits at most within one window without a step, and how long it may keep
 * a caller waiting who asks all the time.
 */
const ALGORITHMS = [
  { name: 'token-bucket', most: 2 * MAX, waitMs: WINDOW_MS },
  { name: 'gcra', most: 1 + MAX, waitMs: WINDOW_MS },
  { name: 'leaky-bucket', most: 1 + 2 * MAX, waitMs: WINDOW_MS },
  { name: 'fixed-window', most: 2 * MAX, waitMs: WINDOW_MS },
  // The window that ended still weighs on the next, until there is room for one.
  { name: 'sliding-window-counter', most: 2 * MAX, waitMs: WINDOW_MS * (1 + 1 / MAX) },
  { name: 'sliding-window-log', most: MAX, waitMs: WINDOW_MS },
] as const

const SLACK_MS = 500
/** Beyond which nobody waits on a machine that never stands still. */
const LONGEST_MS = 2 * WINDOW_MS + 1000 + SLACK_MS

const rules = ALGORITHMS.map(({ name }) => ({
  id: name,
  match: { where: { kind: [name] } },
  by: ['user'],
  posture: 'closed',
  limits: [{ algorithm: name, max: MAX, window: `${WINDOW_MS}ms`, name: 'one' }],
}))

interface Admission {
  readonly caller: string
  readonly askedMs: number
  readonly atMs: number
}

/** Asks for every caller all the time; returns what stops that and tells when each was admitted. */
function hammer(url: string) {
  // Patient: what is told here is what the store decided, not how long it took.
  const store = redisStore({ url, deadlineMs: 10_000 })
  const limiter = createLimiter({ rules, store })
  const admissions: Admission[] = []
  const send = async (kind: string, user: number) => {
    const askedMs = performance.now()
    const { allowed } = await limiter.check({ attributes: { kind, user: String(user) } })
    if (allowed) admissions.push({ caller: `${kind} ${user}`, askedMs, atMs: performance.now() })
  }
  const interval = setInterval(() => {
    for (const { name } of ALGORITHMS) {
      for (let user = 0; user < USERS; user++) void send(name, user)
    }
  }, EVERY_MS)
  return {
    ready: limiter.ready(),
    admissions: admissions as readonly Admission[],
    async stop(): Promise<void> {
      clearInterval(interval)
      await sleep(100)
      await limiter.close()
    },
  }
}

describe.each([
  { name: 'an hour forth, and back', steps: [HOUR_MS, 0] },
  { name: 'an hour back, and forth', steps: [-HOUR_MS, 0] },
])('$name', ({ steps }) => {
  test('nobody waits longer than a window, and each step adds one limit at most', async () => {
    server = await startShiftedRedis()
    const canaries = [new TimerCanary(), new PingCanary(server.port)]
    const hammered = hammer(server.url)
    const { admissions } = hammered
    await hammered.ready
    await sleep(2 * WINDOW_MS)
    const stepsMs: number[] = []
    for (const offset of steps) {
      const stepMs = performance.now()
      stepsMs.push(stepMs)
      server.shiftClock(offset)
      await sleep(2.5 * WINDOW_MS)
      await waitFor('Everybody admitted', async () => {
        const callers = admissions.filter(({ askedMs }) => askedMs >= stepMs)
        return new Set(callers.map(({ caller }) => caller)).size === ALGORITHMS.length * USERS
      })
    }
    await hammered.stop()
    for (const canary of canaries) canary.stop()
    const stalledMs = Math.max(
      ...stepsMs.map((stepMs) =>
        canaries.reduce((sum, each) => sum + each.stalledIn(stepMs, stepMs + LONGEST_MS), 0),
      ),
    )
    const figures: string[] = []
    for (const { name, most, waitMs } of ALGORITHMS) {
      const { longestMs, mostWithin } = afterSteps(admissions, name, stepsMs)
      figures.push(`${name} after ${Math.round(longestMs)} ms, ${mostWithin} of ${most} + ${MAX}`)
      expect(mostWithin, name).toBeLessThanOrEqual(most + MAX)
      // What is remembered of a refusal may hold for a second before the store is asked. A busy
      // machine may be late on top; a caller that is locked out would wait for an hour.
      expect(longestMs, name).toBeLessThanOrEqual(waitMs + 1000 + SLACK_MS + stalledMs)
    }
    process.stdout.write(
      `store clock ${steps.join(', ')} ms: admitted again, and within the next window at most: ` +
        `${figures.join('; ')}\n`,
    )
  })
})

/** How long a caller waited at most after a step, and how many were admitted in the next window. */
function afterSteps(admissions: readonly Admission[], name: string, stepsMs: readonly number[]) {
  let longestMs = 0
  let mostWithin = 0
  for (let user = 0; user < USERS; user++) {
    const own = admissions.filter(({ caller }) => caller === `${name} ${user}`)
    for (const stepMs of stepsMs) {
      // Those that were asked before may have been decided before.
      const after = own.filter(({ askedMs }) => askedMs >= stepMs)
      longestMs = Math.max(longestMs, (after[0]?.atMs ?? Infinity) - stepMs)
      const within = after.filter(({ atMs }) => atMs < stepMs + WINDOW_MS)
      mostWithin = Math.max(mostWithin, within.length)
    }
  }
  return { longestMs, mostWithin }
}
