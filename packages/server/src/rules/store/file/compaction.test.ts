import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { createMemoryLog } from '../../../observability/log/memory-log.test-helper.js'
import { until } from '../../../lib/manual-scheduler.test-helper.js'
import {
  collect,
  commit,
  key,
  noRule,
  override,
  readAll,
  rule,
  ruleBody,
  stateNow,
} from '../conformance-kit.test-helper.js'
import { DivergedError, type RuleStore } from '../rule-store.js'
import type { FileStoreOptions } from './file-store.js'
import {
  closeStores,
  fileSystemError,
  failingFileSystem,
  filesIn,
  makeRulesFolder,
  openStore,
} from './file-store.test-helper.js'
import { encodeBase } from './journal-line.js'

afterEach(closeStores)

const KEEP = 100
const SOON: Partial<FileStoreOptions> = { history: { versions: KEEP }, garbageBytesMin: 1 }

async function makeVersions(store: RuleStore, count: number): Promise<void> {
  const { version } = (await readAll(store)).position
  await Promise.all(
    Array.from({ length: count }, (_, index) =>
      commit(store, [rule('a', index + 1)], { base: version + index }),
    ),
  )
}

const sizeOf = (folder: string) => statSync(join(folder, 'journal.jsonl')).size
const keptSince = (store: RuleStore) => store.status().keptSince

test('a journal with more versions than are kept is compacted when it is opened, and takes commits', async () => {
  const folder = makeRulesFolder()
  const first = await openStore(folder)
  await commit(first, [key('k1'), override('b', 'u1'), rule('b'), rule('gone')])
  await commit(first, [noRule('gone')])
  await makeVersions(first, 500)
  const state = await stateNow(first)
  const { position } = await readAll(first)
  await first.close()
  const before = sizeOf(folder)
  const { log, lines } = createMemoryLog()
  const store = await openStore(folder, { ...SOON, log })
  await until(() => lines.length > 0)
  expect(keptSince(store)).toBe(503 - KEEP)
  expect(sizeOf(folder)).toBeLessThan(before / 3)
  expect(lines).toMatchObject([{ level: 'info', msg: 'rule store: journal compacted', before }])
  expect(filesIn(folder)).toEqual(['journal.jsonl', 'lock.2', 'rules.yaml'])
  expect(await readAll(store, position)).toMatchObject({ records: [], position })
  expect((await commit(store, [rule('c')])).version).toBe(504)
  await store.close()
  const again = await openStore(folder, { history: SOON.history })
  expect(await stateNow(again)).toEqual(new Map([...state, ['rule c', ruleBody('c')]]))
  expect(keptSince(again)).toBe(503 - KEEP)
})

test('records keep the version of their last change, and the position is unchanged', async () => {
  const folder = makeRulesFolder()
  const first = await openStore(folder)
  await commit(first, [key('k1'), rule('b')])
  await makeVersions(first, 300)
  const whole = await readAll(first)
  await first.close()
  const store = await openStore(folder, SOON)
  await until(() => keptSince(store) !== undefined)
  await store.close()
  const again = await readAll(await openStore(folder))
  expect(again.position).toEqual(whole.position)
  const sorted = ({ records }: typeof whole) =>
    records.toSorted((a, b) => (`${a.kind} ${a.id}` < `${b.kind} ${b.id}` ? -1 : 1))
  expect(sorted(again)).toEqual(sorted(whole))
})

test('kept versions are listed and can be rolled back to, and an older one is refused with the oldest kept', async () => {
  const folder = makeRulesFolder()
  const store = await openStore(folder, SOON)
  await makeVersions(store, 450)
  await until(() => keptSince(store) !== undefined)
  const oldest = keptSince(store) ?? 0
  const versions = await store.history({ limit: 1000 })
  expect(versions.at(-1)?.version).toBe(oldest + 1)
  expect(versions).toHaveLength(451 - oldest)
  expect(await store.history({ limit: 9, before: oldest + 1 })).toEqual([])
  const changes = await collect(store.changesAfter(oldest))
  expect(changes.at(-1)).toMatchObject({ before: ruleBody('a', oldest - 1) })
  expect(await collect(store.changesAfter(oldest, 'a'))).toHaveLength(451 - oldest)
  const refused = collect(store.changesAfter(oldest - 1))
  await expect(refused).rejects.toThrow(RangeError)
  await expect(refused).rejects.toThrow(`versions are kept since ${oldest}`)
})

