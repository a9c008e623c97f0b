import { appendFileSync, cpSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { createMemoryLog } from '../../../observability/log/memory-log.test-helper.js'
import {
  type ManualScheduler,
  manualScheduler,
  settle,
  until,
} from '../../../lib/manual-scheduler.test-helper.js'
import { commit, readAll, rule, ruleBody, stateNow } from '../conformance-kit.test-helper.js'
import { DivergedError, type RuleStore, UnavailableError } from '../rule-store.js'
import { realFileSystem } from './fs.js'
import {
  closeStores,
  fileSystemError,
  failingFileSystem,
  filesIn,
  lockOwner,
  makeRulesFolder,
  openStore,
} from './file-store.test-helper.js'

afterEach(closeStores)

/** A disk may be busy with other tests. */
const TRIES_MAX = 10_000
const READ_ONLY = 'rule store: opened read-only; rules are served, changes are refused'

/** A folder with one rule, on a disk that fails writes with `state.code` while it is set. */
async function unwritable(code = 'ENOSPC') {
  const folder = makeRulesFolder()
  const first = await openStore(folder)
  await commit(first, [rule('a')])
  await first.close()
  const state: { code: string | undefined } = { code }
  const fs = failingFileSystem((step, path) => {
    const isToRead = step === 'open' && !path.includes('.new')
    if (state.code !== undefined && !isToRead) throw fileSystemError(state.code)
  })
  const timers = manualScheduler()
  const { log, lines } = createMemoryLog()
  return { folder, state, timers, lines, options: { fs, scheduler: timers, log } }
}

test.each([
  ['ENOSPC', 'the disk is full (ENOSPC)'],
  ['EDQUOT', 'the disk quota is used up (EDQUOT)'],
  ['EROFS', 'the disk is read-only (EROFS)'],
  ['EACCES', 'the process may not write there (EACCES)'],
] as const)(
  'a store whose folder cannot be written because of %s serves reads, and refuses changes with the reason',
  async (code, reason) => {
    const { folder, lines, options } = await unwritable(code)
    const files = filesIn(folder)
    const store = await openStore(folder, options)
    expect((await stateNow(store)).get('rule a')).toEqual(ruleBody('a'))
    expect((await store.history({ limit: 9 })).map(({ version }) => version)).toEqual([2, 1])
    const refused = commit(store, [rule('a', 2)])
    await expect(refused).rejects.toMatchObject({ name: 'UnavailableError', isUncertain: false })
    await expect(refused).rejects.toThrow(reason)
    expect(store.status()).toMatchObject({ isConnected: true, isReadOnly: true })
    expect(store.status().problem).toContain(`${folder}: opened read-only`)
    expect(lines).toMatchObject([{ level: 'warn', msg: READ_ONLY, folder, reason }])
    expect(filesIn(folder)).toEqual(files)
  },
)

/** Advances time until it is: a retry may be running, and the next is scheduled after it. */
async function untilWritable(store: RuleStore, timers: ManualScheduler): Promise<void> {
  for (let tries = 0; tries < TRIES_MAX && store.status().isReadOnly === true; tries++) {
    await timers.advance(15_000)
  }
  expect(store.status().isReadOnly).toBe(false)
}

/** An attempt may find the lock of another store first, so there are several. */
async function untilProblem(store: RuleStore, timers: ManualScheduler, text: string) {
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    if (store.status().problem?.includes(text) === true) return
    await timers.advance(1000)
    await settle()
  }
  expect(store.status().problem).toContain(text)
}

test('a store that was read-only is writable again once its disk is, and logs each change once', async () => {
  const { folder, state, timers, lines, options } = await unwritable()
  const store = await openStore(folder, options)
  let news = 0
  store.onChange(() => void news++)
  for (let tries = 0; tries < 5; tries++) await timers.advance(15_000)
  expect(store.status().isReadOnly).toBe(true)
  state.code = undefined
  await untilWritable(store, timers)
  expect(store.status().problem).toBeUndefined()
  await until(() => news > 0)
  expect((await commit(store, [rule('a', 2)])).version).toBe(3)
  expect(lines.map(({ msg }) => msg)).toEqual([READ_ONLY, 'rule store: writable again'])
  await store.close()
  expect((await readAll(await openStore(folder))).position.version).toBe(3)
})

