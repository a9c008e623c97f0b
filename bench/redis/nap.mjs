/** Sleeps for less than a millisecond, which Node's timers cannot. */
import { setImmediate as nextTurn } from 'node:timers/promises'

const NAP_MS = 0.05
const nothing = new Int32Array(new SharedArrayBuffer(4))

/** Sleeps for 50 us, or until `dueMs` if that is sooner; then sockets are read. */
export function napUntilNextTurn(dueMs) {
  const leftMs = Math.min(NAP_MS, dueMs - performance.now())
  if (leftMs > 0) Atomics.wait(nothing, 0, 0, leftMs)
  return nextTurn()
}
