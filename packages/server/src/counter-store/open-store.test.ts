import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { MEMORY_COUNTERS_MAX } from '@sluice/limiter'
import { parseConfig } from '../config/parse-config.js'
import { createMemoryLog } from '../observability/log/memory-log.test-helper.js'
import { createRegistry } from '../observability/metrics/registry.js'
import { openStore } from './open-store.js'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-open-store-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

async function warningsOf(env: Readonly<Record<string, string>>): Promise<string> {
  const all = { SLUICE_DATA_DIR: join(folder, 'data'), ...env }
  const { config } = parseConfig(undefined, { file: undefined, env: all, readFile: () => '' })
  if (config === undefined) throw new Error('the configuration is bad')
  const { log, lines } = createMemoryLog()
  await openStore(config, { log, clock: { now: () => 0 }, registry: createRegistry() })
  return JSON.stringify(lines)
}

const SLUICE_DATABASE_URL = 'postgres://127.0.0.1/sluice'

test('a warning is logged if nodes share rules but not the key hash secret', async () => {
  expect(await warningsOf({ SLUICE_DATABASE_URL })).toContain('SLUICE_KEY_SECRET')
})

test('no warning is logged if nodes share the secret, or share no rules', async () => {
  const SLUICE_KEY_SECRET = '0123456789abcdef0123456789abcdef'
  expect(await warningsOf({ SLUICE_DATABASE_URL, SLUICE_KEY_SECRET })).not.toContain('SECRET')
  expect(await warningsOf({})).not.toContain('SECRET')
})

test('the largest maxCounters is opened, and one more is refused', async () => {
  const parse = (maxCounters: number) =>
    parseConfig(`maxCounters: ${maxCounters}`, {
      file: '/etc/sluice.yaml',
      env: { SLUICE_DATA_DIR: join(folder, 'data') },
      readFile: () => '',
    })
  const { config } = parse(MEMORY_COUNTERS_MAX)
  if (config === undefined) throw new Error('the configuration is bad')
  const { log } = createMemoryLog()
  const clock = { now: () => 0 }
  const opened = await openStore(config, { log, clock, registry: createRegistry() })
  await opened.store.close()
  expect(parse(MEMORY_COUNTERS_MAX + 1).errors.map(({ message }) => message)).toEqual([
    '/etc/sluice.yaml:1:14: maxCounters: number 67108863 is out of range. Accepted: a whole number from 1000 to 67108862',
  ])
})
