/** Redis stops answering twice: the findings of two workers are reported as one alert. */
import { expect, test, vi } from 'vitest'
import { shareRedis } from '../serve-redis.test-helper.js'
import { useReceiver } from './alert-receiver.test-helper.js'
import {
  check,
  followAlerts,
  repeatEvery,
  startAlertingServer,
  type AlertingServer,
} from './alerting-server.test-helper.js'

const WORKERS = 2
/** Twice what the availability alert needs, for each worker. */
const LISTS_AT_FIRST = 4
const STEADY = { user: 'u1', path: '/steady' }
/** Decided by the node itself, so that many calls are quick. */
const CROWD = Array.from({ length: 1000 }, () => ({ user: 'u2', path: '/crowd' }))
const STEADY_EVERY_MS = 50
/** A busy machine may take long; what is awaited comes or does not. */
const SOON = { timeout: 60_000, interval: 50 }

const RULES = [
  {
    id: 'steady',
    match: { path: '/steady' },
    by: ['user'],
    limits: ['1000000/second'],
    posture: 'open',
  },
  {
    id: 'crowd',
    match: { path: '/crowd' },
    by: ['user'],
    limits: ['1000000000/hour'],
    coordination: 'local',
    // The first of them go to the store, many at once.
    deadline: '10s',
    posture: 'open',
  },
]

const redis = shareRedis()
const receiver = useReceiver()

/** Of all workers together. */
async function metricIs(
  { admin }: AlertingServer,
  name: string,
  isSo: (value: number) => boolean,
): Promise<void> {
  await vi.waitFor(async () => {
    const text = await (await fetch(`${admin}/metrics`)).text()
    const [, value] = new RegExp(`^${name}\\{.* (\\d+)$`, 'm').exec(text) ?? []
    expect(isSo(Number(value)), `${name} ${value}`).toBe(true)
  }, SOON)
}

/** Makes calls until the breaker of every worker has opened this many times. */
async function untilGivenUp(server: AlertingServer, times: number): Promise<void> {
  const stop = repeatEvery(STEADY_EVERY_MS, () => check(server.api, [STEADY]))
  await metricIs(server, 'sluice_breaker_opened_total', (count) => count >= times * WORKERS)
  await stop()
}

test('a store that stops answering, comes back and stops again raises one alert, delivered once', {
  timeout: 240_000,
}, async () => {
  const server = await startAlertingServer({
    url: await receiver.open(),
    config: { redis: { url: redis().url, deadline: '200ms' } },
    // On a busy machine any Redis is slow; this test is about one that does not answer.
    alerts: { off: ['store-slow'] },
    rules: RULES,
    env: { SLUICE_WORKERS: String(WORKERS) },
  })
  const { operator, client } = server
  const followed = await followAlerts(server)
  for (let i = 0; i < LISTS_AT_FIRST; i++) await check(server.api, CROWD)
  expect(await client.alerts()).toEqual({ active: [], recent: [] })
  expect(await operator.sluice('alerts')).toMatchObject({ code: 0, out: 'No alert is active.\n' })

  redis().pause()
  await untilGivenUp(server, 1)
  await receiver.waitForState('breaker-open', 'firing')
  await expectShown(server)

  redis().resume()
  await metricIs(server, 'sluice_breaker_open', (open) => open === 0)
  redis().pause()
  await untilGivenUp(server, 2)
  redis().resume()
  await metricIs(server, 'sluice_breaker_open', (open) => open === 0)

  // Ten thousand normal decisions outweigh one fallback.
  const stop = repeatEvery(0, () => check(server.api, CROWD))
  await receiver.waitForState('breaker-open', 'resolved')
  await stop()
  receiver.expectFiredOnce('breaker-open')
  // The findings of rules and availability were part of this alert.
  const pages = receiver.posted.filter(({ alert }) => alert.severity === 'page')
  expect(pages.map(({ alert }) => alert.alert)).toEqual(['breaker-open', 'breaker-open'])
  await vi.waitFor(async () => expect((await client.alerts()).active).toEqual([]), SOON)
  // On a busy machine another alert may come and go meanwhile.
  await vi.waitFor(async () => {
    const { code, out } = await operator.sluice('alerts')
    expect(code, out).toBe(0)
    expect(out).toContain('breaker-open')
  }, SOON)
  await followed.stop()
  const breaker = followed.events.filter(({ alert }) => alert === 'breaker-open')
  expect(breaker.map(({ resolvedAt }) => resolvedAt === null)).toEqual([true, false])
  // Each worker logs its own findings; the receiver was notified once.
  const line = { subject: redis().address }
  await server.expectLogged(
    'alert',
    'breaker-open',
    Array(WORKERS).fill({ ...line, level: 'error' }),
  )
  await server.expectLogged('alert over', 'breaker-open', Array(WORKERS).fill(line))
})

async function expectShown({ operator, client }: AlertingServer): Promise<void> {
  await vi.waitFor(async () => {
    const { active } = await client.alerts()
    expect(active.map(({ id }) => id)).toEqual([`breaker-open:${redis().address}`])
    expect(active[0]?.details).toMatchObject({ affected: expect.arrayContaining(['steady']) })
  }, SOON)
  const shown = await operator.sluice('alerts')
  expect(shown.code).toBe(1)
  expect(shown.out).toContain(`page  breaker-open ${redis().address}, for `)
  expect(shown.out).toContain(`Redis at ${redis().address} does not answer in time`)
  expect(shown.out).toContain('#breaker-open\n')
}
