/**
 * One block beside a limit, computed here independently of the engine: from the answers of the
 * limit, the resets, and the clock of the store.
 */
import type { Block, CounterKey, Limit } from '@sluice/core'
import { type Counter, nameOf } from './sim-counter.js'

export interface SimBlock {
  readonly name: string
  readonly key: CounterKey
  /** The limit of the block, and the counter that it is beside. */
  readonly limit: Limit
  readonly counter: Counter
  /** Its last end, by the store's clock; 0 if there was none. */
  until: number
  /** How many there were in a row. */
  times: number
  /** When the last one began, in true time. */
  sinceUs: number
  /** When a reset lifted it, in true time. */
  liftedUs: number
  /** Whether a disruption of the store may have changed it, until a call meets it again. */
  isUnsure: boolean
}

export function newBlock(key: CounterKey, limit: Limit, counter: Counter): SimBlock {
  const none = { until: 0, times: 0, sinceUs: -Infinity, liftedUs: -Infinity, isUnsure: false }
  return { name: nameOf(key), key, limit, counter, ...none }
}

export function isBlockedAt({ until }: SimBlock, storeUs: number): boolean {
  return storeUs < until
}

/** The last moment at which it refused, in true time; now while it does. */
export function lastRefusedUs(block: SimBlock, trueUs: number, storeUs: number): number {
  const { until, liftedUs } = block
  return isBlockedAt(block, storeUs) ? trueUs : Math.max(liftedUs, trueUs - (storeUs - until))
}

/** The limit refused a call of the caller: the next block begins, unless one lasts. */
export function beginBlock(block: SimBlock, storeUs: number, trueUs: number): boolean {
  if (isBlockedAt(block, storeUs)) return false
  const { p: firstUs, q: factor, windowUs: longestUs, scaledWindow: forgetUs } = block.limit
  block.times = storeUs >= block.until + forgetUs ? 1 : block.times + 1
  block.until = storeUs + Math.min(longestUs, firstUs * factor ** (block.times - 1))
  block.sinceUs = trueUs
  return true
}

export function liftBlock(block: SimBlock, trueUs: number): void {
  block.until = 0
  block.times = 0
  block.liftedUs = trueUs
}

/** Continues from what the store holds after a disruption. */
export function adoptBlock(block: SimBlock, stored: Block | undefined): void {
  block.until = stored?.until ?? 0
  block.times = stored?.times ?? 0
}
