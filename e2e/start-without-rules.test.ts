/** A node that finds no rules at its start: it serves, logs that, and is not ready. */
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { createAdminClient } from '@sluice/client'
import { startPostgres } from '../tools/postgres/server.js'
import { findService } from '../tools/services.mjs'
import { makeFolder, type Program, stopAll, waitFor } from './process.test-helper.js'
import { shareRedis } from './serve-redis.test-helper.js'
import { waitForExit, run, type RunningServer, start } from './serve.test-helper.js'

const SOON = { timeout: 20_000, interval: 50 }
const TOKEN = 'e2e-admin-token-of-a-hundred-and-twenty-eight-bits'
const RULE = { id: 'mine', by: ['ip'], limits: ['3/minute'] }
const NO_RULES = [503, ['no rules']]
const READY = [200, []]

afterEach(stopAll)

async function readyOf(api: string): Promise<readonly unknown[]> {
  const response = await fetch(`${api}/readyz`, { headers: { connection: 'close' } })
  const { reasons } = (await response.json()) as { readonly reasons: readonly string[] }
  return [response.status, reasons]
}

const becomesReady = (api: string) =>
  vi.waitFor(async () => expect(await readyOf(api)).toEqual(READY), SOON)

const adminOf = ({ admin }: Pick<RunningServer, 'admin'>) =>
  createAdminClient({ url: admin, token: TOKEN })

/** The addresses printed in a banner. */
function addressesIn(program: Program) {
  const of = (name: string) => new RegExp(`${name} +(\\S+)`).exec(program.output())?.[1] ?? ''
  return {
    gateway: of('gateway'),
    api: of('decision API'),
    admin: of('dashboard').replace(/\/$/, ''),
  }
}

async function startWithBanner(env: Record<string, string>, folder: string) {
  const program = run(['serve'], env, folder)
  await waitFor(program, () => /"msg":"listening"/.test(program.output()))
  return { program, ...addressesIn(program) }
}

describe('a node with an upstream of its own and a new data directory', () => {
  test('enforces no rule, serves, says what to do, and is ready as soon as it has a rule', async () => {
    const folder = makeFolder()
    const env = { SLUICE_UPSTREAM: 'http://127.0.0.1:1' }
    const { program, gateway, api } = await startWithBanner(env, folder)
    expect(await readyOf(api)).toEqual(NO_RULES)
    // The upstream does not exist: it counts that the call was forwarded.
    const passed = await fetch(gateway, { headers: { 'x-api-key': 'demo-key-of-ann-free' } })
    expect([passed.status, passed.headers.get('x-ratelimit-limit')]).toEqual([502, null])
    expect(program.output()).toContain('No rules: every call is allowed')
    expect(program.output()).toContain('not ready: no rules; make the first rule')
    expect(program.output()).not.toContain('demo-key')

    findService('curl')
    const line = /^ +(curl .*admin\/v1\/rules .*)$/m.exec(program.output())?.[1] ?? ''
    expect(execFileSync('sh', ['-c', line], { encoding: 'utf8', cwd: folder })).toContain('"mine"')
    await becomesReady(api)
  })

  test('stays ready when its last rule is deleted, and is not ready after a restart, whatever is configured', async () => {
    const folder = makeFolder()
    const env = { SLUICE_UPSTREAM: 'http://127.0.0.1:1', SLUICE_ADMIN_TOKEN: TOKEN }
    const node = await start(env, folder)
    expect(await readyOf(node.api)).toEqual(NO_RULES)
    const client = adminOf(node)
    await client.createRule(RULE)
    await client.deleteRule('mine', { confirmLastRule: true })
    expect((await client.listRules()).rules).toEqual([])
    expect(await readyOf(node.api)).toEqual(READY)
    node.program.signal('SIGINT')
    expect(await node.program.code()).toBe(0)

    // Nothing is configured now, but the store has a history, so the example is not added to it.
    const again = await start({ SLUICE_ADMIN_TOKEN: TOKEN }, folder)
    expect(await readyOf(again.api)).toEqual(NO_RULES)
    expect((await adminOf(again).listRules()).rules).toEqual([])
  })

  test('is ready without rules if the configuration allows that', async () => {
    const folder = makeFolder()
    writeFileSync(join(folder, 'sluice.yaml'), 'allowNoRules: true\n')
    const { program, api } = await start({}, folder)
    expect(await readyOf(api)).toEqual(READY)
    expect(program.output()).not.toContain('not ready')
    expect(program.output()).toContain('no rules: every call is allowed')
  })
})

