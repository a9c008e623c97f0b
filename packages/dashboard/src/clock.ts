/** The only reader of the clock, and of what is drawn anew because it went on. */
import { signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'

export const now = (): number => Date.now()

const ticking = signal(now())

/** The time, a second old at most: a component that reads it is drawn anew each second. */
export const nowMs = ticking

/** Until the page is closed. A page that nobody looks at is not drawn. */
export function startClock(): void {
  setInterval(() => {
    if (document.visibilityState === 'visible') ticking.value = now()
  }, 1000)
  document.addEventListener('visibilitychange', () => {
    ticking.value = now()
  })
}

/** Another number now and then, while the page is looked at: for what has to be asked anew. */
export function useRounds(everyMs: number): number {
  const [round, setRound] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') setRound((old) => old + 1)
    }, everyMs)
    return () => clearInterval(timer)
  }, [everyMs])
  return round
}
