/** Redis is killed while 300 rules are in use: one page, which names the cause. */
import { expect, test, vi } from 'vitest'
import { shareRedis } from '../serve-redis.test-helper.js'
import { useReceiver } from './alert-receiver.test-helper.js'
import { check, repeatEvery, startAlertingServer } from './alerting-server.test-helper.js'

const RULES = 300
const SOON = { timeout: 20_000, interval: 50 }
const ids = Array.from({ length: RULES }, (_, i) => `r${String(i).padStart(3, '0')}`)

const redis = shareRedis()
const receiver = useReceiver()

test('300 rules and one dead Redis raise one page with cause and count, which resolves once', {
  timeout: 120_000,
}, async () => {
  const { api, client, operator } = await startAlertingServer({
    url: await receiver.open(),
    // On a busy machine any Redis is slow; this test is about one that is gone.
    config: { redis: { url: redis().url, deadline: '5s' } },
    alerts: { off: ['store-slow'] },
    rules: ids.map((id) => ({
      id,
      match: { path: `/${id}` },
      by: ['user'],
      limits: ['1000000/second'],
      posture: 'open',
    })),
  })
  const calls = ids.map((id) => ({ user: 'u1', path: `/${id}` }))
  const stop = repeatEvery(20, () => check(api, calls))
  // Enough decisions to trigger the availability alert.
  const decided = async () => (await client.stats()).series.allowed.reduce((a, b) => a + b, 0)
  await vi.waitFor(async () => expect(await decided()).toBeGreaterThan(2000), SOON)
  const pagesOf = async () => (await client.alerts()).active.filter((a) => a.severity === 'page')
  expect(await pagesOf()).toEqual([])

  await redis().kill()
  const begun = await receiver.waitForState('breaker-open', 'firing')
  expect(begun).toMatchObject({ subject: redis().address, severity: 'page' })
  const summary = `Redis at ${redis().address} cannot be reached; 300 rules have answered by their posture so far.`
  await vi.waitFor(async () => {
    expect((await pagesOf()).map((alert) => alert.summary)).toEqual([summary])
  }, SOON)
  // Longer than a rule's own alert waits for its cause.
  const since = Date.parse(begun.since)
  await vi.waitFor(() => expect(Date.now() - since).toBeGreaterThan(8000), SOON)
  const shown = await operator.sluice('alerts')
  expect(shown.code).toBe(1)
  expect(shown.out).toContain(`page  breaker-open ${redis().address}, for `)
  expect(shown.out).toContain(summary)
  expect(shown.out).not.toContain('degraded')

  await redis().start()
  const over = await receiver.waitForState('breaker-open', 'resolved')
  await stop()
  expect(over.summary).toBe(
    `Redis at ${redis().address} could not be reached; 300 rules answered by their posture.`,
  )
  receiver.expectFiredOnce('breaker-open')
  expect(begun.summary).toMatch(
    /cannot be reached; \d+ rules have answered by their posture so far/,
  )
  const pages = receiver.posted.filter(({ alert }) => alert.severity === 'page')
  expect(pages.map(({ state, alert }) => `${state} ${alert.alert}`)).toEqual([
    'firing breaker-open',
    'resolved breaker-open',
  ])
})
