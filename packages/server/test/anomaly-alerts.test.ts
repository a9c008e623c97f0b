/** Alerts that need hours of traffic, raised by a whole engine in virtual time. */
import { UNMATCHED } from '@sluice/core'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { startVirtualEngine, type VirtualEngine } from './virtual-engine.test-helper.js'

const MAX = 2
const RULES = `rules: [{ id: login, by: [ip], limits: [${MAX}/minute] }]`
/** Five minutes, and a quarter of the hour of the baseline. */
const LEARNT_SECONDS = 1200
const USERS = 60
const ATTACKERS_A_SECOND = 200

let virtual: VirtualEngine
let changes: readonly string[]
let ips = 0

beforeEach(async () => {
  virtual = await startVirtualEngine(RULES)
  changes = virtual.changes
})

afterEach(() => virtual.close())

const call = (ip: string, times?: number) => virtual.call({ ip }, times)

/** Each caller once a minute. */
async function users(second: number): Promise<void> {
  await call(`192.0.2.${second % USERS}`)
}

/** Each call from a new address. */
async function attackers(timesEach: number): Promise<void> {
  for (let i = 0; i < ATTACKERS_A_SECOND; i++, ips++) {
    await call(`198.${18 + (ips >> 16)}.${(ips >> 8) & 255}.${ips & 255}`, timesEach)
  }
}

/** Advances by seconds until the condition holds; returns how many. */
async function passUntil(isSo: () => boolean, most: number, each = async () => {}) {
  let second = 0
  for (; second < most && !isSo(); second++) {
    await users(second)
    await each()
    vi.advanceTimersByTime(1000)
  }
  return second
}

const never = () => false

test('callers with rotating addresses are an anomaly although none is refused, until they are gone', async () => {
  await passUntil(never, LEARNT_SECONDS + 60)
  expect(changes).toEqual([])
  const began = await passUntil(
    () => changes.length > 0,
    120,
    () => attackers(MAX),
  )
  expect(changes).toEqual(['+callers-anomaly:login'])
  expect(began).toBeLessThanOrEqual(31)
  const [alert] = virtual.engine.observability.alerts.active()
  const { rule, callers, usual } = alert?.details ?? {}
  expect(rule).toBe('login')
  expect(Number(usual)).toBeLessThan(1.1 * USERS)
  expect(Number(callers)).toBeGreaterThan(5 * Number(usual))
  await passUntil(never, 60, () => attackers(MAX))
  expect(changes).toHaveLength(1)

  const ended = await passUntil(() => changes.length > 1, 600)
  expect(changes).toEqual(['+callers-anomaly:login', '-callers-anomaly:login'])
  // Callers count for five minutes; the last half minute is judged, with a delay of 10 s.
  expect(ended).toBeGreaterThan(240)
  expect(ended).toBeLessThanOrEqual(350)
  await passUntil(never, 300)
  expect(changes).toHaveLength(2)
})

test('an attack that is refused raises only the anomaly of refusals', async () => {
  await passUntil(never, LEARNT_SECONDS + 60)
  await passUntil(never, 60, () => attackers(MAX + 1))
  expect(changes).toEqual(['+refusals-anomaly:login'])
})

test('an error in statistics affects no decision, and is logged once a second', () => {
  const eachCaller = () => {
    throw new Error('broken')
  }
  for (let i = 0; i < 3; i++) {
    virtual.engine.observability.onDecision({ ...UNMATCHED, eachCaller }, { attributes: {} })
  }
  const lines = virtual.logged.filter(({ msg }) => msg === 'failed to record statistics')
  expect(lines).toMatchObject([{ level: 'error', problem: 'broken' }])
})
