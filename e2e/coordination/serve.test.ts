/** `sluice serve` with two workers on one Redis, each of them a node of the fleet. */
import { createLimiter } from '@sluice/limiter'
import { redisStore } from '@sluice/limiter/redis'
import { expect, test, vi } from 'vitest'
import { scanWithoutTtl } from '../../tools/redis/server.mjs'
import { metricOf, type Operator, operatorOf } from '../operator.test-helper.js'
import { shareRedis } from '../serve-redis.test-helper.js'
import { waitForExit, type RunningServer, start } from '../serve.test-helper.js'

const WORKERS = 2
const MAX = 5000
/** Less than is used before it is set. */
const TIGHT_MAX = 10
const AT_ONCE = 10
const SOON = { timeout: 20_000, interval: 50 }
/** A change is active everywhere within this time; the rest is tolerance for a busy machine. */
const CHANGE_MS = 1000
const NOISE_MS = 1000
const LEASE_MS = 2000

const IDS = ['leased', 'local'] as const
const SOURCES = { leased: 'lease', local: 'local' }
/** A window that does not end during the test, so that stored units can be counted. */
const limitsOf = (max: number) => [{ algorithm: 'fixed-window', max, window: '366d', name: 'all' }]
const RULES = IDS.map((id) => ({
  id,
  match: { path: `/${id}` },
  by: ['user'],
  limits: limitsOf(MAX),
  coordination: id,
  ...(id === 'leased' ? { maxStranded: 0.2 } : {}),
}))

vi.setConfig({ testTimeout: 180_000 })
const redis = shareRedis()

interface DecisionReply {
  readonly askedMs: number
  readonly rule: string
  readonly allowed: boolean
  readonly limit: number
  readonly source: string
  readonly staleMs?: number
}

async function requestDecision(
  api: string,
  verb: string,
  rule: string,
  user: string,
): Promise<DecisionReply> {
  const askedMs = performance.now()
  // One connection per call, or one worker would get them all.
  const response = await fetch(`${api}/v1/${verb}`, {
    method: 'POST',
    headers: { connection: 'close' },
    body: JSON.stringify({ attributes: { user, path: `/${rule}` } }),
  })
  return { askedMs, ...((await response.json()) as Omit<DecisionReply, 'askedMs'>), rule }
}

/**
 * Makes calls of both rules, some at once, until the workers decide both locally, and continues.
 */
async function keepCalling({ api }: RunningServer, user: string) {
  const answers: DecisionReply[] = []
  let isOver = false
  const client = async () => {
    while (!isOver)
      for (const rule of IDS) answers.push(await requestDecision(api, 'check', rule, user))
  }
  const clients = Promise.all(Array.from({ length: AT_ONCE }, client))
  // A test that has failed by then does not wait for them.
  clients.catch(() => {})
  await vi.waitFor(() => {
    for (const id of IDS) {
      const local = answers.filter(({ rule, source }) => rule === id && source === SOURCES[id])
      expect(local.length, id).toBeGreaterThan(50)
    }
  }, SOON)
  return {
    answers,
    async stop() {
      isOver = true
      await clients
    },
  }
}

async function startWorkers(): Promise<readonly [RunningServer, Operator]> {
  const server = await start({
    SLUICE_WORKERS: String(WORKERS),
    SLUICE_REDIS_URL: redis().url,
    SLUICE_STORE_DEADLINE_MS: '10000',
  })
  const operator = operatorOf(server)
  // In place of the example rules, which would match as well.
  const body = JSON.stringify({ rules: RULES })
  expect((await operator.curl('/rules', { method: 'PUT', body })).status).toBe(200)
  await vi.waitFor(async () => {
    expect(await metricOf(server.admin, 'sluice_fleet_size')).toBe(WORKERS)
  }, SOON)
  await waitForLimit(server, MAX)
  return [server, operator]
}

