/** Helpers for the cases of the conformance suite. */
import assert from 'node:assert/strict'
import {
  type CounterKey,
  defineLimit,
  type Limit,
  type LimitSpec,
  type Outcome,
  type Take,
} from '@sluice/core'
import type { Groups, Store } from '../store.js'
import type { ManualClock } from './manual-clock.js'

export interface StoreUnderTest {
  readonly store: Store
  /** The clock that the store reads; moving it moves the store's time. */
  readonly clock: ManualClock
}

export type MakeStore = () => StoreUnderTest | Promise<StoreUnderTest>

export interface ConformanceCase {
  readonly name: string
  readonly run: () => Promise<void>
}

export interface StoreCase {
  readonly name: string
  readonly run: (under: StoreUnderTest) => Promise<void>
}

export const fixedWindow = (max: number, more: Partial<LimitSpec> = {}): Limit =>
  defineLimit({ algorithm: 'fixed-window', max, windowMs: 60_000, ...more })

export const tokenBucket = (max: number, more: Partial<LimitSpec> = {}): Limit =>
  defineLimit({ algorithm: 'token-bucket', max, windowMs: 60_000, ...more })

/** Keys of one partition, so that a sharded store can decide a call in one place. */
export function key(n: number): CounterKey {
  return { hi: Math.imul(n, 0x9e3779b1) | 0, lo: n | 0, partition: 5 }
}

export function take(n: number, limit: Limit, amount = 1): Take {
  return { key: key(n), limit, amount }
}

/** The outcomes of a call; fails if the store does not answer. */
export async function outcomesOf(
  { store }: StoreUnderTest,
  groups: Groups<Take>,
): Promise<Groups<Outcome>> {
  const answers = await store.take(groups)
  return answers.map((group) =>
    group.map((answer) => {
      if (typeof answer === 'string') assert.fail(`The store did not answer: ${answer}`)
      return answer
    }),
  )
}

/** The remaining units of a counter. */
export async function left({ store }: StoreUnderTest, n: number, limit: Limit): Promise<number> {
  const [[outcome] = []] = await store.peek([[take(n, limit, 0)]])
  return outcome?.remaining ?? Number.NaN
}

/** Whether one take of one counter was granted. */
export async function takes(
  under: StoreUnderTest,
  n: number,
  limit: Limit,
  amount = 1,
): Promise<boolean> {
  const [[outcome] = []] = await outcomesOf(under, [[take(n, limit, amount)]])
  return outcome?.granted === amount
}
