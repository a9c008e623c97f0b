/** Holds calls that a leaky bucket or `wait` admits after a delay; bounded in number. */
import type { Duplex } from 'node:stream'

/** The socket of a held call; it emits `close` when the client leaves. */
type HeldSocket = Pick<Duplex, 'destroyed' | 'once' | 'off'>

export interface HeldCalls {
  /** Whether one more call may be held. */
  hasRoom(): boolean
  /** Resolves after the delay: true if the client is still connected. */
  hold(socket: HeldSocket, delayMs: number): Promise<boolean>
  count(): number
  /** Releases all held calls as if their clients had left. */
  abandon(): void
}

/** The maximum of setTimeout; longer delays are split. */
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
