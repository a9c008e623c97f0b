/** The checks that hold after every fault. */
import { expect } from 'vitest'
import { KINDS, TIGHT_MAX } from './fault-nodes.test-helper.js'
import type { FaultFigures, FaultOptions } from './fault-run.test-helper.js'

/** The most a decision may take beyond its deadline. */
const GRACE_MS = 25
/** Stalls that the canary does not record: the current turn of the event loop, and short ones. */
const RESOLUTION_MS = 5
const HEAP_GROWTH_MAX = 20 * 2 ** 20
/** On a busy machine a duration proves little, so it fails only far beyond its bound. */
const TIME_TOLERANCE = 5
const ROUNDING = 1e-9
/**
 * The fraction that may be decided by posture without explanation. A hiccup of the machine that the
 * canary missed costs a batch or two; a store that has not recovered costs nearly all.
 */
const STRAYS_MAX = 0.05

export function expectSound(options: FaultOptions, figures: FaultFigures): void {
  expectAllDecided(figures)
  expect(figures.excessMs, 'beyond the deadline').toBeLessThanOrEqual(GRACE_MS + RESOLUTION_MS)
  const { recoveryMs = 1000, degrades = true } = options
  if (degrades) expect(figures.byPosture, 'decisions by posture').toBeGreaterThan(0)
  expect(figures.recoveryMs, 'until exact again').toBeLessThanOrEqual(TIME_TOLERANCE * recoveryMs)
  expectExact(options, figures)
  expectWithinLimits(options, figures)
  expect(figures.heapGrowth, 'heap').toBeLessThanOrEqual(HEAP_GROWTH_MAX)
  for (const store of figures.nodes.stores) {
    for (const { inFlight, queuedTakes } of store.stats().nodes) {
      expect([inFlight, queuedTakes], 'left in flight').toEqual([0, 0])
    }
  }
}

function expectAllDecided({ log }: FaultFigures): void {
  let unanswered = 0
  let rejected = 0
  const wrong: unknown[] = []
  for (const row of log.rows()) {
    if (row.isRejected) rejected += 1
    else if (Number.isNaN(row.answeredMs)) unanswered += 1
    else if (!row.isRight) wrong.push({ ...row, kind: KINDS[row.kind]?.name })
  }
  expect([unanswered, rejected], 'unanswered, rejected').toEqual([0, 0])
  expect(wrong.slice(0, 3), 'decisions that do not match the posture of their rules').toEqual([])
}

/** After the fault, or all the time if decisions should not notice the fault. */
function expectExact(options: FaultOptions, figures: FaultFigures): void {
  if (options.degrades !== false) {
    const most = figures.decisionsAfter * STRAYS_MAX
    expect(figures.unexcused, 'by posture once exact again').toBeLessThanOrEqual(most)
    return
  }
  let unexcused = 0
  for (const { source, answeredMs } of figures.log.rows()) {
    if (source === 'posture' && !figures.isNoisy(answeredMs)) unexcused += 1
  }
  expect(unexcused, 'by posture').toBeLessThanOrEqual(figures.decisions * STRAYS_MAX)
}

function expectWithinLimits({ losses = 0 }: FaultOptions, figures: FaultFigures): void {
  const { admitted, reported } = figures
  const { store, closed, local } = admitted.worst
  expect(store, 'over-admission by the store').toBeLessThanOrEqual(losses)
  expect(closed, 'over-admission, closed').toBeLessThanOrEqual(losses)
  // Every node has its own share in addition: together another limit, if all nodes see each other.
  const shares = figures.fleetSizes.map((nodes) => Math.ceil(TIGHT_MAX / nodes) / TIGHT_MAX)
  const sum = shares.reduce((all, share) => all + share, 0)
  expect(local, 'over-admission, local').toBeLessThanOrEqual(losses + sum + ROUNDING)
  expect(reported, 'charged for units spent locally').toBeLessThanOrEqual(admitted.byShare)
}
