/** Holds calls that a leaky bucket or `wait` admits after a delay; bounded in number. */

/** The client of a held call, such as a socket; it emits `close` when it leaves. */
export interface HeldClient {
  readonly destroyed: boolean
  once(event: 'close', listener: () => void): unknown
  off(event: 'close', listener: () => void): unknown
}

export interface HeldCalls {
  /** Whether one more call may be held, beside those for which a place is reserved. */
  hasRoom(reserved?: number): boolean
  /** Resolves after the delay: true if the client is still connected. */
  hold(client: HeldClient, delayMs: number): Promise<boolean>
  count(): number
  /** Releases all held calls as if their clients had left. */
  abandon(): void
}

/** The maximum of setTimeout; longer delays are split. */
const TIMER_MS_MAX = 2 ** 31 - 1

export function createHeldCalls(max: number): HeldCalls {
  const held = new Set<(isThere: boolean) => void>()
  return {
    hasRoom: (reserved = 0) => held.size + reserved < max,
    count: () => held.size,
    abandon() {
      for (const end of held) end(false)
    },
    hold: (client, delayMs) =>
      new Promise((resolve) => {
        if (client.destroyed) return resolve(false)
        let timer: ReturnType<typeof setTimeout>
        const end = (isThere: boolean) => {
          held.delete(end)
          clearTimeout(timer)
          client.off('close', onClose)
          resolve(isThere)
        }
        const onClose = () => end(false)
        const wait = (leftMs: number) => {
          const next = Math.min(leftMs, TIMER_MS_MAX)
          timer = setTimeout(() => (leftMs > next ? wait(leftMs - next) : end(true)), next)
        }
        held.add(end)
        client.once('close', onClose)
        wait(delayMs)
      }),
  }
}
