/**
 * One server with rules in Postgres and a little steady traffic: a caller that loops, a rule store
 * that is gone, and a burst of refusals. At first the receiver accepts no alert.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { type PostgresServer, startPostgres } from '../../tools/postgres/server.js'
import { stopAll } from '../process.test-helper.js'
import { AlertReceiver } from './alert-receiver.test-helper.js'
import {
  check,
  repeatEvery,
  startAlertingServer,
  type AlertingServer,
} from './alerting-server.test-helper.js'

const SOON = { timeout: 20_000, interval: 50 }
/** Longer than a busy machine keeps the usual caller from its next call. */
const CALLER_EXHAUSTED = '5s'
const RULES_STALE = '5s'
/** Six samples, ten seconds or more apart, after which the baseline is known. */
const LEARNT_AFTER_MS = 85_000
/** Below the anomaly threshold of a new rule. */
const LOOP_EVERY_MS = 500

const RULES = [
  { id: 'login', match: { path: '/login' }, by: ['user'], limits: ['1/hour'] },
  { id: 'search', match: { path: '/search' }, by: ['user'], limits: ['2/second'] },
]

const LOOP = { user: 'loop', path: '/login' }
/**
 * One call is refused, and in the next second one of another caller, so no caller is exhausted for
 * long.
 */
const usualOf = (second: number) =>
  Array.from({ length: 3 }, () => ({ user: `usual-${second % 20}`, path: '/search' }))
/** Enough that a sample with only one of them is far above the baseline. */
const BURST = Array.from({ length: 1000 }, () => ({ user: 'usual', path: '/search' }))

const receiver = new AlertReceiver()
let postgres: PostgresServer
let server: AlertingServer
let startedMs: number
let burst = false
let seconds = 0
let stopUsual = async () => {}

beforeAll(async () => {
  postgres = await startPostgres()
  receiver.dropsConnections = true
  server = await startAlertingServer({
    url: await receiver.open(),
    alerts: { callerExhausted: CALLER_EXHAUSTED, rulesStale: RULES_STALE, baseline: '1m' },
    env: { SLUICE_DATABASE_URL: await postgres.createDatabase() },
  })
  await server.client.applyRules({ rules: RULES })
  startedMs = performance.now()
  stopUsual = repeatEvery(1000, () => check(server.api, burst ? BURST : usualOf(seconds++)))
})

afterAll(async () => {
  await stopUsual()
  await stopAll()
  await receiver.close()
  await postgres.stop()
})

test('a looping caller raises an alert until it has capacity again, and the alert is kept until its receiver accepts it', {
  timeout: 150_000,
}, async () => {
  const stop = repeatEvery(LOOP_EVERY_MS, () => check(server.api, [LOOP]))
  await vi.waitFor(() => {
    expect(server.program.output()).toContain('webhook: delivery failed, will retry')
  }, SOON)
  await server.expectLogged('alert', 'caller-exhausted', [{}])
  receiver.status = 500
  receiver.dropsConnections = false
  await vi.waitFor(() => expect(receiver.posted).not.toEqual([]), SOON)
  receiver.status = 204
  const zero = await receiver.waitForState('caller-exhausted:login/', 'firing')
  expect(zero).toMatchObject({ severity: 'ticket', details: { rule: 'login' } })
  expect(zero.details).not.toHaveProperty('caller')
  expect(new Set(receiver.posted.map(({ delivery }) => delivery)).size).toBe(1)
  const { active } = await server.client.alerts()
  expect(active).toMatchObject([{ id: zero.id, details: { caller: ['user=loop'] } }])
  const shown = await server.operator.sluice('alerts')
  expect(shown).toMatchObject({ code: 1, out: expect.stringContaining(zero.subject) })

  const room = await server.operator.sluice('rules override login user=loop 1000000/hour')
  expect(room.code, room.err).toBe(0)
  await receiver.waitForState('caller-exhausted:login/', 'resolved')
  await stop()
  receiver.expectFiredOnce('caller-exhausted:')
  await server.expectLogged('alert over', 'caller-exhausted', [{}])
  expect((await server.operator.sluice('alerts')).code).toBe(0)
})

test('rules that Postgres does not confirm raise a stale-rules alert until Postgres is back', {
  timeout: 120_000,
}, async () => {
  await postgres.kill()
  const stale = await receiver.waitForState('rules-stale:', 'firing')
  expect(stale).toMatchObject({ severity: 'page', subject: '' })
  expect(Number(stale.details['ageSeconds'])).toBeGreaterThanOrEqual(5)
  expect(stale.details['problem']).toContain('postgres')
  await postgres.start()
  await receiver.waitForState('rules-stale:', 'resolved')
  receiver.expectFiredOnce('rules-stale:')
  await server.expectLogged('alert', 'rules-stale', [{ level: 'error' }])
  await server.expectLogged('alert over', 'rules-stale', [{}])
})

test('a rule that suddenly refuses far more than its baseline raises an alert until it stops', {
  timeout: 240_000,
}, async () => {
  await sleep(LEARNT_AFTER_MS - (performance.now() - startedMs))
  expect(receiver.accepted('refusals-anomaly:')).toEqual([])
  burst = true
  const unusual = await receiver.waitForState('refusals-anomaly:', 'firing')
  burst = false
  expect(unusual).toMatchObject({ severity: 'ticket', subject: 'search' })
  const { perSecond, usualPerSecond } = unusual.details
  // About one, because the baseline may include ten seconds that contain part of the burst.
  expect(Number(usualPerSecond)).toBeGreaterThan(0)
  expect(Number(usualPerSecond)).toBeLessThan(5)
  expect(Number(perSecond)).toBeGreaterThan(5 * Number(usualPerSecond))
  await receiver.waitForState('refusals-anomaly:', 'resolved', 90_000)
  receiver.expectFiredOnce('caller-exhausted:login/', 'rules-stale:', 'refusals-anomaly:')
  await server.expectLogged('alert', 'refusals-anomaly', [{ level: 'warn' }])
  await server.expectLogged('alert over', 'refusals-anomaly', [{}])
})
