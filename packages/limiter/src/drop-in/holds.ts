/**
 * A hold replaces the hits of a key for a time of its own, as a block or an extended window does.
 * Its counter has spent everything but the hits: to add a hit is to give a unit back, which changes
 * a counter only while its window is open. To add one by a charge would begin a window of 366 days
 * if the hold ended in the meantime.
 */
import { type CounterKey, counterLimit, type Outcome, WINDOW_MS_MAX } from '@sluice/core'
import type { Charge, Give } from '../store.js'
import { clampWindow } from './counter-names.js'

/**
 * All holds have this one limit, so that every node reads them alike. A hold of any length is a
 * window that began as long ago as it takes to end in time.
 */
export const HOLD_LIMIT = counterLimit({ windowMs: WINDOW_MS_MAX, name: 'hold' })

/** A counter that has spent nothing does not exist, so one unit stays spent. */
const HITS_MAX = HOLD_LIMIT.max - 1

/** The hits of a hold; 0 if there is none. */
export function hitsOfHold({ remaining, resetAfterMs }: Outcome): number {
  return resetAfterMs === 0 ? 0 : remaining
}

/** Begins a hold that ends `durationMs` after `at`, where there is none. */
export function beginHold(key: CounterKey, hits: number, durationMs: number, at: number): Charge {
  const amount = HOLD_LIMIT.max - Math.min(hits, HITS_MAX)
  return { key, limit: HOLD_LIMIT, amount, at: holdStart(at, durationMs), debt: 0 }
}

/** Adds hits to a hold that has `hits` with them. */
export function addToHold(key: CounterKey, amount: number, hits: number): Give {
  const excess = Math.max(0, hits - HITS_MAX)
  return { key, limit: HOLD_LIMIT, amount: Math.max(0, amount - excess) }
}

/**
 * Takes hits back from a hold that, read at `at`, had `resetMs` left. The charge has the start of
 * the hold as its time, so that it is dropped if the hold has ended.
 */
export function takeFromHold(
  key: CounterKey,
  amount: number,
  { at, resetMs }: { readonly at: number; readonly resetMs: number },
): Charge {
  return { key, limit: HOLD_LIMIT, amount, at: holdStart(at, resetMs), debt: 0 }
}

/** Returns when a hold must have begun to end after `durationMs`. */
function holdStart(nowUs: number, durationMs: number): number {
  return nowUs - (HOLD_LIMIT.windowMs - clampWindow(durationMs)) * 1000
}
