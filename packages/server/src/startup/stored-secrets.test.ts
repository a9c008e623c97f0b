import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  saveRedisSecret,
  loadOrCreateAdminToken,
  loadOrCreateKeySecret,
  readLastRedisSecret,
  createEphemeralSecrets,
} from './stored-secrets.js'
import { createMemoryLog } from '../observability/log/memory-log.test-helper.js'

const ONE = new Uint8Array(16).fill(1)
const TWO = new Uint8Array(16).fill(2)

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-data-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

test('the secret of Redis is stored readable by its owner only, and replaced by a later one', () => {
  const { log, lines } = createMemoryLog()
  const dataDir = join(folder, 'data')
  expect(readLastRedisSecret(dataDir, log)).toBeUndefined()
  saveRedisSecret(dataDir, ONE, log)
  saveRedisSecret(dataDir, ONE, log)
  expect([...(readLastRedisSecret(dataDir, log) ?? [])]).toEqual([...ONE])
  expect(statSync(join(dataDir, 'redis-key-secret')).mode & 0o777).toBe(0o600)
  saveRedisSecret(dataDir, TWO, log)
  expect([...(readLastRedisSecret(dataDir, log) ?? [])]).toEqual([...TWO])
  expect(readdirSync(dataDir)).toEqual(['redis-key-secret'])
  expect(lines).toEqual([])
})

test('an invalid stored secret is warned of, and replaced when Redis returns one', () => {
  const { log, lines } = createMemoryLog()
  writeFileSync(join(folder, 'redis-key-secret'), 'my own words', { mode: 0o600 })
  expect(readLastRedisSecret(folder, log)).toBeUndefined()
  expect(lines).toMatchObject([
    {
      level: 'warn',
      problem: expect.stringContaining('found 12 characters that are no secret') as string,
    },
  ])
  saveRedisSecret(folder, ONE, log)
  expect(JSON.stringify(lines)).not.toContain('my own words')
  expect([...(readLastRedisSecret(folder, log) ?? [])]).toEqual([...ONE])
})

test('a folder that cannot be written to is warned of, and does not prevent the start', () => {
  const { log, lines } = createMemoryLog()
  writeFileSync(join(folder, 'file'), '')
  saveRedisSecret(join(folder, 'file'), ONE, log)
  expect(lines).toMatchObject([
    { level: 'warn', msg: 'cannot persist key secret; a start without Redis will fail' },
  ])
})

const config = (dataDir: string) => ({
  dataDir,
  admin: { listen: { host: '127.0.0.1', port: 0 }, token: undefined },
  keySecret: undefined,
  redis: undefined,
})

test('secrets that can be written are read by each worker from their files', () => {
  const { log } = createMemoryLog()
  expect(createEphemeralSecrets(config(folder), log)).toEqual({})
  expect(readdirSync(folder).toSorted()).toEqual(['admin-token', 'key-secret'])
})

test('secrets that cannot be written are generated once for all workers, and leave no draft', () => {
  const { log, lines } = createMemoryLog()
  writeFileSync(join(folder, 'file'), '')
  const { adminToken, keySecret } = createEphemeralSecrets(config(join(folder, 'file')), log)
  expect(adminToken).toMatch(/^[0-9a-f]{64}$/)
  expect(keySecret).toMatch(/^[0-9a-f]{32}$/)
  expect(lines).toHaveLength(2)
  expect(readdirSync(folder)).toEqual(['file'])
  const given = { ...config(join(folder, 'file')), keySecret: ONE }
  const admin = { ...given.admin, token: 'given' }
  expect(createEphemeralSecrets({ ...given, admin }, log)).toEqual({})
})

test('an existing secret that cannot be read is replaced by a random one, never by an empty one', () => {
  const { log, lines } = createMemoryLog()
  mkdirSync(join(folder, 'admin-token'))
  mkdirSync(join(folder, 'key-secret'))
  expect(loadOrCreateAdminToken(folder, log)).toMatchObject({
    text: expect.stringMatching(/^[0-9a-f]{64}$/) as string,
    state: 'ephemeral',
  })
  expect(loadOrCreateKeySecret(folder, log)).toHaveLength(16)
  expect(lines.map(({ level }) => level)).toEqual(expect.arrayContaining(['warn']))
  expect(readdirSync(folder).toSorted()).toEqual(['admin-token', 'key-secret'])
})
