import { matchRules, type Plan, planCall } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import { placeInWindow } from '../coordination/window-placement.js'
import { loadRules } from '../rule-set.js'
import { FallbackDecider } from './fallback-decider.js'

const SECOND_US = 1_000_000
/** An edge of every window that is used here. */
const EDGE_US = 1_760_000_400 * SECOND_US

/** Shares of the limits of a call that a node counts while the store does not answer. */
function start(...limits: readonly (string | object)[]) {
  const rules = [{ id: 'per-user', by: ['user'], limits }]
  const secret = { k0: 1, k1: 2, k2: 3, k3: 4 }
  const { snapshot } = loadRules(rules, { secret, before: undefined, file: undefined })
  const call = { attributes: { user: 'u1' } }
  const plan: Plan = planCall(matchRules(snapshot, call), call)
  const node = { now: EDGE_US, uncertaintyUs: 0 }
  const parts = {
    time: () => node.now,
    uncertaintyUs: () => node.uncertaintyUs,
    toleranceUs: 100_000,
  }
  const answers = new FallbackDecider({
    maxCounters: 1000,
    time: parts.time,
    placeInWindow: (limit) => placeInWindow(parts, limit),
    fleetSize: () => 1,
  })
  /** The answer at a time since the edge. */
  const at = (sinceEdgeMs: number) => {
    node.now = EDGE_US + sinceEdgeMs * 1000
    return answers.take(plan, undefined)
  }
  return { node, answers, plan, at }
}

const window = (max: number, seconds = 60) => ({
  algorithm: 'fixed-window',
  max,
  window: `${seconds}s`,
})

describe('shares near the edge of a window', () => {
  test('the share of a window opens at the edge while the store’s time is known well', () => {
    const { at, node } = start(window(1))
    node.uncertaintyUs = 100_000
    expect([at(-1).allowed, at(-1).allowed, at(0).allowed]).toEqual([true, false, true])
  })

  test('the share of a window opens late where the time may be off by more, and what is spent before is of the last', () => {
    const { at, node } = start(window(2))
    node.uncertaintyUs = 300_000
    expect(at(-1).allowed).toBe(true)
    const near = at(100)
    expect([near.allowed, near.spendings[0]?.at]).toEqual([true, EDGE_US - 200_000])
    const over = at(200)
    expect([over.allowed, over.outcomes[0]?.[0]?.retryAfterMs]).toEqual([false, 100])
    const far = at(300)
    expect([far.allowed, far.spendings[0]?.at]).toEqual([true, EDGE_US + 300_000])
  })

  test('the share of a window is returned to the window that it was taken from', () => {
    const { at, node, answers } = start(window(1))
    node.uncertaintyUs = 300_000
    const [spending] = at(100).spendings
    expect(at(150).allowed).toBe(false)
    if (spending !== undefined) answers.returnLocal(spending)
    expect(at(200).allowed).toBe(true)
  })
})

describe('shares of several limits', () => {
  const bucket = { algorithm: 'token-bucket', max: 60, burst: 2, window: '60s' }

  test('shares of several limits of a call are each taken at their own time', () => {
    const { at, node } = start(window(5), bucket)
    node.uncertaintyUs = 2 * SECOND_US
    const { spendings } = at(500)
    expect(spendings.map((spending) => (spending?.at ?? 0) - EDGE_US)).toEqual([
      -1_500_000, 500_000,
    ])
  })

  test('shares of several limits of a call are all taken or none, whichever of them refuses', () => {
    const tight = start(window(1), bucket)
    tight.node.uncertaintyUs = SECOND_US
    expect([tight.at(0), tight.at(1), tight.at(2)].map(({ allowed }) => allowed)).toEqual([
      true,
      false,
      false,
    ])
    const peeked = tight.answers.peek(tight.plan).outcomes[0]
    expect(peeked?.map(({ remaining }) => remaining)).toEqual([0, 1])
    const loose = start(window(9), bucket)
    loose.node.uncertaintyUs = SECOND_US
    expect([loose.at(0), loose.at(1), loose.at(2)].map(({ allowed }) => allowed)).toEqual([
      true,
      true,
      false,
    ])
    const left = loose.answers.peek(loose.plan).outcomes[0]
    expect(left?.map(({ remaining }) => remaining)).toEqual([7, 0])
  })

  test('shares of several limits of a call are peeked at without taking anything', () => {
    const { at, node, answers, plan } = start(window(1), bucket)
    node.uncertaintyUs = SECOND_US
    for (let i = 0; i < 3; i++) expect(answers.peek(plan).allowed).toBe(true)
    expect(at(0).allowed).toBe(true)
  })
})
