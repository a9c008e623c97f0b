/** The only module that reads the clock, and the timers that re-render with it. */
import { signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'

export const now = (): number => Date.now()

const currentMs = signal(now())

/** The current time, at most one second old. A component that reads it re-renders each second. */
export const nowMs = currentMs

/** Starts the clock until the page is closed. It pauses while the page is hidden. */
export function startClock(): void {
  setInterval(() => {
    if (document.visibilityState === 'visible') currentMs.value = now()
  }, 1000)
  document.addEventListener('visibilitychange', () => {
    currentMs.value = now()
  })
}

/** Returns a number that changes every `everyMs` while the page is visible, for use in `deps`. */
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
