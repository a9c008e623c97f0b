import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLimiter, memoryStore } from '@sluice/limiter'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createMemoryLog } from '../observability/log/memory-log.test-helper.js'
import { CounterSnapshots, formerSnapshots, snapshotFile } from './counter-snapshots.js'

const RULES = `
rules:
  - { id: kept, by: [user], limits: [5/hour], durable: true }
  - { id: lost, by: [user], limits: [9/hour] }
`
const CALL = { attributes: { user: 'u1' } }
const SECRET = new Uint8Array(16)

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-snapshots-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** The snapshots of one server, with its store and limiter. */
function open(rules = RULES, former: readonly string[] = []) {
  const store = memoryStore()
  const limiter = createLimiter({ rules, store, secret: SECRET })
  const { log, lines } = createMemoryLog()
  const snapshots = new CounterSnapshots({
    store,
    file: snapshotFile(join(folder, 'data')),
    former,
    log,
    clock: { now: () => Date.now() },
    hasDurable: () => limiter.hasDurable,
  })
  const left = async () =>
    (await limiter.limits(CALL)).map(({ rule, remaining }) => [rule, remaining])
  return { limiter, snapshots, lines, left }
}

const file = () => join(folder, 'data/counters.snapshot')

test('only counters of durable rules survive a restart', async () => {
  const before = open()
  for (let i = 0; i < 3; i++) before.limiter.checkSync(CALL)
  await before.snapshots.close()
  expect(statSync(file()).mode & 0o777).toBe(0o600)
  expect(readdirSync(join(folder, 'data'))).toEqual(['counters.snapshot'])
  const after = open()
  after.snapshots.restore()
  expect(await after.left()).toEqual([
    ['kept', 2],
    ['lost', 9],
  ])
  expect(after.lines).toMatchObject([{ level: 'info', counters: 1 }])
})

test('the first process restores the files of workers that no longer run, and removes them', async () => {
  const before = open()
  for (let i = 0; i < 3; i++) before.limiter.checkSync(CALL)
  await before.snapshots.close()
  const data = join(folder, 'data')
  renameSync(file(), snapshotFile(data, 3))
  writeFileSync(snapshotFile(data, 1), '')
  expect(formerSnapshots(data, 2, 1)).toEqual([])
  expect(formerSnapshots(data, 2)).toEqual([snapshotFile(data, 3)])
  const after = open(RULES, formerSnapshots(data, 2))
  after.snapshots.restore()
  expect(await after.left()).toContainEqual(['kept', 2])
  await vi.waitFor(() =>
    expect(readdirSync(data)).toEqual(['counters-1.snapshot', 'counters.snapshot']),
  )
})

test('no file is written without a durable rule', async () => {
  const { limiter, snapshots } = open('rules: [{ id: lost, by: [user], limits: [9/hour] }]')
  limiter.checkSync(CALL)
  await snapshots.save()
  await snapshots.close()
  expect(readdirSync(folder)).toEqual([])
})

test('a missing file is not logged', () => {
  const { snapshots, lines } = open()
  snapshots.restore()
  expect(lines).toEqual([])
})

test('a damaged file is logged as a warning, and counters start empty', async () => {
  const before = open()
  before.limiter.checkSync(CALL)
  await before.snapshots.close()
  const bytes = readFileSync(file())
  bytes[20] = (bytes[20] ?? 0) ^ 1
  writeFileSync(file(), bytes)
  const after = open()
  after.snapshots.restore()
  expect(after.lines).toMatchObject([
    { level: 'warn', msg: expect.stringContaining('starting empty') as string },
  ])
  expect(await after.left()).toEqual([
    ['kept', 5],
    ['lost', 9],
  ])
})

test('a file is written only when something changed', async () => {
  const { limiter, snapshots } = open()
  limiter.checkSync(CALL)
  await snapshots.save()
  const { ino } = statSync(file())
  await snapshots.save()
  expect(statSync(file()).ino).toBe(ino)
  limiter.checkSync(CALL)
  await snapshots.save()
  expect(statSync(file()).ino).not.toBe(ino)
})

test('a folder that cannot be written to is logged once a second', async () => {
  const { limiter, snapshots, lines } = open()
  writeFileSync(join(folder, 'data'), 'not a folder')
  limiter.checkSync(CALL)
  await snapshots.save()
  await snapshots.save()
  expect(lines).toMatchObject([{ level: 'warn', msg: 'durable counters: not saved' }])
})