test('a read of the history that began before a compaction ends as if there had been none', async () => {
  const folder = makeRulesFolder()
  const store = await openStore(folder, SOON)
  await makeVersions(store, 150)
  const reading = store.changesAfter(1)[Symbol.asyncIterator]()
  const seen = [(await reading.next()).value]
  await makeVersions(store, 300)
  await until(() => keptSince(store) !== undefined)
  for (let next = await reading.next(); next.done !== true; next = await reading.next()) {
    seen.push(next.value)
  }
  expect(seen).toHaveLength(150)
})

test('commits during a compaction are all made, in their order', async () => {
  const folder = makeRulesFolder()
  const first = await openStore(folder)
  await makeVersions(first, 2000)
  await first.close()
  const store = await openStore(folder, SOON)
  let base = 2001
  while (keptSince(store) === undefined) {
    expect((await commit(store, [rule('b', base)], { base })).version).toBe(++base)
  }
  await commit(store, [rule('b', base)], { base })
  await store.close()
  const again = await openStore(folder)
  expect((await readAll(again)).position.version).toBe(base + 1)
  expect((await stateNow(again)).get('rule b')).toEqual(ruleBody('b', base))
})

test('a follower at a version whose line is gone still gets the changes, and one of another history does not', async () => {
  const folder = makeRulesFolder()
  const store = await openStore(folder, SOON)
  await makeVersions(store, 10)
  const { position } = await readAll(store)
  await makeVersions(store, 400)
  await until(() => keptSince(store) !== undefined)
  expect(keptSince(store)).toBeGreaterThan(position.version)
  expect((await readAll(store, position)).records).toMatchObject([{ id: 'a' }])
  const other = { ...position, mark: '0'.repeat(12) }
  await expect(readAll(store, other)).rejects.toThrow(DivergedError)
  await store.close()
  // After a restart its history is unknown: it is not followed.
  const again = await openStore(folder, SOON)
  await expect(readAll(again, position)).rejects.toThrow(DivergedError)
})

test('a lineage adopted before the oldest kept version still counts as adopted', async () => {
  const folder = makeRulesFolder()
  const store = await openStore(folder, SOON)
  const { position } = await readAll(store)
  await store.adopt(20, 'ada', undefined)
  await makeVersions(store, 400)
  await until(() => keptSince(store) !== undefined)
  await store.close()
  const again = await openStore(folder)
  expect((await readAll(again, position)).isWhole).toBe(true)
})

test('versions older than the age are dropped, except the newest hundred', async () => {
  const folder = makeRulesFolder()
  let nowMs = Date.UTC(2026, 0, 1)
  const clock = { now: () => nowMs }
  const first = await openStore(folder, { clock })
  await makeVersions(first, 400)
  nowMs += 40 * 86_400_000
  await makeVersions(first, 20)
  await first.close()
  const history = { versions: 10_000, ageMs: 30 * 86_400_000 }
  const store = await openStore(folder, { clock, history, garbageBytesMin: 1 })
  await until(() => keptSince(store) !== undefined)
  expect(keptSince(store)).toBe(421 - 100)
})

test('a journal that would shrink little is left unchanged', async () => {
  const folder = makeRulesFolder()
  const first = await openStore(folder)
  await makeVersions(first, 150)
  await first.close()
  const before = readFileSync(join(folder, 'journal.jsonl'))
  const store = await openStore(folder, SOON)
  await store.history({ limit: 1 })
  await store.close()
  expect(readFileSync(join(folder, 'journal.jsonl'))).toEqual(before)
})

