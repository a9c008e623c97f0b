/** `sluice serve` in two regions, each with a Redis of its own. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { GUEST_ACL, storeAcl } from '@sluice/limiter/redis'
import { type RedisServer, startRedis } from '../../tools/redis/server.mjs'
import { makeFolder, stopAll } from '../process.test-helper.js'
import { metricOf, operatorOf } from '../operator.test-helper.js'
import { run, type RunningServer, start, waitForExit } from '../serve.test-helper.js'

const SECRET = '00112233445566778899aabbccddeeff'
const RULES = `
rules:
  - { id: merged, match: { path: /merged }, by: [user], limits: [{ algorithm: fixed-window, max: 100, window: 366d }] }
  - { id: split, match: { path: /split }, by: [user], limits: [{ algorithm: fixed-window, max: 100, window: 366d }], regions: split }
`
const SOON = { timeout: 60_000, interval: 50 }
vi.setConfig({ testTimeout: 180_000 })

let eu: RedisServer
let us: RedisServer

beforeAll(async () => {
  ;[eu, us] = await Promise.all([startRedis(), startRedis()])
  for (const redis of [eu, us]) {
    await redis.call(
      'ACL',
      'SETUSER',
      'own',
      'on',
      '>own-password',
      ...storeAcl('sluice').split(' '),
    )
    await redis.call('ACL', 'SETUSER', 'guest', 'on', '>a-password', ...GUEST_ACL.split(' '))
  }
})
afterEach(async () => {
  await stopAll()
})
afterAll(async () => {
  await Promise.all([eu.stop(), us.stop()])
})

const urlOf = ({ address }: RedisServer, user: string) => `redis://${user}@${address}`

function startRegion(region: string, own: RedisServer): Promise<RunningServer> {
  const folder = makeFolder()
  writeFileSync(join(folder, 'rules.yaml'), RULES)
  writeFileSync(
    join(folder, 'sluice.yaml'),
    `regions:
  eu-west: { redis: "${urlOf(eu, 'guest:a-password')}" }
  us-east: { redis: "${urlOf(us, 'guest:a-password')}" }
`,
  )
  const env = {
    SLUICE_RULES: 'rules.yaml',
    SLUICE_REGION: region,
    SLUICE_REDIS_URL: urlOf(own, 'own:own-password'),
    SLUICE_KEY_SECRET: SECRET,
  }
  return start(env, folder)
}

async function check({ api }: RunningServer, path: string, cost = 1) {
  const response = await fetch(`${api}/v1/check`, {
    method: 'POST',
    body: JSON.stringify({ attributes: { user: 'u1', path }, cost }),
  })
  return (await response.json()) as { allowed: boolean; remaining: number; limit: number }
}

const reach = ({ admin }: RunningServer, region: string) =>
  vi.waitFor(async () => {
    const name = `sluice_region_last_seen_seconds{region="${region}"}`
    expect(await metricOf(admin, name)).toBeLessThan(60)
  }, SOON)

test('two regions have one budget of a merged limit, and each its share of a split one', async () => {
  const [west, east] = await Promise.all([startRegion('eu-west', eu), startRegion('us-east', us)])
  await Promise.all([reach(west, 'us-east'), reach(east, 'eu-west')])
  expect(await check(west, '/merged', 60)).toMatchObject({ allowed: true, remaining: 40 })
  await vi.waitFor(async () => {
    expect(await check(east, '/merged', 0)).toMatchObject({ remaining: 40 })
  }, SOON)
  expect(await check(east, '/merged', 41)).toMatchObject({ allowed: false })
  expect(await check(east, '/split', 50)).toMatchObject({ allowed: true, limit: 50, remaining: 0 })
  expect(await check(west, '/split', 50)).toMatchObject({ allowed: true, remaining: 0 })

  const sent = 'sluice_region_units_total{region="us-east",fate="sent"}'
  expect(await metricOf(west.admin, sent)).toBe(60)
  expect(await metricOf(west.admin, 'sluice_region_pending{region="us-east"}')).toBe(0)

  const operator = operatorOf(east)
  const { regions } = await operator.json<{ regions: unknown }>('nodes')
  expect(regions).toMatchObject([
    { region: 'eu-west', isAnswering: true, pending: 0, dropped: 0, nodes: 1, rulesVersion: '1' },
  ])
  expect((await operator.sluice('nodes')).out).toMatch(/^eu-west +answers +none +0 +0 +0 +1 +1 /m)
  const call = { rule: 'merged', attributes: { user: 'u1' } }
  const { json } = await operator.curl('/inspect', { method: 'POST', body: JSON.stringify(call) })
  expect(json).toMatchObject({
    counters: [{ remaining: 40, regions: [{ region: 'eu-west', remaining: 40 }] }],
  })
})

test('a server that stops tells the other region what it does not know yet', async () => {
  const [west, east] = await Promise.all([startRegion('eu-west', eu), startRegion('us-east', us)])
  await Promise.all([reach(west, 'us-east'), reach(east, 'eu-west')])
  const { remaining } = await check(east, '/merged', 0)
  await check(west, '/merged', 7)
  west.program.signal('SIGTERM')
  await waitForExit(west.program)
  expect(await check(east, '/merged', 0)).toMatchObject({ remaining: remaining - 7 })
})

test('without the settings that regions need, a server does not start and names them', async () => {
  const folder = makeFolder()
  writeFileSync(join(folder, 'sluice.yaml'), 'regions: { us-east: { redis: "redis://127.0.0.1" } }')
  const { code, output } = await waitForExit(run(['serve', '--check'], {}, folder))
  expect(code).toBe(2)
  for (const name of ['region: missing', 'redis.url: missing', 'SLUICE_KEY_SECRET: missing']) {
    expect(output).toContain(name)
  }
})
