/**
 * A lease is not spent after its end, nor by a rule that is no longer active, nor after a reset.
 *
 * Every unit of a leased rule that a call takes comes from a draw of the same node that was still
 * valid when the call arrived: sent at most min(window/4, 2 s) of true time before, and for windows
 * in the present window of the store, by its own clock. Or the call waited for that very draw. The
 * draw was made by the same limit that applied to the call on its node, and after the last reset of
 * the counter that the node knew of.
 * Clocks may drift by 500 ppm. A machine that sleeps while its wall clock is set back cannot know
 * the time, so such nodes are left out; so are windows that a step of the store's clock skipped.
 */
import { calendarWindowAt, type Limit } from '@sluice/core'
import type { DecisionRecord, TakeRecord } from '../call-log.js'
import { isSameLimit, nameOf } from '../sim-counter.js'
import { grantsOf, type GroundTruth } from '../ground-truth.js'
import type { MakeInvariant } from './invariant.js'

const LEASE_US_MAX = 2_000_000
/** Drift of both clocks together, and rounding to milliseconds. */
const DRIFT = 1 / 1000
const ROUNDING_US = 2000

interface Draw {
  readonly limit: Limit
  readonly sentUs: number
  readonly doneUs: number
  readonly windowEndsUs: number
  left: number
}

export const leaseTime: MakeInvariant = (truth) => {
  const draws = new Map<string, Draw[]>()
  const resetsUs = new Map<string, number>()
  return {
    name: 'a lease is not spent after its end',
    onExecution: ({ request, reply, trueUs }) => {
      for (const { take, granted, at } of grantsOf(request, reply)) {
        const id = `${request.node} ${nameOf(take.key)}`
        const known = draws.get(id) ?? []
        const { limit } = take
        const windowEndsUs = windowEnd(at, limit)
        known.push({ limit, sentUs: request.sentUs, doneUs: trueUs, windowEndsUs, left: granted })
        draws.set(id, known)
      }
      return undefined
    },
    onReset: (node, key, nowUs) => {
      resetsUs.set(`${node} ${nameOf(key)}`, nowUs)
      return undefined
    },
    onDecision: (record) => {
      const { call, spent } = record
      if (isConfused(call.node, truth)) return undefined
      for (const { take, byPosture } of spent) {
        const { counter } = take.account
        if (byPosture || take.compiled.coordination !== 'leased') continue
        // Without an answer of the store a shadow rule passes without a lease.
        if (counter.isShadow && !truth.isCalm) continue
        const id = `${call.node} ${counter.name}`
        const resetUs = resetsUs.get(id) ?? -Infinity
        const sinceUs = call.startedUs > resetUs ? resetUs : -Infinity
        const known = (draws.get(id) ?? []).filter(({ sentUs }) => sentUs > sinceUs)
        const missing = spend(known, take, record, truth)
        if (missing > 0) {
          return `${call.node} spent ${missing} units of no living lease of ${counter.rule}`
        }
      }
      return undefined
    },
  }
}

/** Takes from the draw that ends first; returns the units that are not covered. */
function spend(
  draws: readonly Draw[],
  take: TakeRecord,
  record: DecisionRecord,
  truth: GroundTruth,
): number {
  const { limit } = take.compiled
  let missing = take.amount
  for (const draw of draws) {
    if (missing === 0) break
    if (draw.left === 0 || !isSameLimit(draw.limit, limit)) continue
    if (!isAlive(draw, limit, record, truth)) continue
    const taken = Math.min(missing, draw.left)
    draw.left -= taken
    missing -= taken
  }
  return missing
}

function isAlive(
  draw: Draw,
  limit: Limit,
  { call, storeUs, trueUs }: DecisionRecord,
  truth: GroundTruth,
) {
  const { startedUs } = call
  if (draw.doneUs >= startedUs) return true
  const lengthUs = Math.min(limit.windowUs / 4, LEASE_US_MAX)
  if (startedUs - draw.sentUs > lengthUs * (1 + DRIFT) + ROUNDING_US) return false
  const isUpset = truth.isDisrupted(trueUs, trueUs - draw.doneUs)
  const startedStoreUs = storeUs - (trueUs - startedUs)
  return isUpset || startedStoreUs <= draw.windowEndsUs + ROUNDING_US
}

function windowEnd(at: number, { algorithm, windowUs, calendar }: Limit): number {
  if (calendar !== undefined) return calendarWindowAt(calendar, at).end
  const isWindow = algorithm === 'fixed-window' || algorithm === 'sliding-window-counter'
  return isWindow ? at - (at % windowUs) + windowUs : Infinity
}

/** Whether a node slept while its wall clock was set. */
export function isConfused(node: string, truth: GroundTruth): boolean {
  return truth.wasSuspended(node) && truth.hadFault(node, 'wall-jump')
}
