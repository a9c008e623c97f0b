import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { startRedis } from '../tools/redis/server.mjs'
import { makeFolder, waitFor } from './process.test-helper.js'
import { shareRedis, startNode } from './serve-redis.test-helper.js'
import { waitForExit, run, type RunningServer, start } from './serve.test-helper.js'

const RULES = 'rules: [{ id: everybody, by: [], limits: [100/hour] }]'

const redis = shareRedis()
const startOn = (env: Record<string, string> = {}, rules = RULES) =>
  startNode(rules, { SLUICE_REDIS_URL: redis().url, ...env })

describe('sluice serve at its start', () => {
  test('fails with a message if its secret differs from that of the counters', async () => {
    const { program } = await startOn({ SLUICE_KEY_SECRET: 'the secret of everybody' })
    const env = { SLUICE_REDIS_URL: redis().url, SLUICE_KEY_SECRET: 'the secret of one node' }
    for (const workers of ['1', '2']) {
      const { code, output } = await waitForExit(
        run(['serve'], { ...env, SLUICE_WORKERS: workers }),
      )
      expect(output).toMatch(/Could not start: .*SLUICE_KEY_SECRET/)
      expect(output).not.toContain('secret of one node')
      expect(code).toBe(1)
    }
    expect(program.hasEnded()).toBe(false)
  })

  test('fails with a message on a Redis that may evict counters', async () => {
    await redis().cli('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru')
    const { code, output } = await waitForExit(run(['serve'], { SLUICE_REDIS_URL: redis().url }))
    await redis().cli('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
    expect(output).toMatch(/Could not start: .*maxmemory-policy allkeys-lru; accepted: noeviction/)
    expect(code).toBe(1)
  })

  test('requires the secret if Redis is down, configured or stored by the last run', async () => {
    const lasting = await startRedis({ config: ['--appendonly', 'yes'] })
    const env = { SLUICE_REDIS_URL: lasting.url }
    const known = await startOn(env)
    known.program.signal('SIGTERM')
    await known.program.code()
    await lasting.kill()
    const folder = makeFolder()
    const rules = '[{ id: all, by: [], limits: [1000/minute] }]'
    writeFileSync(join(folder, 'rules.yaml'), rules)
    writeFileSync(join(folder, 'sluice.yaml'), 'rules: rules.yaml\nredis: { prefix: another }')
    const guarded = await startRedis({ password: 'hunter2hunter2' })
    const [kept, given, wrong, left, without, shut] = await Promise.all([
      start({ ...env, SLUICE_RULES: 'rules.yaml' }, known.folder),
      start({ ...env, SLUICE_KEY_SECRET: 'the secret of everybody' }, folder),
      start({ ...env, SLUICE_KEY_SECRET: 'the secret of nobody else' }),
      start({ ...env, SLUICE_KEY_SECRET: 'the secret of nobody else' }),
      waitForExit(run(['serve'], env)),
      waitForExit(run(['serve'], { SLUICE_REDIS_URL: guarded.url.replace(/r2@/, 'r3@') })),
    ])
    await guarded.stop()
    expect([without.code, shut.code]).toEqual([1, 1])
    expect(without.output).toMatch(
      /Could not start: .*could not be used within 10 s: .*ECONNREFUSED.*SLUICE_KEY_SECRET/,
    )
    expect(shut.output).toMatch(/Could not start: redis:\/\/:\*\*\*@.* cannot be used: .*WRONGPASS/)
    expect(shut.output).not.toContain('hunter')
    for (const node of [kept, given, wrong]) {
      expect((await fetch(`${node.api}/readyz`)).status).toBe(200)
      expect((await fetch(node.gateway)).status).toBe(200)
    }
    left.program.signal('SIGTERM')
    const { code, output } = await waitForExit(left.program)
    // The unreachable Redis is an alert, which may be raised in the meantime on a slow machine.
    const errors = output
      .split('\n')
      .filter((line) => line.includes('"level":"error"') && !line.includes('"msg":"alert"'))
    expect([code, errors]).toEqual([0, []])
    await lasting.start()
    for (const { api, program } of [kept, given]) {
      await vi.waitFor(
        async () => {
          const ready = (await (await fetch(`${api}/readyz`)).json()) as object
          expect(ready).toMatchObject({ store: 'redis: answering' })
        },
        { timeout: 20_000 },
      )
      await waitFor(program, () => program.output().includes('"msg":"Redis answers"'))
      expect(program.output()).not.toContain('key secret differs')
    }
    await waitFor(wrong.program, () => wrong.program.output().includes('Redis cannot be used'))
    const unfit = await fetch(`${wrong.api}/readyz`)
    expect([unfit.status, await unfit.json()]).toMatchObject([
      200,
      { store: 'redis: unfit, see the log' },
    ])
    expect((await fetch(wrong.gateway)).status).toBe(200)
    await lasting.stop()
  })

  test('decides by posture and raises an alert with a wrong password, until the password is right', async () => {
    const guarded = await startRedis({ password: 'hunter2hunter2' })
    const { api, gateway, program } = await startOn({
      SLUICE_REDIS_URL: guarded.url.replace(/r2@/, 'r3@'),
      SLUICE_KEY_SECRET: 'the secret of everybody',
    })
    const storeOf = async () =>
      ((await (await fetch(`${api}/readyz`)).json()) as { readonly store: string }).store
    expect(await storeOf()).toBe('redis: refuses this node, see the log')
    expect((await fetch(gateway)).status).toBe(200)
    await waitFor(program, () => program.output().includes('"alert":"store-refused"'))
    expect(program.output()).toContain('"msg":"Redis refuses this node; rules use their posture')
    expect(program.output()).toContain('WRONGPASS')
    expect(program.output()).not.toContain('hunter')
    await guarded.call('CONFIG', 'SET', 'requirepass', 'hunter2hunter3')
    await waitFor(program, () => program.output().includes('"msg":"Redis answers"'))
    expect(await storeOf()).toBe('redis: answering')
    await waitFor(program, () => program.output().includes('"msg":"alert over"'))
    await guarded.stop()
  })

  test('restores the secret on a Redis that comes back empty, so that all nodes share one limit', async () => {
    const forgetful = await startRedis()
    const env = { SLUICE_REDIS_URL: forgetful.url, SLUICE_STORE_DEADLINE_MS: '10000' }
    const rules =
      'rules: [{ id: all, by: [], limits: [{ algorithm: fixed-window, max: 100, window: 366d }] }]'
    const known = await startOn(env, rules)
    known.program.signal('SIGTERM')
    await known.program.code()
    await forgetful.kill()
    const old = await start({ ...env, SLUICE_RULES: 'rules.yaml' }, known.folder)
    await forgetful.start()
    await waitFor(old.program, () => old.program.output().includes('"msg":"Redis answers"'))
    const fresh = await startOn(env, rules)
    const left = async ({ gateway }: RunningServer) =>
      Number((await fetch(gateway)).headers.get('x-ratelimit-remaining'))
    const both = [await left(old), await left(fresh), await left(old), await left(fresh)]
    expect(both).toEqual([99, 98, 97, 96])
    for (const { program } of [old, fresh]) {
      expect(program.output()).not.toMatch(/key secret differs|cannot be used/)
    }
    await forgetful.stop()
  })

  test('counts nothing under its own secret if the Redis that comes back has another', async () => {
    const lasting = await startRedis({ config: ['--appendonly', 'yes', '--appendfsync', 'always'] })
    const env = { SLUICE_REDIS_URL: lasting.url }
    const known = await startOn(env)
    known.program.signal('SIGTERM')
    await known.program.code()
    await lasting.call('FLUSHALL')
    await lasting.call('SET', 'sluice:{home}:secret', '2'.repeat(32), 'EX', '600')
    await lasting.kill()
    const old = await start({ ...env, SLUICE_RULES: 'rules.yaml' }, known.folder)
    await lasting.start()
    await waitFor(old.program, () =>
      old.program.output().includes('key secret differs from the one in Redis'),
    )
    expect((await fetch(old.gateway)).status).toBe(200)
    const keys = (await lasting.call('KEYS', '*')) as readonly string[]
    expect(keys.filter((key) => !key.includes('{home}'))).toEqual([])
    await lasting.stop()
  })

  test.each(['1', '2'])('exits on SIGTERM while it waits for Redis, workers: %s', async (count) => {
    const program = run(['serve'], {
      SLUICE_REDIS_URL: 'redis://127.0.0.1:1',
      SLUICE_WORKERS: count,
    })
    await waitFor(program, () => program.output().includes('ECONNREFUSED'))
    program.signal('SIGTERM')
    const { code, output } = await waitForExit(program)
    expect([code, output]).toEqual([
      0,
      expect.stringContaining('received signal during startup, exiting'),
    ])
  })

  test('serve --check validates the URL without connecting', async () => {
    const env = { SLUICE_REDIS_URL: 'redis://:hunter2hunter2@127.0.0.1:1', SLUICE_WORKERS: '2' }
    expect(await waitForExit(run(['serve', '--check'], env))).toEqual({
      code: 0,
      output: 'Configuration and rules are valid.\n',
    })
    const bad = { SLUICE_REDIS_URL: 'redis://:hunter2hunter2@127.0.0.1:x' }
    const { code, output } = await waitForExit(run(['serve', '--check'], bad))
    expect([code, output]).toEqual([2, expect.stringContaining('SLUICE_REDIS_URL') as string])
    expect(output).not.toContain('hunter2')
  })
})

test('a durable rule on a Redis without persistence logs a warning', async () => {
  const rules = 'rules: [{ id: kept, by: [], limits: [5/hour], durable: true }]'
  const { program } = await startOn({}, rules)
  await waitFor(program, () => program.output().includes('Redis has appendonly off'))
})

test('counters of durable rules in memory survive a restart', async () => {
  const folder = makeFolder()
  const limits = '[{ algorithm: fixed-window, max: 5, window: 366d }]'
  writeFileSync(
    join(folder, 'rules.yaml'),
    `rules: [{ id: kept, by: [], limits: ${limits}, durable: true }]`,
  )
  const env = { SLUICE_RULES: 'rules.yaml' }
  const left = async ({ gateway }: RunningServer) =>
    (await fetch(gateway)).headers.get('x-ratelimit-remaining')
  const first = await start(env, folder)
  expect([await left(first), await left(first)]).toEqual(['4', '3'])
  first.program.signal('SIGTERM')
  await first.program.code()
  const second = await start(env, folder)
  expect(await left(second)).toBe('2')
})