test.each(['open', 'write', 'sync', 'rename'])(
  'a compaction whose %s fails leaves the journal unchanged, and the store takes commits',
  async (failing) => {
    const folder = makeRulesFolder()
    const first = await openStore(folder)
    await makeVersions(first, 400)
    await first.close()
    const before = readFileSync(join(folder, 'journal.jsonl'))
    const { log, lines } = createMemoryLog()
    const fs = failingFileSystem((step, path) => {
      const isDraft = path.includes('jsonl.new-') || (step === 'rename' && path.endsWith('.jsonl'))
      if (isDraft && step === failing) throw fileSystemError('ENOSPC')
    })
    const store = await openStore(folder, { ...SOON, fs, log })
    await until(() => lines.length > 0)
    expect(lines).toMatchObject([{ level: 'warn', error: 'the disk is full (ENOSPC)' }])
    expect(readFileSync(join(folder, 'journal.jsonl'))).toEqual(before)
    expect(filesIn(folder)).toEqual(['journal.jsonl', 'lock.2', 'rules.yaml'])
    expect((await commit(store, [rule('b')])).version).toBe(402)
  },
)

test('a process suspended during a compaction cannot replace the journal of the next one', async () => {
  const folder = makeRulesFolder()
  const first = await openStore(folder)
  await makeVersions(first, 400)
  await first.close()
  let resume = () => {}
  const paused = new Promise<void>((resolve) => (resume = resolve))
  let isAtRename = false
  const fs = failingFileSystem(async (step, path) => {
    if (step !== 'rename' || !path.endsWith('journal.jsonl')) return
    isAtRename = true
    await paused
  })
  const { log, lines } = createMemoryLog()
  await openStore(folder, { ...SOON, fs, log })
  await until(() => isAtRename)
  // Its lock shows that it died long ago.
  const lock = join(folder, 'lock.2')
  const dead = { ...JSON.parse(readFileSync(lock, 'utf8')), pid: 2 ** 22 + 1 }
  writeFileSync(lock, JSON.stringify(dead))
  const next = await openStore(folder)
  await commit(next, [rule('b')])
  resume()
  await until(() => lines.length > 0)
  expect(lines[0]?.msg).toContain('journal compaction failed')
  expect((await commit(next, [rule('b', 2)])).version).toBe(403)
})

test('a base of several lines is read as one, and a base that lacks a line is reported as damaged', async () => {
  const folder = makeRulesFolder()
  const first = await openStore(folder)
  const keys = Array.from({ length: 50 }, (_, index) => key(`k${index}`))
  await commit(first, keys)
  const { records, position } = await readAll(first)
  await first.close()
  const head = { ...position, at: 'then', lineageStart: 1, isAdopted: false, holder: 1 }
  const pieces: Buffer[] = []
  for await (const piece of encodeBase(head, records, 1000)) pieces.push(piece)
  const file = join(folder, 'journal.jsonl')
  const text = Buffer.concat(pieces).toString()
  const lines = text.trimEnd().split('\n')
  expect(lines.length).toBeGreaterThan(3)
  // The previous release refuses such a line, and names the release that can read it.
  for (const line of lines) expect(line).toContain('"format":2')
  writeFileSync(file, text)
  const store = await openStore(folder)
  expect(await readAll(store)).toMatchObject({ records, position })
  expect((await commit(store, [rule('a')])).version).toBe(position.version + 1)
  await store.close()
  const [one = '', , ...rest] = readFileSync(file, 'utf8').split('\n')
  writeFileSync(file, [one, ...rest].join('\n'))
  await expect(openStore(folder)).rejects.toThrow('journal.jsonl, line 2: found part 3 of a base')
})

test('lines of a base are bounded in bytes, whatever characters are stored', async () => {
  const head = {
    version: 2,
    mark: '0'.repeat(12),
    lineage: 'l',
    at: '2026-01-01T00:00:00.000Z',
    lineageStart: 1,
    isAdopted: false,
    holder: 1,
  }
  const body = { ...ruleBody('a'), description: '\u4e00'.repeat(1000) }
  const records = Array.from({ length: 3000 }, (_, index) => {
    return { kind: 'rule', id: `r${index}`, body, version: 2 } as const
  })
  const pieces: Buffer[] = []
  for await (const piece of encodeBase(head, records, 1024 * 1024)) pieces.push(piece)
  const lines = Buffer.concat(pieces).toString().trimEnd().split('\n')
  for (const line of lines) expect(Buffer.byteLength(line)).toBeLessThan(2 * 1024 * 1024)
})
