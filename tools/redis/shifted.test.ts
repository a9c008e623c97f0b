import { afterAll, beforeAll, expect, test } from 'vitest'
import { startShiftedRedis, type ShiftedRedis } from './shifted.js'

const HOUR_MS = 3_600_000

let server: ShiftedRedis
beforeAll(async () => {
  server = await startShiftedRedis()
})
afterAll(() => server.stop())

/** How far its clock is ahead of ours, as a range: the answer takes a while. */
async function aheadMs(ask: () => Promise<string>): Promise<readonly [number, number]> {
  const before = Date.now()
  const [seconds, microseconds] = (await ask()).split('\n')
  const after = Date.now()
  const time = Number(seconds) * 1000 + Number(microseconds) / 1000
  // This process reads whole milliseconds.
  return [time - after - 1, time - before]
}

test.each([
  ['TIME', () => server.cli('TIME')],
  ['TIME in a script', () => server.cli('EVAL', "return redis.call('TIME')", '0')],
])(
  '%s can be shifted while the server runs, forward and back, by the given milliseconds',
  async (_, ask) => {
    for (const ms of [0, HOUR_MS, 250, -HOUR_MS, -1.5, 0]) {
      server.shiftClock(ms)
      const [least, most] = await aheadMs(ask)
      expect(least).toBeLessThanOrEqual(ms)
      expect(most).toBeGreaterThanOrEqual(ms)
    }
  },
)

test('keys expire by the shifted clock', async () => {
  await server.cli('SET', 'key', 'x', 'PX', String(HOUR_MS))
  server.shiftClock(HOUR_MS - 60_000)
  expect(await server.cli('EXISTS', 'key')).toBe('1')
  server.shiftClock(HOUR_MS)
  expect(await server.cli('EXISTS', 'key')).toBe('0')
  server.shiftClock(0)
})

test('the shift survives a restart, and affects one server only', async () => {
  server.shiftClock(-HOUR_MS)
  await server.restart()
  const other = await startShiftedRedis()
  try {
    expect((await aheadMs(() => server.cli('TIME')))[1]).toBeLessThan(-HOUR_MS + 60_000)
    expect((await aheadMs(() => other.cli('TIME')))[1]).toBeGreaterThanOrEqual(0)
  } finally {
    await other.stop()
    server.shiftClock(0)
  }
})
