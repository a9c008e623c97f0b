/** A clock that stands still until a test advances it. */
import type { Scheduler } from './scheduler.js'

export interface ManualScheduler extends Scheduler {
  /** Advances the time, and runs each timer when it is due. */
  advance(ms: number): Promise<void>
}

export function manualScheduler(): ManualScheduler {
  let now = 0
  const scheduled = new Map<symbol, { readonly at: number; readonly run: () => void }>()
  const next = () =>
    [...scheduled].reduce<[symbol, { at: number; run: () => void }] | undefined>(
      (first, entry) => (first !== undefined && first[1].at <= entry[1].at ? first : entry),
      undefined,
    )
  return {
    nowMs: () => now,
    after(ms, run) {
      const id = Symbol()
      scheduled.set(id, { at: now + ms, run })
      return () => void scheduled.delete(id)
    },
    async advance(ms) {
      const end = now + ms
      await settle()
      for (let due = next(); due !== undefined && due[1].at <= end; due = next()) {
        const [id, { at, run }] = due
        scheduled.delete(id)
        now = Math.max(now, at)
        run()
        await settle()
      }
      now = end
    },
  }
}

/** Runs everything that needs no time: promises, and work in slices. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 20; i++) await new Promise(setImmediate)
}

/** The time limit for a busy disk. */
const OTHERS_MS_MAX = 20_000

/**
 * Waits for real work, such as file access, until a condition holds; the time of the test stands
 * still.
 */
export async function until(holds: () => boolean): Promise<void> {
  const end = performance.now() + OTHERS_MS_MAX
  while (!holds() && performance.now() < end) await new Promise(setImmediate)
  if (!holds()) throw new Error(`it never came to ${holds.toString()}`)
}
