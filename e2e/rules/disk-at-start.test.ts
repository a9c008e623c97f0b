/** A server starts on a full or read-only disk, with a rule store whose journal is intact. */
import { appendFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { requestDecision } from '../operator.test-helper.js'
import { makeFolder } from '../process.test-helper.js'
import { shareRedis } from '../serve-redis.test-helper.js'
import { waitForExit } from '../serve.test-helper.js'
import { type DiskServer, makeSmallDisk, TOKEN } from './small-disk.test-helper.js'

const SOON = { timeout: 40_000, interval: 100 }
const READ_ONLY = 'rule store: opened read-only; rules are served, changes are refused'

/** Workers share their counters. */
const redis = shareRedis()

const ruleOf = (max: number) => ({
  id: 'mine',
  by: ['user'],
  limits: [{ max, window: '1h', name: 'hourly' }],
})

async function call({ admin }: DiskServer, path: string, method = 'GET', body?: unknown) {
  const response = await fetch(`${admin}/admin/v1${path}`, {
    method,
    headers: { Authorization: `Bearer ${TOKEN}`, 'Content-Type': 'application/json' },
    body: body === undefined ? null : JSON.stringify(body),
  })
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}

const create = (server: DiskServer, max: number) => call(server, '/rules', 'POST', ruleOf(max))
const patch = (server: DiskServer, max: number) =>
  call(server, '/rules/mine', 'PATCH', { limits: ruleOf(max).limits })

async function readOnlyMetric({ admin }: DiskServer): Promise<string | undefined> {
  const text = await (await fetch(`${admin}/metrics`)).text()
  return /^sluice_rules_read_only (\d)$/m.exec(text)?.[1]
}

const limitOf = async ({ api }: DiskServer) =>
  (await requestDecision(api, 'peek', { user: 'u1' })).limits['mine']

const readiness = async ({ api }: DiskServer) => (await fetch(`${api}/readyz`)).status

/** Stops a server after its rule got a distinct limit. */
async function leave(server: DiskServer): Promise<void> {
  expect(await create(server, 41)).toMatchObject({ status: 201 })
  server.program.signal('SIGTERM')
  expect(await server.program.code()).toBe(0)
}

/** What an operator sees of a server that cannot write, and what its callers must not notice. */
async function expectReadOnly(server: DiskServer, reason: string): Promise<void> {
  expect(await readiness(server)).toBe(200)
  expect(await limitOf(server)).toBe(41)
  expect(await readOnlyMetric(server)).toBe('1')
  const refused = await patch(server, 42)
  expect(refused).toMatchObject({ status: 503, body: { error: 'rules_unavailable' } })
  expect(refused.body['detail']).toContain(reason)
  expect(refused.body['detail']).toContain('opened read-only')
  expect(server.program.output()).toContain(READ_ONLY)
  const nodes = (await call(server, '/nodes')).body
  expect(nodes['problem']).toContain(reason)
  expect(nodes['nodes']).toMatchObject([{ problem: expect.stringContaining(reason) }])
}

async function expectWritable(server: DiskServer, max: number): Promise<void> {
  await expect.poll(() => readOnlyMetric(server), SOON).toBe('0')
  expect(await patch(server, max)).toMatchObject({ status: 200 })
  await expect.poll(() => limitOf(server), SOON).toBe(max)
}

test('a server starts on a full disk, serves its rules, and accepts changes again once there is space', async () => {
  const disk = await makeSmallDisk()
  await leave(await disk.start())
  const journal = disk.path('rules/journal.jsonl')
  // A line that a crash cut short is neither read nor truncated without the lock.
  appendFileSync(journal, '{"format":1,"version":99,"mark":"00')
  const before = readFileSync(journal)
  disk.fill()
  const names = readdirSync(disk.path('rules')).toSorted()
  const server = await disk.start()
  await expectReadOnly(server, 'the disk is full (ENOSPC)')
  expect(readFileSync(journal)).toEqual(before)
  expect(readdirSync(disk.path('rules')).toSorted()).toEqual(names)
  disk.empty()
  await expectWritable(server, 43)
  expect(server.program.output()).toContain('rule store: writable again')
  server.program.signal('SIGTERM')
  expect(await server.program.code()).toBe(0)
  expect(await limitOf(await disk.start())).toBe(43)
})

test('a server with several workers starts on a read-only disk, and accepts changes once it is writable', async () => {
  const disk = await makeSmallDisk()
  await leave(await disk.start())
  disk.remount('ro')
  const config = join(makeFolder(), 'sluice.yaml')
  const decisions = join(disk.dataDir, 'decisions.log')
  writeFileSync(config, `decisionLog: { file: ${decisions}, sample: 1 }`)
  const server = await disk.start({
    SLUICE_CONFIG: config,
    SLUICE_WORKERS: '2',
    SLUICE_REDIS_URL: redis().url,
    SLUICE_STORE_DEADLINE_MS: '10000',
  })
  await expect.poll(() => readOnlyMetric(server), SOON).toBe('1')
  expect(await readiness(server)).toBe(200)
  expect(await limitOf(server)).toBe(41)
  const refused = await patch(server, 42)
  expect(refused.status).toBe(503)
  expect(refused.body['detail']).toContain('the disk is read-only (EROFS)')
  expect(server.program.output()).toContain(
    'decision log: cannot write; decisions are not affected',
  )
  disk.remount('rw')
  await expectWritable(server, 44)
})

test('a server does not start on a full disk whose rule store another process holds', async () => {
  const disk = await makeSmallDisk()
  const first = await disk.start()
  expect(await create(first, 41)).toMatchObject({ status: 201 })
  disk.fill()
  const { code, output } = await waitForExit(disk.run())
  expect(code).toBe(1)
  expect(output).toMatch(/Could not start: .*process \d+ on .* uses it/)
})
