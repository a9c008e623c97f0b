import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { keepRedisSecret, lastRedisSecret } from './data-dir.js'
import { createMemoryLog } from './log/memory-log.test-helper.js'

const ONE = new Uint8Array(16).fill(1)
const TWO = new Uint8Array(16).fill(2)

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-data-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

test('the secret of Redis is kept for its owner alone, and replaced by a later one', () => {
  const { log, lines } = createMemoryLog()
  const dataDir = join(folder, 'data')
  expect(lastRedisSecret(dataDir, log)).toBeUndefined()
  keepRedisSecret(dataDir, ONE, log)
  keepRedisSecret(dataDir, ONE, log)
  expect([...(lastRedisSecret(dataDir, log) ?? [])]).toEqual([...ONE])
  expect(statSync(join(dataDir, 'redis-key-secret')).mode & 0o777).toBe(0o600)
  keepRedisSecret(dataDir, TWO, log)
  expect([...(lastRedisSecret(dataDir, log) ?? [])]).toEqual([...TWO])
  expect(readdirSync(dataDir)).toEqual(['redis-key-secret'])
  expect(lines).toEqual([])
})

test('what stands in its place and is none is warned of, and replaced when Redis tells it', () => {
  const { log, lines } = createMemoryLog()
  writeFileSync(join(folder, 'redis-key-secret'), 'my own words', { mode: 0o600 })
  expect(lastRedisSecret(folder, log)).toBeUndefined()
  expect(lines).toMatchObject([
    {
      level: 'warn',
      problem: expect.stringContaining('found 12 characters that are no secret') as string,
    },
  ])
  keepRedisSecret(folder, ONE, log)
  expect(JSON.stringify(lines)).not.toContain('my own words')
  expect([...(lastRedisSecret(folder, log) ?? [])]).toEqual([...ONE])
})

test('a folder that cannot be written to is warned of, and no reason not to serve', () => {
  const { log, lines } = createMemoryLog()
  writeFileSync(join(folder, 'file'), '')
  keepRedisSecret(join(folder, 'file'), ONE, log)
  expect(lines).toMatchObject([
    { level: 'warn', msg: 'could not be kept; a start without Redis will fail' },
  ])
})
