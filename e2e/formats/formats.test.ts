/**
 * The present code opens what earlier releases stored: every set of `conformance/formats`, and one
 * written now. `npm run formats -- 0.2.0` writes a new set into the repository.
 */
import { chmodSync, cpSync, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { createAdminClient } from '@sluice/client'
import { createLimiter, memoryStore } from '@sluice/limiter'
import { manualClock } from '@sluice/limiter/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { decodeHours } from '../../packages/server/src/observability/stats/callers/hours-at-limit-codec.js'
import { decodeSnapshot } from '../../packages/server/src/observability/stats/node-snapshot-codec.js'
import { FORMAT_SETS, makeSetFolder, setFolder } from '../../tools/formats/sets.js'
import { type PostgresServer, startPostgres } from '../../tools/postgres/server.js'
import { startRedis } from '../../tools/redis/server.mjs'
import { limitsIn } from '../operator.test-helper.js'
import { makeFolder, stopAll } from '../process.test-helper.js'
import { type RunningServer, start } from '../serve.test-helper.js'
import {
  BLOCKING_RULE,
  DURABLE_RULE,
  readContent,
  type RulesFixture,
} from './rules-content.test-helper.js'
import { clientOf, type CountersFixture, writeSet } from './write-set.test-helper.js'

/** The name of the set to write; undefined writes a temporary one, opens it and removes it. */
const WANTED = process.env['SLUICE_FORMATS']
const NOW = 'now'

const written = WANTED === undefined ? makeFolder() : makeSetFolder(WANTED)
const folderOf = (set: string) => (set === NOW ? written : setFolder(set))

let postgres: PostgresServer
beforeAll(async () => {
  postgres = await startPostgres()
  await writeSet(written)
})
afterAll(async () => {
  await stopAll()
  await postgres.stop()
})

describe.each([...FORMAT_SETS.filter((set) => set !== WANTED), NOW])(
  'stored formats of the set %s:',
  (set) => {
    const folder = folderOf(set)
    const read = (file: string) => readFileSync(join(folder, file), 'utf8')
    const rulesIn = (file: string) => JSON.parse(read(file)) as RulesFixture

    /** The data directory as a server would have left it: a copy, readable by its owner only. */
    function dataDir(name: string): string {
      const home = makeFolder()
      const copy = join(home, '.sluice')
      mkdirSync(copy, { mode: 0o700 })
      cpSync(join(folder, name), copy, { recursive: true })
      for (const path of readdirSync(copy, { recursive: true, encoding: 'utf8' })) {
        chmodSync(join(copy, path), statSync(join(copy, path)).isDirectory() ? 0o700 : 0o600)
      }
      return home
    }

    test('a data directory is opened with every rule, override, candidate, key, token and version', async () => {
      const fixture = rulesIn('rules.json')
      const server = await start({}, dataDir('data-dir'))
      await expectContent(server, fixture)
      expect(server.program.output()).not.toContain('cannot be restored')
      expect(server.program.output()).not.toContain('cannot restore')
      // The first change after it continues the version numbers.
      const { version } = await clientOf(server).patchRule('late', { limits: ['1/hour'] })
      expect(version).toBe(lastVersion(fixture) + 1)
      await server.program.stop()
    })

    test('a counter of a durable rule keeps its usage', async () => {
      const {
        clock: at,
        user,
        limit,
        remaining,
      } = JSON.parse(read('counters.json')) as CountersFixture
      const { set: whole } = rulesIn('rules.json') as unknown as WholeSet
      const clock = manualClock(at)
      const store = memoryStore({ clock })
      expect(
        store.restore(readFileSync(join(folder, 'data-dir/counters.snapshot'))),
      ).toBeGreaterThan(0)
      const rules = whole.rules.filter(({ id }) => id === DURABLE_RULE).map(withoutView)
      const secret = Buffer.from(read('data-dir/key-secret').trim(), 'hex')
      const limiter = createLimiter({
        rules: { routes: whole.routes, rules },
        store,
        clock,
        secret,
      })
      const attributes = { user, method: 'POST', path: '/v1/exports' }
      expect(await limiter.peek({ attributes })).toMatchObject({ limit, remaining })
      expect(remaining).toBeLessThan(limit)
      await limiter.close()
    })

    test('a caller that a durable rule blocks stays blocked until the same time', async () => {
      const { clock: at, blocked } = JSON.parse(read('counters.json')) as CountersFixture
      // Sets before 0.2.0 have no blocks.
      expect(blocked === undefined).toBe(set === '0.1.0')
      if (blocked === undefined) return
      const { set: whole } = rulesIn('rules.json') as unknown as WholeSet
      const clock = manualClock(at)
      const store = memoryStore({ clock })
      store.restore(readFileSync(join(folder, 'data-dir/counters.snapshot')))
      const rules = whole.rules.filter(({ id }) => id === BLOCKING_RULE).map(withoutView)
      const secret = Buffer.from(read('data-dir/key-secret').trim(), 'hex')
      const limiter = createLimiter({
        rules: { routes: whole.routes, rules },
        store,
        clock,
        secret,
      })
      const attributes = { user: blocked.user, method: 'POST', path: '/v1/attempts' }
      const decision = await limiter.peek({ attributes })
      expect(decision).toMatchObject({ allowed: false, reason: 'blocked' })
      // The time of the fixture was read a little after the decision that it states.
      const untilMs = at / 1000 + (decision.retryAfterMs ?? 0)
      expect(untilMs).toBeLessThanOrEqual(blocked.untilMs)
      expect(untilMs).toBeGreaterThan(blocked.untilMs - 60_000)
      await limiter.close()
    })

    test('the hours of callers at their limit are readable', () => {
      const { clock } = JSON.parse(read('counters.json')) as CountersFixture
      const rules = decodeHours(read('data-dir/callers-24h.json'), clock / 1000)
      const expected = { rule: DURABLE_RULE, by: ['user'], callers: [expect.anything()] }
      expect(rules).toContainEqual(expect.objectContaining(expected))
    })

    test('a Postgres dump is opened with every rule, override, candidate, key, token and version', async () => {
      const url = await postgres.createDatabase()
      await postgres.run(
        'psql',
        '-Xq',
        '-v',
        'ON_ERROR_STOP=1',
        '-d',
        url,
        '-f',
        join(folder, 'postgres.sql'),
      )
      const server = await start({ SLUICE_DATABASE_URL: url })
      const fixture = rulesIn('postgres.json')
      await expectContent(server, fixture)
      const { version } = await clientOf(server).patchRule('late', { limits: ['1/hour'] })
      expect(version).toBe(lastVersion(fixture) + 1)
      await server.program.stop()
    })

    test('a node without Postgres and with an empty Redis uses its stored rules and secret', async () => {
      const { secrets, set: whole } = rulesIn('postgres.json') as unknown as RulesFixture & WholeSet
      const redis = await startRedis()
      const env = {
        SLUICE_DATABASE_URL: 'postgres://nobody@127.0.0.1:1/gone',
        SLUICE_REDIS_URL: redis.url,
      }
      const server = await start(env, dataDir('data-dir-shared'))
      const { rules } = await clientOf(server).listRules({ limit: 1000 })
      expect(rules).toMatchObject(whole.rules)
      await expectKeys(server, secrets)
      const kept = read('data-dir-shared/redis-key-secret').trim()
      expect(await redis.cli('GET', 'sluice:{home}:secret')).toBe(kept)
      await server.program.stop()
      await redis.stop()
    })

    test('the published snapshot of a node is readable', async () => {
      const snapshot = await decodeSnapshot(read('node-snapshot.txt').trim())
      expect(snapshot).toMatchObject({ node: { host: 'node-a' } })
      expect(snapshot?.rules.map(({ rule }) => rule)).toContain(DURABLE_RULE)
    })
  },
)

interface WholeSet {
  readonly set: {
    readonly routes: readonly unknown[]
    readonly rules: readonly { readonly id: string }[]
  }
}

function lastVersion({ versions }: RulesFixture): number {
  const [last] = versions as readonly { readonly version: number }[]
  return last?.version ?? Number.NaN
}

/** A rule as it was written, without the fields that the admin API adds. */
function withoutView(rule: Readonly<Record<string, unknown>>): object {
  const { version: _version, overrideCount: _count, candidate: _candidate, ...document } = rule
  return document
}

/** A later release may return more fields of each record, never fewer. */
async function expectContent(server: RunningServer, fixture: RulesFixture): Promise<void> {
  const { secrets, ...content } = fixture
  expect(await readContent(clientOf(server))).toMatchObject(content)
  await expectKeys(server, secrets)
  for (const [role, token] of Object.entries(secrets.tokens)) {
    const client = createAdminClient({ url: server.admin, token })
    const listed = role === 'admin' ? client.listTokens() : client.listRules()
    await expect(listed, role).resolves.toBeDefined()
  }
}

/** The active key has its plan; the disabled one is treated as unknown. */
async function expectKeys(
  { gateway }: RunningServer,
  { activeKey, disabledKey }: RulesFixture['secrets'],
): Promise<void> {
  const call = (key: string) => fetch(`${gateway}/v1/orders/1`, { headers: { 'x-api-key': key } })
  expect(limitsIn(await call(activeKey))['per-user']).toBe(321)
  expect(limitsIn(await call(disabledKey))['per-user']).toBeUndefined()
}
