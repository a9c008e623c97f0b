/**
 * Calendar windows whose edges a node sends for its estimate of the store's time, while the store's
 * clock says something else.
 */
import { calendarWindowAt, defineLimit, type Limit, type Outcome } from '@sluice/core'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { memoryStore } from '../../memory/memory-store.js'
import { manualClock } from '../../testing/index.js'
import { decodeBatch } from './batch-reply.js'
import { BatchCodec } from './batch-request.js'
import {
  type BatchRedis,
  keyOf,
  LAYOUTS,
  type Layout,
  outcomesOf,
  PREFIX,
  send,
  startBatchRedis,
  takeOf,
} from './redis.test-helper.js'
import { PARTITION_TAGS } from '../request/partitions.js'

const DAY_US = 86_400_000_000
const UNITS = [
  ['day', DAY_US],
  ['week', 7 * DAY_US],
  ['month', 31 * DAY_US],
] as const
/** Noon in Berlin on the day on which summer begins. */
const NOW = Date.UTC(2026, 2, 29, 10) * 1000
const CALENDAR = { algorithm: 'fixed-window', max: 10, zone: 'Europe/Berlin' } as const

let redis: BatchRedis
beforeAll(async () => {
  redis = await startBatchRedis()
})
beforeEach(() => redis.client.flushall())
afterAll(() => redis.stop())

/** A time as the numbers of a request are written. */
function encodedTime(us: number): Buffer {
  const bytes = Buffer.alloc(9, 0xcf)
  bytes.writeBigUInt64BE(BigInt(us), 1)
  return bytes
}

/** Takes with the edges of a node's estimate, at another time of the store. */
function nodeOf(layout: Layout) {
  const codec = new BatchCodec({ prefix: PREFIX, layout, tags: PARTITION_TAGS })
  return async (limit: Limit, amount: number, estimate: number, now: number): Promise<Outcome> => {
    const ops = [takeOf(keyOf(1), limit, amount)]
    const { command } = codec.encode(ops, { notAfter: 0, now: estimate })
    const words = command.words().map((word) => Buffer.from(word))
    const at = words.findIndex((word) => word.includes(encodedTime(estimate)))
    const request = Buffer.from(words[at] ?? [])
    encodedTime(now).copy(request, request.indexOf(encodedTime(estimate)))
    const sent = words.map((word, index) => (index === at ? request : word))
    const [outcome] = outcomesOf(decodeBatch(ops, await send(redis.client, sent)))
    if (outcome === undefined) throw new Error('no outcome')
    return outcome
  }
}

describe.each(LAYOUTS)('in the %s layout', (layout) => {
  test.each(UNITS)(
    'a node whose estimate is off by up to a %s counts in the window of the store’s time',
    async (window, windowUs) => {
      const limit = defineLimit({ ...CALENDAR, window, windowMs: windowUs / 1000 })
      const [take, clock] = [nodeOf(layout), manualClock()]
      const store = memoryStore({ clock })
      for (let step = 0; step < 60; step++) {
        const now = NOW + Math.floor((step * windowUs) / 17)
        clock.set(now)
        const offUs = Math.floor((((step % 5) - 2) * windowUs) / 2.2)
        const [[expected] = []] = store.sync.take([[{ key: keyOf(1), limit, amount: 2 }]])
        expect(await take(limit, 2, now + offUs, now)).toMatchObject({
          granted: expected?.granted,
          remaining: expected?.remaining,
          resetAfterMs: expected?.resetAfterMs,
          at: now,
        })
      }
    },
  )

  test.each(UNITS)(
    'a node whose estimate is off by many times a %s admits at most one limit more',
    async (window, windowUs) => {
      const limit = defineLimit({ ...CALENDAR, window, windowMs: windowUs / 1000 })
      const { start, end } = calendarWindowAt({ unit: window, zone: CALENDAR.zone }, NOW)
      for (const offUs of [-400 * windowUs, -5 * windowUs, 5 * windowUs, 400 * windowUs]) {
        await redis.client.flushall()
        const take = nodeOf(layout)
        let granted = 0
        for (let now = start; now < end; now += (end - start) / 40) {
          const outcome = await take(limit, 3, Math.max(DAY_US, now + offUs), now)
          granted += outcome.granted
          expect(outcome.resetAfterMs).toBeLessThanOrEqual(windowUs / 1000)
        }
        expect(granted).toBeLessThanOrEqual(20)
        // A node that knows the time goes on with the count.
        expect((await take(limit, 0, end - 1, end - 1)).remaining).toBeLessThan(10)
      }
    },
  )
})

test('a node sends other edges as time goes on, and the same ones within a window', () => {
  const limit = defineLimit({ ...CALENDAR, window: 'day', windowMs: DAY_US / 1000 })
  const codec = new BatchCodec({ prefix: PREFIX, layout: 'plain', tags: PARTITION_TAGS })
  /** The starts of days that a request names, as days after that of `NOW`. */
  const daysIn = (now: number) => {
    const { command } = codec.encode([takeOf(keyOf(1), limit)], { notAfter: 0, now })
    const bytes = Buffer.from(command.bytes())
    return Array.from({ length: 12 }, (_, day) => day - 5).filter((day) => {
      const { start } = calendarWindowAt({ unit: 'day', zone: CALENDAR.zone }, NOW + day * DAY_US)
      return bytes.includes(encodedTime(start))
    })
  }
  expect(daysIn(NOW)).toEqual([-1, 0, 1, 2, 3])
  expect(daysIn(NOW + DAY_US / 3)).toEqual([-1, 0, 1, 2, 3])
  expect(daysIn(NOW + DAY_US)).toEqual([0, 1, 2, 3, 4])
  expect(daysIn(NOW - DAY_US)).toEqual([-2, -1, 0, 1, 2])
})
