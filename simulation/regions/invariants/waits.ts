/**
 * No call waits for another region: it is decided within the deadline of its own store plus 25 ms,
 * whatever becomes of links. A reset waits up to a second for the others, and a node that shuts
 * down as long to tell them what they do not know.
 */
import type { MakeRegionInvariant } from './region-invariant.js'

const CAP_MS = 25
const SECOND_MS = 1000
const DRIFT = 1 / 1000
/** A limiter that closes gives back its leases, and reports what its own store does not know. */
const CLOSE_MS = 2000

export const waits: MakeRegionInvariant = ({ truth: { scenario } }) => {
  const { deadlineMs } = scenario.settings
  const isPaused = (node: string) =>
    scenario.faults.some((fault) => fault.kind === 'pause' && fault.node === node)
  const within = (what: string, node: string, tookUs: number, mostMs: number) => {
    if (isPaused(node) || tookUs <= mostMs * 1000 * (1 + DRIFT)) return undefined
    return `${what} on ${node} took ${tookUs / 1000} ms`
  }
  return {
    name: 'nothing waits for another region beyond its time',
    onDecision: (node, tookUs) => within('a call', node, tookUs, deadlineMs + CAP_MS),
    onReset: (node, tookUs) => within('a reset', node, tookUs, SECOND_MS + deadlineMs + CAP_MS),
    onClosed: (node, tookUs) => within('closing', node, tookUs, SECOND_MS + CLOSE_MS + deadlineMs),
  }
}
