/**
 * What nodes store about their callers in Redis, data directories and logs: hashes or sealed names,
 * unless the configuration has `log.callers: clear`.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type AdminClient, createAdminClient } from '@sluice/client'
import { expect, test, vi } from 'vitest'
import { check } from '../alerts/alerting-server.test-helper.js'
import { operatorOf } from '../operator.test-helper.js'
import { makeFolder } from '../process.test-helper.js'
import { shareRedis } from '../serve-redis.test-helper.js'
import { type RunningServer, start } from '../serve.test-helper.js'
import { placesOf, storedInFolder, storedInRedis } from './stored-names.test-helper.js'

const SOON = { timeout: 30_000, interval: 100 }
const redis = shareRedis()

const SECRET = '0123456789abcdef0123456789abcdef'
const NAMES = ['Wilhelmina-Quux', 'platinum-zebra', '203.0.113.217']
/** Also in the path of its calls, which is logged; nothing else may store it. */
const IN_PATH = 'Thaddeus-Fnord'
const LIMITED = {
  user: 'Wilhelmina-Quux',
  plan: 'platinum-zebra',
  ip: '203.0.113.217',
  method: 'GET',
  path: `/people/${IN_PATH}`,
}
const RULES = `
rules:
  - { id: per-user, by: [user], limits: [1/hour], candidate: { limits: [1/day] } }
  - { id: per-address, by: [ip], limits: [1/hour] }
  - { id: shadowed, by: [user, plan], limits: [1/day], mode: shadow }
`
/** As the previous release left it, one of them after a crash. */
const OLD_HOURS = `${JSON.stringify({
  format: 1,
  hour: Math.floor(Date.now() / 3_600_000),
  rules: [
    {
      rule: 'per-user',
      by: ['user'],
      callers: [['00112233aabbccdd', 1, Date.now(), NAMES[1], NAMES[0]]],
    },
  ],
})}\n`

interface Node extends RunningServer {
  readonly client: AdminClient
}

async function startNode(env: Record<string, string>, config = {}): Promise<Node> {
  const folder = makeFolder()
  writeFileSync(join(folder, 'rules.yaml'), RULES)
  const alerts = { callerExhausted: '1s' }
  writeFileSync(join(folder, 'sluice.yaml'), JSON.stringify({ alerts, ...config }))
  const data = join(folder, '.sluice')
  mkdirSync(data, { mode: 0o700 })
  writeFileSync(join(data, 'callers-24h.json'), OLD_HOURS, { mode: 0o600 })
  writeFileSync(join(data, 'callers-24h.json.new'), OLD_HOURS, { mode: 0o600 })
  const running = await start({ SLUICE_RULES: 'rules.yaml', ...env }, folder)
  const { token } = operatorOf(running)
  return { ...running, client: createAdminClient({ url: running.admin, token }) }
}

/**
 * Starts two nodes; the first meets the caller until everything that reports callers has reported
 * it.
 */
async function meet(env: Record<string, string>, config = {}) {
  const all = { SLUICE_REDIS_URL: redis().url, ...env }
  const [one, two] = [await startNode(all, config), await startNode(all, config)]
  await vi.waitFor(async () => {
    await check(one.api, [LIMITED])
    const [{ callers }, shadow, { active }] = await Promise.all([
      two.client.top({ by: 'refusals', rule: 'per-user' }),
      two.client.top({ by: 'use', rule: 'shadowed' }),
      two.client.alerts(),
    ])
    expect(callers.filter(({ refusals }) => refusals > 0)).toHaveLength(1)
    expect(shadow.callers).toHaveLength(1)
    expect(active.map(({ alert }) => alert)).toContain('caller-exhausted')
  }, SOON)
  return { one, two, stored: await storedInRedis(redis()) }
}

async function shownBy({ client }: Node) {
  const { callers } = await client.top({ by: 'refusals', rule: 'per-user' })
  const { active } = await client.alerts()
  const about = active.find(({ subject }) => subject.startsWith('per-user/'))
  return { caller: callers[0]?.caller, plan: callers[0]?.plan, alert: about?.details['caller'] }
}

const NAMED = {
  caller: { user: LIMITED.user },
  plan: LIMITED.plan,
  alert: [`user=${LIMITED.user}`],
}

async function stopped(...nodes: readonly Node[]) {
  for (const { program } of nodes) await program.stop()
  return nodes.flatMap(({ folder }) => storedInFolder(join(folder, '.sluice')))
}

const logsOf = (...nodes: readonly Node[]) =>
  nodes.map(({ program, folder }) => ({ place: `log ${folder}`, text: program.output() }))

test('names are found in clear where the configuration asks for them, which proves that the search works', {
  timeout: 90_000,
}, async () => {
  const { one, two, stored } = await meet({}, { log: { callers: 'clear' } })
  expect(placesOf(NAMES, stored)).toHaveLength(2)
  expect(await shownBy(two)).toEqual(NAMED)
  expect(placesOf(NAMES, logsOf(one))).toHaveLength(1)
  expect(placesOf(NAMES, await stopped(one, two))).toHaveLength(2)
})

test('with the key secret in Redis no stored or logged text has a name, and a node shows only names of callers it met', {
  timeout: 90_000,
}, async () => {
  const { one, two, stored } = await meet({})
  expect(stored.some(({ place }) => place.endsWith(':secret'))).toBe(true)
  expect(placesOf([...NAMES, IN_PATH], stored)).toEqual([])
  expect(await shownBy(one)).toEqual(NAMED)
  expect(await shownBy(two)).toEqual({ caller: {}, plan: null, alert: undefined })
  await check(two.api, [LIMITED])
  await vi.waitFor(async () => expect(await shownBy(two)).toEqual(NAMED), SOON)
  expect(placesOf([...NAMES, IN_PATH], await storedInRedis(redis()))).toEqual([])
  expect(placesOf(NAMES, logsOf(one, two))).toEqual([])
  expect(placesOf([...NAMES, IN_PATH], await stopped(one, two))).toEqual([])
})

test('with a configured key secret no stored text has a name, and every node shows it', {
  timeout: 90_000,
}, async () => {
  const { one, two, stored } = await meet({ SLUICE_KEY_SECRET: SECRET })
  expect(placesOf([...NAMES, IN_PATH, SECRET], stored)).toEqual([])
  expect(await shownBy(two)).toEqual(NAMED)
  expect(placesOf(NAMES, logsOf(one, two))).toEqual([])
  expect(placesOf([...NAMES, IN_PATH, SECRET], await stopped(one, two))).toEqual([])
})
