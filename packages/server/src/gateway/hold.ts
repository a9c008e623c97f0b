/** Calls that a leaky bucket or `wait` admits later: held here, bounded, freed if they leave. */
import type { Writable } from 'node:stream'

/** Whom a call is held for: it emits `close` when it goes away. */
type Held = Pick<Writable, 'destroyed' | 'once' | 'off'>

export interface Holds {
  /** Whether one more call may be held. */
  hasRoom(): boolean
  /** Resolves to whether the caller is still there when the time has come. */
  hold(response: Held, delayMs: number): Promise<boolean>
  count(): number
}

/** What setTimeout takes; longer waits are waited for in pieces. */
const TIMER_MS_MAX = 2 ** 31 - 1

export function createHolds(max: number): Holds {
  let held = 0
  return {
    hasRoom: () => held < max,
    count: () => held,
    hold: (response, delayMs) => {
      held++
      return new Promise((resolve) => {
        let timer: NodeJS.Timeout
        const end = (isThere: boolean) => {
          held--
          clearTimeout(timer)
          response.off('close', onClose)
          resolve(isThere)
        }
        const onClose = () => end(false)
        const wait = (leftMs: number) => {
          const next = Math.min(leftMs, TIMER_MS_MAX)
          timer = setTimeout(() => (leftMs > next ? wait(leftMs - next) : end(true)), next)
        }
        if (response.destroyed) {
          held--
          return resolve(false)
        }
        response.once('close', onClose)
        wait(delayMs)
      })
    },
  }
}
