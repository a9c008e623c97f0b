/**
 * Rotating addresses in real time: the baseline takes two minutes to learn, and callers are counted
 * over five. Only `npm run test:long` runs this; the server's unit tests cover the same with a
 * virtual clock.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { stopAll } from '../process.test-helper.js'
import { AlertReceiver } from './alert-receiver.test-helper.js'
import {
  check,
  repeatEvery,
  startAlertingServer,
  type AlertingServer,
} from './alerting-server.test-helper.js'

const isLong = process.env['SLUICE_RUNS'] !== undefined
/** For the shortest baseline period that the configuration accepts. */
const LEARNT_AFTER_MS = 140_000
const TEST_MS_MAX = 900_000
const USERS = 30
const ATTACKERS_AT_ONCE = 1000

describe.runIf(isLong)('callers-anomaly alert', () => {
  const receiver = new AlertReceiver()
  let server: AlertingServer
  let stopUsers = async () => {}
  let ips = 0

  const attackers = () =>
    Array.from({ length: ATTACKERS_AT_ONCE }, () => {
      ips++
      return { ip: `198.${18 + (ips >> 16)}.${(ips >> 8) & 255}.${ips & 255}` }
    })

  beforeAll(async () => {
    server = await startAlertingServer({
      url: await receiver.open(),
      alerts: { baseline: '1m' },
      rules: [{ id: 'login', by: ['ip'], limits: ['20/minute'] }],
    })
    const users = Array.from({ length: USERS }, (_, i) => ({ ip: `192.0.2.${i}` }))
    stopUsers = repeatEvery(5000, () => check(server.api, users))
  })

  afterAll(async () => {
    await stopUsers()
    await stopAll()
    await receiver.close()
  })

  test('a rule by address raises the alert when it meets far more callers than usual, until they leave', {
    timeout: TEST_MS_MAX,
  }, async () => {
    await sleep(LEARNT_AFTER_MS)
    expect(receiver.posted).toEqual([])
    const stop = repeatEvery(500, () => check(server.api, attackers()))
    const unusual = await receiver.waitForState('callers-anomaly:', 'firing', 60_000)
    await stop()
    expect(unusual).toMatchObject({ severity: 'ticket', subject: 'login' })
    const { callers, usual } = unusual.details
    expect(Number(callers)).toBeGreaterThan(5 * Number(usual))
    await receiver.waitForState('callers-anomaly:', 'resolved', 420_000)
    receiver.expectFiredOnce('callers-anomaly:')
    expect(receiver.posted).toHaveLength(2)
    await server.expectLogged('alert', 'callers-anomaly', [{ level: 'warn' }])
    await server.expectLogged('alert over', 'callers-anomaly', [{}])
  })
})