test('a folder that began with the example logs a warning once an upstream is configured', async () => {
  const folder = makeFolder()
  const first = await startWithBanner({}, folder)
  first.program.signal('SIGTERM')
  expect(await first.program.code()).toBe(0)
  expect(first.program.output()).not.toContain('the example rules are active')
  const env = { SLUICE_UPSTREAM: 'http://127.0.0.1:1' }
  const { program } = await startWithBanner(env, folder)
  expect(program.output()).toContain('rules: the example rules are active; replace them')
})

test('a node on an empty Postgres is not ready until the first rule is created', async () => {
  const postgres = await startPostgres()
  try {
    const url = await postgres.createDatabase()
    const node = await start({ SLUICE_DATABASE_URL: url, SLUICE_ADMIN_TOKEN: TOKEN })
    expect(await readyOf(node.api)).toEqual(NO_RULES)
    await adminOf(node).createRule(RULE)
    await becomesReady(node.api)
    await stopAll()
  } finally {
    await postgres.stop()
  }
})

test('a rules file without rules passes the check with a note, and its node is ready once it has a rule', async () => {
  const folder = makeFolder()
  const file = join(folder, 'rules.yaml')
  writeFileSync(file, 'rules: []')
  const env = { SLUICE_RULES: 'rules.yaml' }
  const { code, output } = await waitForExit(run(['serve', '--check'], env, folder))
  expect([code, output]).toEqual([
    0,
    expect.stringMatching(/rules\.yaml: rules: found none\. .*503 "no rules".*allowNoRules/),
  ])
  const { program, api } = await startWithBanner(env, folder)
  expect(await readyOf(api)).toEqual(NO_RULES)
  expect(program.output()).toMatch(/Write the first into .*rules\.yaml/)
  writeFileSync(file, JSON.stringify({ rules: [RULE] }))
  await becomesReady(api)
  writeFileSync(file, 'rules: []')
  await waitFor(program, () => program.output().includes('enforced rule removed'))
  expect(await readyOf(api)).toEqual(READY)
})

describe('with two workers', () => {
  const redis = shareRedis()

  test('a replaced worker is ready after the last rule was deleted', async () => {
    const node = await start({
      SLUICE_WORKERS: '2',
      SLUICE_REDIS_URL: redis().url,
      SLUICE_UPSTREAM: 'http://127.0.0.1:1',
      SLUICE_ADMIN_TOKEN: TOKEN,
    })
    expect(await readyOf(node.api)).toEqual(NO_RULES)
    const client = adminOf(node)
    await client.createRule(RULE)
    await becomesReady(node.api)
    // A worker reports it with its next heartbeat.
    await waitFor(node.program, () => node.program.output().includes('first rules are active'))
    // The port is held by the processes that listen: the last of them to exit would release it.
    const listening = () => node.program.output().match(/"msg":"listening"/g)?.length
    await waitFor(node.program, () => listening() === 2)
    const pids = async () =>
      (await client.listNodes()).nodes.map(({ pid }) => pid).toSorted((a, b) => a - b)
    await vi.waitFor(async () => expect(await pids()).toHaveLength(2), SOON)
    await client.deleteRule('mine', { confirmLastRule: true })
    const before = await pids()
    process.kill(before[0] ?? 0, 'SIGKILL')
    const isReplaced = async () =>
      expect((await pids()).filter((pid) => !before.includes(pid))).toHaveLength(1)
    await vi.waitFor(isReplaced, SOON)
    await waitFor(node.program, () => listening() === 3)
    // Connections are distributed in turn, so both answer some of these.
    for (let i = 0; i < 8; i++) expect(await readyOf(node.api)).toEqual(READY)
  })
})
