import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseRules, parseData } from '@sluice/core'
import { afterEach, expect, test, vi } from 'vitest'
import { createMemoryLog } from '../../../observability/log/memory-log.test-helper.js'
import { candidate, commit, key, override, rule, ruleBody } from '../conformance-kit.test-helper.js'
import type { Change, SetDocument } from '../records.js'
import {
  closeStores,
  failingFileSystem,
  filesIn,
  makeRulesFolder,
  openStore,
  readRules,
} from './file-store.test-helper.js'
import { readHead } from './rules-yaml-format.js'

afterEach(closeStores)

const set = (more: Partial<SetDocument>): Change => ({
  kind: 'set',
  id: 'main',
  body: { routes: [], strictPaths: false, order: [], ...more },
})

/** A closed store with these in one version. */
async function closedWith(...changes: readonly Change[]): Promise<string> {
  const folder = makeRulesFolder()
  const store = await openStore(folder)
  await commit(store, changes)
  await store.close()
  return folder
}

test('priorities, the lines that classify calls and shed are written before the rules', async () => {
  const folder = await closedWith(
    set({
      order: ['a'],
      priorities: ['critical', 'reads'],
      classify: [{ match: { method: 'GET' }, as: 'reads' }],
      shed: { loop: '50ms' },
    }),
    rule('a'),
  )
  const [, text = ''] = readRules(folder).split(/Checksum.*\n/)
  expect(text).toMatchInlineSnapshot(`
    "priorities: [critical, reads]
    classify:
      - match:
          method: GET
        as: reads
    shed:
      loop: 50ms
    rules:
      - id: a
        by: [user]
        limits: [1/second]
    "
  `)
  expect(parseRules(text).errors).toEqual([])
})

test('rules are written as YAML in their order, with candidate and overrides', async () => {
  const folder = await closedWith(
    set({ order: ['b', 'a'], routes: ['GET /v1/orders/:id'], strictPaths: true }),
    rule('a'),
    rule('b', 2),
    candidate('b'),
    override('a', 'u2'),
    override('a', 'u1'),
    key('k'),
  )
  const text = readRules(folder)
  expect(text.replace(/[0-9a-f]{64}/, 'SUM')).toMatchInlineSnapshot(`
    "# The rules of Sluice as of version 2 of its rule store, to look at.
    # Edits here are not read. To change rules: sluice rules apply -f FILE
    # Checksum of the rest: SUM
    routes: ['GET /v1/orders/:id']
    strictPaths: true
    rules:
      - id: b
        by: [user]
        limits: [2/second]
        candidate:
          limits: [5/second]
      - id: a
        by: [user]
        limits: [1/second]
        overrides:
          - caller:
              user: u1
            limits: [7/second]
          - caller:
              user: u2
            limits: [7/second]
    "
  `)
  const { value, problems } = parseData(text)
  expect(problems).toEqual([])
  expect(parseRules(value as object).errors).toEqual([])
})

test('a store without rules writes an empty list', async () => {
  const folder = makeRulesFolder()
  const store = await openStore(folder)
  await store.close()
  expect(readRules(folder)).toMatch(/version 1 .*\nrules: \[\]\n$/s)
})

test('too many overrides are only counted', async () => {
  const many = Array.from({ length: 101 }, (_, index) => override('a', `u${index}`))
  const folder = await closedWith(set({ order: ['a', 'b'] }), rule('a'), rule('b'), ...many)
  expect(readRules(folder)).toContain('# a has 101 overrides, too many to show here.\n')
  expect(readRules(folder)).not.toContain('u7')
  const store = await openStore(folder)
  await commit(store, [{ ...override('a', 'u0'), body: null }])
  await store.close()
  expect(readRules(folder)).not.toContain('too many')
  expect(parseData(readRules(folder)).value).toMatchObject({
    rules: [{ overrides: { length: 100 } }, ruleBody('b')],
  })
})

