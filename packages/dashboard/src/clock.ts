/** The only reader of the clock, and of what is drawn anew because it went on. */
import { signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'

export const now = (): number => Date.now()

const currentMs = signal(now())

/** The time, a second old at most: a component that reads it is drawn anew each second. */
export const nowMs = currentMs

/** Until the page is closed. A page that nobody looks at is not drawn. */
export function startClock(): void {
  setInterval(() => {
    if (document.visibilityState === 'visible') currentMs.value = now()
  }, 1000)
  document.addEventListener('visibilitychange', () => {
    currentMs.value = now()
  })
}

/** Another number now and then, while the page is looked at: for what has to be asked anew. */
export function usePolling(everyMs: number): number {
  const [pollCount, setPollCount] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') setPollCount((old) => old + 1)
    }, everyMs)
    return () => clearInterval(timer)
  }, [everyMs])
  return pollCount
}
