import { describe, expect, test } from 'vitest'
import type { CallSpec, LimitText, Scenario } from './scenario.js'
import { runScenario } from './sim-world.js'

const NODES = 5
const MAX = 6
/** Two windows and a little: a bucket that owes a burst has paid it and is full again. */
const APART_MS = 520
const TIMES = 5
/** These calls keep the caller known to a node; otherwise the node would call the store. */
const IDLE_MS = 40

const NAMES = Array.from({ length: NODES }, (_, i) => `n${i}`)

/** All nodes get calls for the whole limit at the same moment, repeatedly. */
function crossingAgain(limit: Pick<LimitText, 'algorithm' | 'burst'>): Scenario {
  const calls = (cost: number, apartMs: number): CallSpec[] =>
    Array.from({ length: (TIMES * APART_MS) / apartMs }, (_, i) =>
      NAMES.map((node) => ({
        kind: 'call' as const,
        atMs: 90 + i * apartMs,
        node,
        user: 'ada',
        cost,
      })),
    ).flat()
  return {
    seed: 1,
    settings: {
      startUs: 1_767_225_600_000_000,
      lengthMs: (TIMES + 1) * APART_MS,
      denyCacheMs: 0,
      deadlineMs: 20,
      delayMs: 0.8,
      jitterMs: 0.4,
      storeAheadMs: 0,
      storeDriftPpm: 0,
    },
    rules: [
      {
        id: 'r0',
        by: ['user'],
        limits: [{ name: 'l0', max: MAX, window: '250ms', ...limit }],
        coordination: 'local',
        syncEvery: '20ms',
        mode: 'enforce',
        posture: 'closed',
      },
    ],
    nodes: NAMES.map((name) => ({
      name,
      joinsMs: 0,
      wallAheadMs: 0,
      wallDriftPpm: 0,
      monotonicDriftPpm: 0,
    })),
    traffic: [...calls(0, IDLE_MS), ...calls(MAX, APART_MS).map(later)],
    faults: [],
  }
}

/** A caller is known from its second call on. */
function later(call: CallSpec): CallSpec {
  return { ...call, atMs: call.atMs + 1.5 * IDLE_MS }
}

describe('nodes that get calls for a whole limit at once may each admit it', () => {
  test.each([
    ['in every window', { algorithm: 'fixed-window' }],
    ['in every window', { algorithm: 'sliding-window-counter' }],
    ['whenever what a bucket may owe is paid', { algorithm: 'token-bucket' }],
    ['whenever what a bucket may owe is paid', { algorithm: 'gcra', burst: MAX }],
  ])('%s: %o', async (_, limit) => {
    const scenario = crossingAgain(limit)
    const free = scenario.traffic.filter((call) => call.kind === 'call' && call.cost === 0)
    const run = await runScenario(scenario)
    expect(run.violation).toBeUndefined()
    expect(run.admitted - free.length).toBe(TIMES * NODES)
  })
})