test('a store that becomes writable continues from what others wrote meanwhile', async () => {
  const { folder, state, timers, options } = await unwritable()
  const store = await openStore(folder, options)
  const { position } = await readAll(store)
  const other = await openStore(folder)
  await commit(other, [rule('b')])
  await untilProblem(store, timers, 'ENOSPC')
  await other.close()
  state.code = undefined
  await untilWritable(store, timers)
  const delta = await readAll(store, position)
  expect(delta.position.version).toBe(3)
  expect((await commit(store, [rule('c')])).version).toBe(4)
  expect([...(await stateNow(store)).keys()]).toEqual(['secret main', 'rule a', 'rule b', 'rule c'])
})

test('a read-only store follows a journal that another process writes, and never takes its lock', async () => {
  const { folder, state, timers, options } = await unwritable('EACCES')
  const store = await openStore(folder, options)
  let news = 0
  store.onChange(() => void news++)
  const other = await openStore(folder)
  await commit(other, [rule('a', 2)])
  state.code = undefined
  await timers.advance(1000)
  await until(() => store.status().problem?.includes('uses it') === true)
  await expect(commit(store, [rule('a', 3)])).rejects.toThrow(UnavailableError)
  await until(() => news > 0)
  expect((await readAll(store)).position.version).toBe(3)
  expect((await commit(other, [rule('a', 3)])).version).toBe(4)
})

test('a read-only store whose journal was replaced by another history is not followed', async () => {
  const { folder, state, timers, options } = await unwritable()
  const store = await openStore(folder, options)
  const { position } = await readAll(store)
  const another = makeRulesFolder()
  const made = await openStore(another)
  await commit(made, [rule('z')])
  await made.close()
  rmSync(folder, { recursive: true })
  mkdirSync(folder, { mode: 0o700 })
  cpSync(another, folder, { recursive: true })
  state.code = undefined
  await untilWritable(store, timers)
  await expect(readAll(store, position)).rejects.toThrow(DivergedError)
})

test('an incomplete last line is neither read nor cut off without the lock', async () => {
  const { folder, state, timers, options } = await unwritable('EROFS')
  const journal = join(folder, 'journal.jsonl')
  const whole = readFileSync(journal)
  appendFileSync(journal, '{"format":1,"vers')
  const torn = readFileSync(journal)
  const store = await openStore(folder, options)
  expect((await readAll(store)).position.version).toBe(2)
  await timers.advance(5000)
  expect(readFileSync(journal)).toEqual(torn)
  state.code = undefined
  await untilWritable(store, timers)
  expect(readFileSync(journal)).toEqual(whole)
})

test('a folder that another live process owns is not opened, even if the disk is full', async () => {
  const { folder, options } = await unwritable()
  await openStore(folder)
  await expect(openStore(folder, options)).rejects.toThrow('uses it')
})

test('an owner that cannot be seen is waited for on a full disk as well', async () => {
  const { folder, options } = await unwritable()
  const other = lockOwner({ place: 'another machine', host: 'node-2', pid: 7 })
  const fs = { ...realFileSystem }
  const elsewhere = { self: other, livenessOf: () => 'unknown' as const }
  await openStore(folder, { fs, processContext: elsewhere })
  let waits = 0
  const wait = async () => void waits++
  const store = await openStore(folder, { ...options, wait })
  expect(waits).toBe(30)
  expect(store.status().isReadOnly).toBe(true)
})

test('a folder that has no journal and cannot be written is refused', async () => {
  const { folder, options } = await unwritable('EROFS')
  rmSync(join(folder, 'journal.jsonl'))
  await expect(openStore(folder, options)).rejects.toThrow(`${folder}: cannot be used: EROFS`)
})

test('a damaged journal is not served read-only either', async () => {
  const { folder, options } = await unwritable()
  const journal = join(folder, 'journal.jsonl')
  const [first = '', ...rest] = readFileSync(journal, 'utf8').split('\n')
  rmSync(journal)
  appendFileSync(journal, [first.replace('sluice', 'slujce'), ...rest].join('\n'))
  await expect(openStore(folder, options)).rejects.toThrow('journal.jsonl, line 1')
})

test('a store that is closed while it waits for its disk stays closed', async () => {
  const { folder, state, timers, options } = await unwritable()
  const store = await openStore(folder, options)
  await store.close()
  state.code = undefined
  await timers.advance(60_000)
  expect(store.status().isConnected).toBe(false)
  await expect(commit(store, [rule('b')], { base: 2 })).rejects.toThrow(UnavailableError)
  expect((await commit(await openStore(folder), [rule('b')])).version).toBe(3)
})
