/**
 * Every call is decided within its deadline and 25 ms, by the clock of its node: twice that where
 * it waits for a draw first. A paused node answers when it goes on; a dead one never.
 */
import type { MakeInvariant } from './invariant.js'

const CAP_MS = 25

export const answered: MakeInvariant = (truth) => {
  const { faults, settings } = truth.scenario
  const stopped = new Set(
    faults.flatMap((fault) =>
      fault.kind === 'pause' || fault.kind === 'suspend' || fault.kind === 'stop' ? fault.node : [],
    ),
  )
  const mostUs = (settings.deadlineMs + CAP_MS) * 1000 * 1.001
  return {
    name: 'every call is decided in time',
    onDecided: ({ called, trueUs }) => {
      if (stopped.has(called.node)) return undefined
      const tookUs = trueUs - called.startedUs
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