test('unusual texts are the same when they are parsed again', async () => {
  const description = 'two\nlines: "and" # a \'comment\'\n\n  - [no, list]\n\ttab 漢字 🦀'
  const folder = await closedWith(set({ order: ['a'] }), {
    kind: 'rule',
    id: 'a',
    body: { id: 'a', description, limits: ['1/second'] },
  })
  const { value } = parseData(readRules(folder))
  expect(value).toEqual({ rules: [{ id: 'a', description, limits: ['1/second'] }] })
  expect(readHead(readRules(folder))).toEqual({ version: 2, isWhole: true })
})

test('versions that change no rule do not touch the file', async () => {
  const folder = await closedWith(rule('a'))
  const before = readRules(folder)
  const store = await openStore(folder)
  await commit(store, [key('k')])
  await store.close()
  expect(readRules(folder)).toBe(before)
})

test('edits by hand are moved aside and logged, never lost', async () => {
  const folder = await closedWith(rule('a'))
  const file = join(folder, 'rules.yaml')
  const edits = [
    readRules(folder).replace('1/second', '9/second'),
    'rules: []\n',
    '',
    readRules(folder).replace('version 2', 'version 1'),
  ]
  for (const [index, edited] of edits.entries()) {
    writeFileSync(file, edited)
    const { log, lines } = createMemoryLog()
    const store = await openStore(folder, { log })
    await store.close()
    const kept = `rules.yaml.edited-2${index === 0 ? '' : `-${index + 1}`}`
    expect(readRules(folder, kept)).toBe(edited)
    expect(lines).toMatchObject([{ level: 'warn', kept: join(folder, kept) }])
    expect(lines[0]?.['msg']).toContain('sluice rules apply -f')
    expect(readHead(readRules(folder))).toEqual({ version: 2, isWhole: true })
  }
})

test('an edit while the store is in use is moved aside by the next change', async () => {
  const folder = await closedWith(rule('a'))
  const store = await openStore(folder)
  writeFileSync(join(folder, 'rules.yaml'), 'mine\n')
  await commit(store, [rule('a', 2)])
  await store.close()
  expect(readRules(folder, 'rules.yaml.edited-3')).toBe('mine\n')
  expect(readRules(folder)).toContain('2/second')
})

test('a file that is missing, behind or ahead of the journal is rewritten', async () => {
  const folder = await closedWith(rule('a'))
  const file = join(folder, 'rules.yaml')
  const [second, journal] = [readRules(folder), readFileSync(join(folder, 'journal.jsonl'))]
  rmSync(file)
  writeFileSync(`${file}.new`, 'half of a dra')
  await (await openStore(folder)).close()
  expect(readRules(folder)).toBe(second)
  expect(filesIn(folder)).not.toContain('rules.yaml.new')

  const store = await openStore(folder)
  await commit(store, [rule('a', 2)])
  await store.close()
  const third = readRules(folder)
  writeFileSync(file, second)
  await (await openStore(folder)).close()
  expect(readRules(folder)).toBe(third)

  writeFileSync(join(folder, 'journal.jsonl'), journal)
  await (await openStore(folder)).close()
  expect(readRules(folder)).toBe(second)
  expect(readRules(folder, 'rules.yaml.version-3')).toBe(third)
})

test('changes in quick succession are written together', async () => {
  const folder = makeRulesFolder()
  let renames = 0
  const fs = failingFileSystem((step, path) => {
    if (step === 'rename' && path.endsWith('rules.yaml')) renames++
  })
  const store = await openStore(folder, { fs })
  const since = performance.now()
  for (let base = 1; base <= 50; base++) await commit(store, [rule('a', base)], { base })
  const tookMs = performance.now() - since
  // The longer a file took, the longer the next one waits.
  await vi.waitFor(() => expect(readRules(folder)).toContain('version 51'), { timeout: 50_000 })
  // One for every tenth of a second in which there were changes, the first and the last.
  expect(renames).toBeLessThanOrEqual(tookMs / 100 + 2)
  await store.close()
})

test('a folder that others could read is closed to them', async () => {
  const folder = makeRulesFolder()
  mkdirSync(folder, { mode: 0o755 })
  await openStore(folder)
  const { statSync } = await import('node:fs')
  expect(statSync(folder).mode & 0o777).toBe(0o700)
})
