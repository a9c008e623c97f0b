/** Follows real directories; the poll runs when the test asks for it. */
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { until } from '../../../lib/manual-scheduler.test-helper.js'
import { createMemoryLog } from '../../../observability/log/memory-log.test-helper.js'
import type { EnvoyConfig, EnvoyConfigSource } from './config-source.js'
import { followConfigDirectory } from './directory-source.js'

const endings: (() => void | Promise<void>)[] = []
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end()
})

function tempFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-envoy-'))
  endings.push(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

function domainText(domain: string, requests = 1): string {
  const limit = `{ unit: minute, requests_per_unit: ${requests} }`
  return `domain: ${domain}\ndescriptors:\n  - { key: user, rate_limit: ${limit} }\n`
}

interface FollowOptions {
  readonly mergeDomains?: boolean
  readonly pollMs?: number
  readonly pause?: () => Promise<void>
}

async function follow(directory: string, options: FollowOptions = {}) {
  const { mergeDomains, pollMs = 0, pause = () => Promise.resolve() } = options
  const { log, lines } = createMemoryLog()
  const source = await followConfigDirectory({ directory, mergeDomains, pollMs }, { log, pause })
  endings.push(() => source.close())
  const changes: EnvoyConfig[] = []
  source.onChange((config) => changes.push(config))
  return { source, changes, lines, messages: () => lines.map(({ msg }) => msg) }
}

function requestsOf(source: EnvoyConfigSource, domain: string): number | undefined {
  const entries = [{ key: 'user', value: 'u1' }]
  return source.current()?.domains.get(domain)?.select(entries)?.node.limit.requestsPerUnit
}

describe('the files of a directory', () => {
  test('all regular files below it are read, except hidden ones and copies of editors', async () => {
    const folder = tempFolder()
    mkdirSync(join(folder, 'team/deep'), { recursive: true })
    mkdirSync(join(folder, '.git'))
    writeFileSync(join(folder, 'a.yaml'), domainText('a'))
    writeFileSync(join(folder, 'b'), domainText('b'))
    writeFileSync(join(folder, 'team/deep/c.json'), '{"domain": "c"}')
    const skipped = ['.hidden.yaml', 'a.yaml~', '#a.yaml#', '.a.yaml.swp', 'a.yaml.bak', '.git/x']
    for (const name of skipped) writeFileSync(join(folder, name), 'not: [YAML')
    const { source } = await follow(folder)
    expect(source.problem()).toBeUndefined()
    expect([...(source.current()?.domains.keys() ?? [])]).toEqual(['a', 'b', 'c'])
  })

  test('a directory without files, or none at all, is a problem that says so', async () => {
    const folder = tempFolder()
    const empty = await follow(folder)
    expect(empty.source.current()).toBeUndefined()
    expect(empty.source.problem()).toContain(
      'found no files; accepted: a directory with YAML files',
    )
    const missing = await follow(join(folder, 'none'))
    expect(missing.source.problem()).toContain('there is no such file or directory')
    expect(missing.messages()).toEqual(['envoy configuration invalid: none is active'])
  })

  test('a link in a circle ends, and a folder with two names is read once', async () => {
    const folder = tempFolder()
    mkdirSync(join(folder, 'one'))
    writeFileSync(join(folder, 'one/a.yaml'), domainText('a'))
    symlinkSync(folder, join(folder, 'one/back'))
    symlinkSync(join(folder, 'one'), join(folder, 'two'))
    const { source } = await follow(folder)
    expect(source.problem()).toBeUndefined()
    expect(requestsOf(source, 'a')).toBe(1)
  })

  test('files may share a domain only where domains are merged', async () => {
    const folder = tempFolder()
    writeFileSync(join(folder, '1.yaml'), domainText('a'))
    writeFileSync(join(folder, '2.yaml'), 'domain: a\ndescriptors:\n  - key: path\n')
    const apart = await follow(folder)
    expect(apart.source.problem()).toContain('2.yaml:1:9: domain: "a" is given twice')
    const merged = await follow(folder, { mergeDomains: true })
    expect(merged.source.problem()).toBeUndefined()
    expect(requestsOf(merged.source, 'a')).toBe(1)
  })
})

describe('changes', () => {
  test('a changed, an added and a removed file are active after the next poll', async () => {
    const folder = tempFolder()
    writeFileSync(join(folder, 'a.yaml'), domainText('a', 1))
    const { source, changes } = await follow(folder)
    writeFileSync(join(folder, 'a.yaml'), domainText('a', 2))
    writeFileSync(join(folder, 'b.yaml'), domainText('b', 3))
    await source.check()
    expect([requestsOf(source, 'a'), requestsOf(source, 'b')]).toEqual([2, 3])
    rmSync(join(folder, 'b.yaml'))
    await source.check()
    expect([requestsOf(source, 'a'), requestsOf(source, 'b')]).toEqual([2, undefined])
    expect(changes).toHaveLength(2)
    expect(changes.at(-1)).toBe(source.current())
    expect([source.loads(), source.failures()]).toEqual([3, 0])
  })

  test('a poll that finds the same content changes nothing', async () => {
    const folder = tempFolder()
    writeFileSync(join(folder, 'a.yaml'), domainText('a'))
    const { source, changes } = await follow(folder)
    const before = source.current()
    for (let i = 0; i < 3; i++) await source.check()
    writeFileSync(join(folder, 'a.yaml'), domainText('a'))
    await source.check()
    expect(changes).toEqual([])
    expect(source.current()).toBe(before)
    expect(source.loads()).toBe(1)
  })

  test('a configuration with errors changes nothing until it is corrected', async () => {
    const folder = tempFolder()
    const file = join(folder, 'a.yaml')
    writeFileSync(file, domainText('a', 1))
    const { source, changes, lines, messages } = await follow(folder)
    const before = source.current()
    writeFileSync(file, 'domain: a\ndescriptors:\n  - { kee: user }\n')
    await source.check()
    await source.check()
    expect(source.current()).toBe(before)
    expect(source.problem()).toContain(`${file}:3:5: descriptors[0].key: missing`)
    expect(source.problem()).toContain('(and 1 more)')
    expect(source.failures()).toBe(1)
    expect(lines.at(-1)).toMatchObject({
      level: 'error',
      msg: 'envoy configuration invalid: the active one stays',
      problem: expect.stringContaining('did you mean "key"?'),
    })
    writeFileSync(file, domainText('a', 5))
    await source.check()
    expect(source.problem()).toBeUndefined()
    expect(requestsOf(source, 'a')).toBe(5)
    expect(changes).toHaveLength(1)
    expect(messages().at(-1)).toBe('envoy configuration loaded')
  })

  test('the content from before an error is no change, and ends the problem', async () => {
    const folder = tempFolder()
    const file = join(folder, 'a.yaml')
    writeFileSync(file, domainText('a'))
    const { source, changes, messages } = await follow(folder)
    writeFileSync(file, 'x')
    await source.check()
    expect(source.problem()).toBeDefined()
    writeFileSync(file, domainText('a'))
    await source.check()
    expect(source.problem()).toBeUndefined()
    expect(changes).toEqual([])
    expect(messages().at(-1)).toBe('envoy configuration valid again: it is the active one')
  })

  test('a directory that disappears changes nothing, and is reported once', async () => {
    const folder = join(tempFolder(), 'config')
    mkdirSync(folder)
    writeFileSync(join(folder, 'a.yaml'), domainText('a'))
    const { source, messages } = await follow(folder)
    renameSync(folder, `${folder}-away`)
    await source.check()
    await source.check()
    expect(requestsOf(source, 'a')).toBe(1)
    expect(source.problem()).toContain('there is no such file or directory')
    expect(source.failures()).toBe(1)
    renameSync(`${folder}-away`, folder)
    await source.check()
    expect(source.problem()).toBeUndefined()
    expect(messages()).toEqual([
      'envoy configuration loaded',
      'envoy configuration invalid: the active one stays',
      'envoy configuration valid again: it is the active one',
    ])
  })

  test('files that are still being written are not loaded', async () => {
    const folder = tempFolder()
    const file = join(folder, 'a.yaml')
    writeFileSync(file, domainText('a', 1))
    let writes = 0
    let isWriting = false
    const pause = async () => {
      if (isWriting) writeFileSync(file, `${domainText('a', 2)}#${'x'.repeat(++writes)}`)
    }
    const { source } = await follow(folder, { pause })
    isWriting = true
    writeFileSync(file, `${domainText('a', 2)}#`)
    await source.check()
    expect(writes).toBeGreaterThan(10)
    expect(requestsOf(source, 'a')).toBe(1)
    isWriting = false
    await source.check()
    expect(requestsOf(source, 'a')).toBe(2)
  })
})

describe('symbolic links', () => {
  test('a ConfigMap of Kubernetes is replaced by one link, and read as one', async () => {
    const folder = tempFolder()
    const publish = (version: string, requests: number) => {
      mkdirSync(join(folder, version))
      writeFileSync(join(folder, version, 'a.yaml'), domainText('a', requests))
      writeFileSync(join(folder, version, 'b.yaml'), domainText('b', requests))
      symlinkSync(version, join(folder, '..data_tmp'))
      renameSync(join(folder, '..data_tmp'), join(folder, '..data'))
    }
    publish('..2026_01', 1)
    symlinkSync('..data/a.yaml', join(folder, 'a.yaml'))
    symlinkSync('..data/b.yaml', join(folder, 'b.yaml'))
    const { source, changes } = await follow(folder)
    expect([requestsOf(source, 'a'), requestsOf(source, 'b')]).toEqual([1, 1])
    publish('..2026_02', 2)
    rmSync(join(folder, '..2026_01'), { recursive: true })
    await source.check()
    expect([requestsOf(source, 'a'), requestsOf(source, 'b')]).toEqual([2, 2])
    expect(changes).toHaveLength(1)
  })

  test('a directory may be a link that points elsewhere later', async () => {
    const folder = tempFolder()
    for (const [name, requests] of [
      ['old', 1],
      ['new', 2],
    ] as const) {
      mkdirSync(join(folder, name))
      writeFileSync(join(folder, name, 'a.yaml'), domainText('a', requests))
    }
    symlinkSync('old', join(folder, 'current'))
    const { source } = await follow(join(folder, 'current'))
    expect(requestsOf(source, 'a')).toBe(1)
    symlinkSync('new', join(folder, 'next'))
    renameSync(join(folder, 'next'), join(folder, 'current'))
    await source.check()
    expect(requestsOf(source, 'a')).toBe(2)
  })
})

test('a change is noticed without anybody asking, and none after the end', async () => {
  const folder = tempFolder()
  const file = join(folder, 'a.yaml')
  writeFileSync(file, domainText('a', 1))
  const { source } = await follow(folder, { pollMs: 10 })
  writeFileSync(file, domainText('a', 2))
  await until(() => requestsOf(source, 'a') === 2)
  await source.close()
  writeFileSync(file, domainText('a', 3))
  await source.check()
  expect(requestsOf(source, 'a')).toBe(2)
})

test('a file that the process may not read is a problem, not an absent file', async () => {
  const folder = tempFolder()
  writeFileSync(join(folder, 'a.yaml'), domainText('a'))
  writeFileSync(join(folder, 'b.yaml'), domainText('b'))
  chmodSync(join(folder, 'b.yaml'), 0)
  const { source } = await follow(folder)
  // The superuser may read everything.
  const isAllowed = process.getuid?.() === 0
  expect(source.problem() === undefined).toBe(isAllowed)
})
