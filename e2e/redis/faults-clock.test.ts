/** The store's clock is set forward and back while nodes decide. */
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

test('a clock that steps by an hour, forward and back, costs no decision', async () => {
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
 * Each algorithm, the most it admits within one window without a step, and how long it may keep a
 * caller waiting that calls all the time.
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
/** The longest wait on a machine that never stalls. */
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

/**
 * Calls for every caller all the time; returns a function that stops it and returns when each was
 * admitted.
 */
function hammer(url: string) {
  // A long deadline, because the test is about decisions of the store and not about latency.
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
  { name: 'an hour forward, and back', steps: [HOUR_MS, 0] },
  { name: 'an hour back, and forward', steps: [-HOUR_MS, 0] },
])('$name', ({ steps }) => {
  test('no caller waits longer than a window, and each step adds one limit at most', async () => {
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
      await waitFor('Every caller admitted', async () => {
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
      // A refusal may be remembered for a second before the store decides again. A busy machine may
      // be late in addition; a caller that is locked out would wait for an hour.
      expect(longestMs, name).toBeLessThanOrEqual(waitMs + 1000 + SLACK_MS + stalledMs)
    }
    process.stdout.write(
      `store clock ${steps.join(', ')} ms: admitted again, and within the next window at most: ` +
        `${figures.join('; ')}\n`,
    )
  })
})

/** The longest wait of a caller after a step, and how many were admitted in the next window. */
function afterSteps(admissions: readonly Admission[], name: string, stepsMs: readonly number[]) {
  let longestMs = 0
  let mostWithin = 0
  for (let user = 0; user < USERS; user++) {
    const own = admissions.filter(({ caller }) => caller === `${name} ${user}`)
    for (const stepMs of stepsMs) {
      // Earlier calls may have been decided before the step.
      const after = own.filter(({ askedMs }) => askedMs >= stepMs)
      longestMs = Math.max(longestMs, (after[0]?.atMs ?? Infinity) - stepMs)
      const within = after.filter(({ atMs }) => atMs < stepMs + WINDOW_MS)
      mostWithin = Math.max(mostWithin, within.length)
    }
  }
  return { longestMs, mostWithin }
}
