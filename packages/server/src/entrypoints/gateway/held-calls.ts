/** Calls that a leaky bucket or `wait` admits later: held here, bounded, freed if they leave. */
import type { Duplex } from 'node:stream'

/** Whom a call is held for: it emits `close` when it goes away. */
type HeldSocket = Pick<Duplex, 'destroyed' | 'once' | 'off'>

export interface HeldCalls {
  /** Whether one more call may be held. */
  hasRoom(): boolean
  /** Resolves to whether the caller is still there, and its call wanted, when the time has come. */
  hold(socket: HeldSocket, delayMs: number): Promise<boolean>
  count(): number
  /** Lets go of all that are held, as if their callers had left. */
  abandon(): void
}

/** What setTimeout takes; longer waits are waited for in pieces. */
const TIMER_MS_MAX = 2 ** 31 - 1

export function createHeldCalls(max: number): HeldCalls {
  const held = new Set<(isThere: boolean) => void>()
  return {
    hasRoom: () => held.size < max,
    count: () => held.size,
    abandon() {
      for (const end of held) end(false)
    },
    hold: (socket, delayMs) =>
      new Promise((resolve) => {
        if (socket.destroyed) return resolve(false)
        let timer: NodeJS.Timeout
        const end = (isThere: boolean) => {
          held.delete(end)
          clearTimeout(timer)
          socket.off('close', onClose)
          resolve(isThere)
        }
        const onClose = () => end(false)
        const wait = (leftMs: number) => {
          const next = Math.min(leftMs, TIMER_MS_MAX)
          timer = setTimeout(() => (leftMs > next ? wait(leftMs - next) : end(true)), next)
        }
        held.add(end)
        socket.once('close', onClose)
        wait(delayMs)
      }),
  }
}
