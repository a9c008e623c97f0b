/** A node whose clock is an hour off, on a Redis whose clock is right. */
import { expect, test } from 'vitest'
import { shiftedClockEnv } from '../../tools/redis/shifted.js'
import { shareRedis, startNode } from '../serve-redis.test-helper.js'

const HOUR_MS = 3_600_000
const MINUTE_MS = 60_000
/** A bucket of one has no edge that the second call could fall behind. */
const RULES = `
rules:
  - { id: admitted, by: [ip], limits: [{ algorithm: fixed-window, max: 1000, window: 1m }] }
  - { id: refused, match: { path: /refused }, by: [ip], limits: [{ algorithm: token-bucket, max: 1, burst: 1, window: 1h }] }
`
const FORWARDED = { 'x-forwarded-for': '192.0.2.1' }
const redis = shareRedis()

test.each([HOUR_MS, -HOUR_MS])(
  'a node whose clock is %d ms off reports the end of a window by the time of Redis',
  async (offMs) => {
    const node = await startNode(RULES, {
      ...(await shiftedClockEnv(offMs)),
      SLUICE_REDIS_URL: redis().url,
      SLUICE_STORE_DEADLINE_MS: '10000',
      SLUICE_TRUSTED_PROXIES: '127.0.0.1/32',
    })
    // The program logs that it runs with the shim; otherwise this would prove nothing.
    const date = Date.parse((await fetch(`${node.api}/healthz`)).headers.get('date') ?? '')
    expect(Math.abs(date - Date.now() - offMs)).toBeLessThan(HOUR_MS / 2)
    const check = { method: 'POST', body: '{"attributes":{"ip":"192.0.2.1"}}' }
    const refused = `${node.gateway}/refused`
    await fetch(refused)
    const calls: readonly [url: string, status: number, afterMs: number, init?: RequestInit][] = [
      [`${node.gateway}/`, 200, 0],
      [refused, 429, HOUR_MS - MINUTE_MS],
      [`${node.api}/v1/check`, 200, 0, check],
      [`${node.api}/v1/forward-auth`, 200, 0, { headers: FORWARDED }],
    ]
    for (const [url, status, afterMs, init] of calls) {
      const sentMs = Date.now()
      const response = await fetch(url, init)
      expect(response.status, url).toBe(status)
      const resetMs = Number(response.headers.get('x-ratelimit-reset')) * 1000
      expect(resetMs, url).toBeGreaterThanOrEqual(sentMs + afterMs)
      // A minute of the limit, and as much for jitter and a busy machine.
      expect(resetMs, url).toBeLessThan(Date.now() + afterMs + HOUR_MS / 2)
    }
  },
)
