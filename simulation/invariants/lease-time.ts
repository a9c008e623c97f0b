/**
 * A lease is not spent after its end.
 *
 * Every unit of a leased rule that a call takes comes from a draw of the same node that was still
 * alive when the call came: sent at most min(window/4, 2 s) of true time before, and for windows
 * in the window that the store was in by its own clock. Or the call waited for that very draw.
 * Clocks may drift by 500 ppm, and a machine that sleeps while its wall clock is set back can know
 * nothing, so such nodes are left out; so are windows that a step of the store's clock passed.
 */
import type { Limit } from '@sluice/core'
import { type Decided, grantsOf, type Truth, type Wanted } from '../truth.js'
import type { MakeInvariant } from './invariant.js'

const LEASE_US_MAX = 2_000_000
/** Of both clocks together, and of what is rounded to milliseconds. */
const DRIFT = 1 / 1000
const ROUNDING_US = 2000

interface Draw {
  readonly sentUs: number
  readonly doneUs: number
  readonly windowEndsUs: number
  left: number
}

export const leaseTime: MakeInvariant = (truth) => {
  const draws = new Map<string, Draw[]>()
  const confused = confusedNodes(truth)
  return {
    name: 'a lease is not spent after its end',
    onDone: ({ request, reply, trueUs }) => {
      for (const { take, granted, at } of grantsOf(request, reply)) {
        const account = truth.accountOf(request.node, take.key)
        if (account?.counter.of.coordination !== 'leased') continue
        const id = `${request.node} ${account.counter.name}`
        const known = draws.get(id) ?? []
        const windowEndsUs = windowEnd(at, take.limit)
        known.push({ sentUs: request.sentUs, doneUs: trueUs, windowEndsUs, left: granted })
        draws.set(id, known)
      }
      return undefined
    },
    onDecided: (decided) => {
      const { called, spent } = decided
      if (confused.has(called.node)) return undefined
      for (const { wanted, byPosture } of spent) {
        const { counter } = wanted.account
        if (byPosture || counter.of.coordination !== 'leased') continue
        // Where the store is silent a shadow rule passes without any lease.
        if (counter.isShadow && !truth.isCalm) continue
        const known = draws.get(`${called.node} ${counter.name}`) ?? []
        const missing = spend(known, wanted, decided, truth)
        if (missing > 0) {
          return `${called.node} spent ${missing} units of no living lease of ${counter.of.rule}`
        }
      }
      return undefined
    },
  }
}

/** Takes from what ends first; returns what is not covered. */
function spend(draws: Draw[], wanted: Wanted, decided: Decided, truth: Truth): number {
  const { limit } = wanted.account.counter
  let missing = wanted.amount
  for (const draw of draws) {
    if (missing === 0) break
    if (draw.left === 0 || !isAlive(draw, limit, decided, truth)) continue
    const taken = Math.min(missing, draw.left)
    draw.left -= taken
    missing -= taken
  }
  return missing
}

function isAlive(draw: Draw, limit: Limit, { called, storeUs, trueUs }: Decided, truth: Truth) {
  const { startedUs } = called
  if (draw.doneUs >= startedUs) return true
  const lengthUs = Math.min(limit.windowUs / 4, LEASE_US_MAX)
  if (startedUs - draw.sentUs > lengthUs * (1 + DRIFT) + ROUNDING_US) return false
  const isUpset = truth.isUpset(trueUs, trueUs - draw.doneUs)
  const startedStoreUs = storeUs - (trueUs - startedUs)
  return isUpset || startedStoreUs <= draw.windowEndsUs + ROUNDING_US
}

function windowEnd(at: number, { algorithm, windowUs }: Limit): number {
  const isWindow = algorithm === 'fixed-window' || algorithm === 'sliding-window-counter'
  return isWindow ? at - (at % windowUs) + windowUs : Infinity
}

function confusedNodes({ scenario }: Truth): ReadonlySet<string> {
  const nodesOf = (kind: string) =>
    scenario.faults.flatMap((fault) => (fault.kind === kind && 'node' in fault ? fault.node : []))
  const jumped = nodesOf('wall-jump')
  return new Set(nodesOf('suspend').filter((node) => jumped.includes(node)))
}