/** Waits until all workers have these limits. */
async function waitForLimit({ api }: RunningServer, max: number): Promise<void> {
  await vi.waitFor(async () => {
    const asked = Array.from({ length: 4 * WORKERS }, () =>
      IDS.map((id) => requestDecision(api, 'peek', id, 'nobody')),
    )
    for (const { limit } of await Promise.all(asked.flat())) expect(limit).toBe(max)
  }, SOON)
}

async function setMax({ curl }: Operator, max: number): Promise<void> {
  for (const id of IDS) {
    const body = JSON.stringify({ limits: limitsOf(max) })
    expect((await curl(`/rules/${id}`, { method: 'PATCH', body })).status).toBe(200)
  }
}

/** Reads the stored count of a caller when all nodes are gone. */
async function storedOf(rule: string, user: string): Promise<number | undefined> {
  const store = redisStore({ url: redis().url, deadlineMs: 10_000 })
  const limiter = createLimiter({ rules: RULES, store })
  try {
    const { counters } = await limiter.inspect(rule, { attributes: { user } })
    return counters[0]?.state?.['count']
  } finally {
    await limiter.close()
  }
}

const admittedOf = (answers: readonly DecisionReply[], id: string) =>
  answers.filter(({ rule, allowed }) => rule === id && allowed).length

test('two workers decide by leases and local counts until the rules change or they stop', async () => {
  const [server, operator] = await startWorkers()
  const first = await keepCalling(server, 'u1')
  for (const { source, staleMs } of first.answers) {
    if (source === 'lease') expect(staleMs).toBeLessThanOrEqual(LEASE_MS)
  }
  const aged = expect.objectContaining({ staleMs: expect.any(Number) as number }) as unknown
  expect(await requestDecision(server.api, 'explain', 'local', 'u1')).toMatchObject({
    explain: expect.arrayContaining([
      expect.objectContaining({ rule: 'local', limits: [aged] }),
    ]) as unknown,
  })
  const units = (fate: string) =>
    metricOf(server.admin, `sluice_lease_units_total{rule="leased",fate="${fate}"}`)
  expect(await units('spent')).toBeGreaterThan(0)

  await setMax(operator, TIGHT_MAX)
  const changedMs = performance.now()
  await waitForLimit(server, TIGHT_MAX)
  // A worker that the machine delayed gets the missed time.
  const inForceMs = Math.max(performance.now(), changedMs + CHANGE_MS + NOISE_MS)
  const lateOf = (id: string) =>
    first.answers.filter(({ rule, askedMs }) => rule === id && askedMs > inForceMs)
  await vi.waitFor(() => {
    for (const id of IDS) expect(lateOf(id).length, id).toBeGreaterThan(10)
  }, SOON)
  await first.stop()
  for (const id of IDS) expect(admittedOf(lateOf(id), id), `${id}: beyond the new limit`).toBe(0)
  // Every unit that either worker drew was spent or is given back.
  await vi.waitFor(async () => {
    expect(await metricOf(server.admin, 'sluice_lease_units_held{rule="leased"}')).toBe(0)
  }, SOON)
  expect(await units('lost')).toBe(0)
  const fates = [(await units('spent')) ?? 0, (await units('given_back')) ?? 0]
  expect((fates[0] ?? 0) + (fates[1] ?? 0)).toBe(await units('drawn'))
  expect(fates[0]).toBeLessThanOrEqual(admittedOf(first.answers, 'leased'))
  expect(await metricOf(server.admin, 'sluice_over_admitted_total{rule="leased"}')).toBe(0)

  await setMax(operator, MAX)
  await waitForLimit(server, MAX)
  const second = await keepCalling(server, 'u2')
  await second.stop()
  server.program.signal('SIGTERM')
  expect((await waitForExit(server.program)).code).toBe(0)
  // On SIGTERM they give back their leases and report their counts.
  expect(await storedOf('leased', 'u1')).toBe(admittedOf(first.answers, 'leased'))
  for (const id of IDS) expect(await storedOf(id, 'u2'), id).toBe(admittedOf(second.answers, id))
  expect(await scanWithoutTtl(redis()), 'keys without TTL').toEqual([])
})
