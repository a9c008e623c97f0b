/** Compares the stored units after a fault run with the ledger. */
import { redisStore } from '@sluice/limiter/redis'
import { expect } from 'vitest'
import { type RedisServer, scanWithoutTtl } from '../../tools/redis/server.mjs'
import type { Account, Ledger } from './fault-ledger.test-helper.js'

export interface StoredComparison {
  /** Units of calls without a known outcome, and how many of them the store has taken. */
  readonly unknown: number
  readonly takenUnacknowledged: number
  /** Units that were charged to the store because they were, or may have been, spent locally. */
  readonly reported: number
}

export async function compareStored(
  url: string,
  servers: readonly RedisServer[],
  ledger: Ledger,
): Promise<StoredComparison> {
  const reader = redisStore({ url, deadlineMs: 10_000, denyCacheMs: 0 })
  const wrong: string[] = []
  let unknown = 0
  let takenUnheard = 0
  let reported = 0
  try {
    await reader.ready
    for (const account of ledger.accounts.values()) {
      const { key, limit, maybe, chargedMaybe } = account
      const [[peeked] = []] = await reader.peek([[{ key, limit, amount: 1, atLeast: undefined }]])
      const stored = limit.capacity - (peeked?.remaining ?? 0)
      const { least, most } = ledger.bounds(account)
      if (stored < least || stored > most) {
        wrong.push(`stored ${stored}, expected ${least} to ${most}: ${sumsOf(account)}`)
      }
      unknown += maybe + chargedMaybe
      reported += account.charged + chargedMaybe
      takenUnheard += ledger.takenUnacknowledged(account, stored)
    }
  } finally {
    await reader.close()
  }
  expect(wrong, 'counters that differ from their answers').toEqual([])
  const immortal = await Promise.all(servers.map((server) => scanWithoutTtl(server)))
  expect(immortal.flat(), 'keys without TTL').toEqual([])
  return { unknown, takenUnacknowledged: takenUnheard, reported }
}

function sumsOf({ key: _key, limit: _limit, ...sums }: Account): string {
  return JSON.stringify(sums)
}
