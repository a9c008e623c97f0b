/** Alerts that need hours of traffic, raised by a whole engine in virtual time. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { UNMATCHED } from '@sluice/core'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Alert } from '../src/observability/alerts/alert.js'
import { parseConfig } from '../src/config/parse-config.js'
import { type Engine, startEngine } from '../src/engine.js'
import { createMemoryLog } from '../src/observability/log/memory-log.test-helper.js'
import { readRules } from '../src/startup/preflight.js'

const BEGAN_MS = Date.UTC(2026, 0, 1)
const MAX = 2
const RULES = `rules: [{ id: login, by: [ip], limits: [${MAX}/minute] }]`
/** Five minutes, and a quarter of the hour of the baseline. */
const LEARNT_SECONDS = 1200
const USERS = 60
const ATTACKERS_A_SECOND = 200

let folder: string
let engine: Engine
let changes: string[]
let logged: ReturnType<typeof createMemoryLog>['lines']
let ips = 0

beforeEach(async () => {
  const toFake = ['Date', 'performance', 'setInterval', 'clearInterval'] as const
  vi.useFakeTimers({ now: BEGAN_MS, toFake: [...toFake, 'setTimeout', 'clearTimeout'] })
  folder = mkdtempSync(join(tmpdir(), 'sluice-observation-'))
  const rules = join(folder, 'rules.yaml')
  writeFileSync(rules, RULES)
  const parsed = parseConfig('{}', { file: undefined, env: {}, readFile: () => '' })
  if (parsed.config === undefined) throw new Error(JSON.stringify(parsed.errors))
  const config = { ...parsed.config, rules, dataDir: folder }
  const { log, lines } = createMemoryLog()
  logged = lines
  engine = await startEngine(config, log, { rules: await readRules(config), isExample: false })
  changes = []
  engine.observability.alerts.onChange(({ id, resolvedAt }: Alert) => {
    changes.push(`${resolvedAt === null ? '+' : '-'}${id}`)
  })
})

afterEach(async () => {
  vi.useRealTimers()
  await engine.close()
  rmSync(folder, { recursive: true })
})

async function call(ip: string, times = 1): Promise<void> {
  for (let i = 0; i < times; i++) await engine.decider.check({ attributes: { ip } }, 'api')
}

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
  const [alert] = engine.observability.alerts.active()
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
    engine.observability.onDecision({ ...UNMATCHED, eachCaller }, { attributes: {} })
  }
  const lines = logged.filter(({ msg }) => msg === 'failed to record statistics')
  expect(lines).toMatchObject([{ level: 'error', problem: 'broken' }])
})
