/** How long logs are stored in Redis: bytes per entry, and how much of a log a take reads. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { defineLimit, LOG_INSTANTS_SHOWN, type Log, shortenLog } from '@sluice/core'
import { memoryStore } from '../../memory/memory-store.js'
import { manualClock } from '../../testing/index.js'
import {
  type Batch,
  type BatchRedis,
  keyOf,
  outcomesOf,
  peekOf,
  placeOf,
  startBatchRedis,
  takeOf,
} from './redis.test-helper.js'

const NOW = 1_767_225_600_000_000
const key = keyOf(1)
const limit = defineLimit({ algorithm: 'sliding-window-log', max: 10_000, windowMs: 60_000 })

let redis: BatchRedis
beforeAll(async () => {
  redis = await startBatchRedis()
})
beforeEach(() => redis.client.flushall())
afterAll(() => redis.stop())

/** One take per batch, this many microseconds apart. */
function takes(from: number, count: number, everyUs: number): readonly Batch[] {
  return Array.from({ length: count }, (_, n) => ({
    ops: [takeOf(key, limit)],
    times: { notAfter: 0, now: NOW + (from + n) * everyUs },
  }))
}

/** All records of the log as stored in Redis: see lua/sliding-window-log/records.lua. */
async function storedLog(): Promise<Log> {
  const bytes = (await redis.client.getBuffer(placeOf(key))) ?? Buffer.alloc(20)
  const base = Number(bytes.readBigUInt64BE(4) & 0xffffffffffffffn)
  const count = bytes.readUInt16BE(14)
  let before = bytes.readUInt16BE(12)
  const log: number[] = []
  for (let record = bytes.readUInt16BE(16); record <= count; record++) {
    const at = 20 + 8 * (record - 1)
    const total = bytes.readUInt16BE(at + 6)
    log.push(base + bytes.readUIntBE(at, 6), (total - before + 65_536) % 65_536)
    before = total
  }
  return log
}

async function bytesPerEntry(entries: number): Promise<number> {
  const bytes = (await redis.client.memory('USAGE', placeOf(key))) ?? Number.NaN
  return bytes / entries
}

async function callsOf(command: string): Promise<number> {
  const stats = await redis.server.info('commandstats')
  return Number(/calls=(\d+)/.exec(stats[`cmdstat_${command}`] ?? '')?.[1] ?? 0)
}

describe('a log of 10,000 entries', () => {
  test('admits exactly its max, and needs less than 16 bytes an entry from 20 on', async () => {
    const sizes = [20, 21, 50, 100, 255, 256, 257, 300, 400, 1000, 1025, 3000, 7777, 10_000]
    let made = 0
    for (const size of sizes) {
      await redis.run('plain', takes(made, size - made, 5000))
      made = size
      expect(await bytesPerEntry(size), `${size} entries`).toBeLessThan(16)
    }
    const times = { notAfter: 0, now: NOW + 9_999 * 5000 }
    const replies = await redis.run('plain', [{ ops: [takeOf(key, limit)], times }])
    const [refused] = replies.flatMap(outcomesOf)
    // The first entry leaves a minute after it was made.
    expect(refused).toMatchObject({ granted: 0, remaining: 0, retryAfterMs: 60_000 - 49_995 })
  })

  test('needs less than 16 bytes an entry while it slides, and a take reads little of it', async () => {
    await redis.run('plain', takes(0, 10_000, 6000))
    await redis.client.config('RESETSTAT')
    for (let round = 0; round < 6; round++) {
      const replies = await redis.run('plain', takes(10_000 + round * 1000, 1000, 6000))
      for (const [outcome] of replies.map(outcomesOf)) expect(outcome?.granted).toBe(1)
      expect(await bytesPerEntry(10_000)).toBeLessThan(16)
    }
    expect(await callsOf('getrange')).toBeLessThan(6000 * 5)
    expect(await callsOf('set')).toBeLessThan(20)
    const expected = Array.from({ length: 10_000 }, (_, n) => [NOW + (n + 6000) * 6000, 1]).flat()
    expect(await storedLog()).toEqual(expected)
    const replies = await redis.run('plain', [
      { ops: [peekOf(key, limit)], times: { notAfter: 0, now: NOW + 15_999 * 6000 } },
    ])
    const [peeked] = replies.flatMap(outcomesOf)
    expect(peeked?.state).toEqual(shortenLog(expected))
    expect(peeked?.state).toHaveLength(2 * LOG_INSTANTS_SHOWN)
  })

  test('counts as absent if its header contradicts its length', async () => {
    await redis.run('plain', takes(0, 3000, 1000))
    const whole = await redis.client.getBuffer(placeOf(key))
    if (whole === null) throw new Error('no log')
    const left = async (bytes: Buffer) => {
      await redis.client.set(placeOf(key), bytes, 'PX', 60_000)
      const times = { notAfter: 0, now: NOW + 3000 * 1000 }
      const replies = await redis.run('plain', [{ ops: [peekOf(key, limit)], times }])
      return replies.flatMap(outcomesOf)[0]?.remaining
    }
    expect(await left(whole)).toBe(7000)
    for (const cut of [1, 8, 100, 8000, whole.length - 28, whole.length - 20, whole.length - 3]) {
      expect(await left(whole.subarray(0, whole.length - cut))).toBe(10_000)
    }
    expect(await left(Buffer.concat([whole, Buffer.alloc(8)]))).toBe(10_000)
    for (const [at, value] of [
      [0, 5],
      [14, 255],
      [15, 0],
      [16, 255],
      [18, 255],
    ] as const) {
      const damaged = Buffer.from(whole)
      damaged[at] = value
      if (at === 15) damaged[14] = 0
      expect(await left(damaged), `byte ${at}`).toBe(10_000)
    }
  })
})

test('a log may be in use for longer than its records can express', async () => {
  const yearly = defineLimit({
    algorithm: 'sliding-window-log',
    max: 3,
    windowMs: 366 * 86_400_000,
  })
  const clock = manualClock()
  const { sync } = memoryStore({ clock })
  const take = { key, limit: yearly, amount: 1 }
  for (let n = 0; n < 60; n++) {
    const now = NOW + n * 150 * 86_400_000_000
    clock.set(now)
    const ops = [takeOf(key, yearly), peekOf(key, yearly)]
    const [reply] = await redis.run('plain', [{ ops, times: { notAfter: 0, now } }])
    const [taken, peeked] = reply === undefined ? [] : outcomesOf(reply)
    expect(sync.take([[take]])[0]?.[0]).toMatchObject(taken ?? {})
    expect(sync.peek([[take]])[0]?.[0]?.state).toEqual(peeked?.state)
  }
})
