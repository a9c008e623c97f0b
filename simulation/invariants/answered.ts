/**
 * Every call is decided within its deadline and 25 ms, in true time, under every fault. Time in
 * which its node stands still or sleeps does not count; a dead node never answers.
 */
import type { Called } from '../called.js'
import type { Truth } from '../truth.js'
import type { MakeInvariant } from './invariant.js'

const CAP_MS = 25
const DRIFT = 1 / 1000

export const answered: MakeInvariant = (truth) => {
  const mostUs = (truth.scenario.settings.deadlineMs + CAP_MS) * 1000 * (1 + DRIFT)
  return {
    name: 'every call is decided in time',
    onDecided: ({ called, trueUs }) => {
      const tookUs = trueUs - called.startedUs - stoodUs(called, trueUs, truth)
      if (tookUs <= mostUs) return undefined
      return `call ${called.id} on ${called.node} took ${tookUs / 1000} ms`
    },
    atEnd: () => {
      for (const called of truth.waiting.values()) {
        if (!truth.dead.has(called.node)) return `call ${called.id} on ${called.node} still waits`
      }
      return undefined
    },
  }
}

/** How long its node stood still meanwhile; twice at once counts as one after the other. */
function stoodUs({ node, startedUs }: Called, nowUs: number, { scenario }: Truth): number {
  let sum = 0
  for (const fault of scenario.faults) {
    if ((fault.kind !== 'pause' && fault.kind !== 'suspend') || fault.node !== node) continue
    const fromUs = scenario.settings.startUs + fault.atMs * 1000
    const toUs = fromUs + fault.forMs * 1000
    sum += Math.max(0, Math.min(nowUs, toUs) - Math.max(startedUs, fromUs))
  }
  return sum
}
