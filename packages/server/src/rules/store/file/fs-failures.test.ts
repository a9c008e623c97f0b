import {
  appendFileSync,
  copyFileSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { createMemoryLog } from '../../../observability/log/memory-log.test-helper.js'
import { commit, key, readAll, rule, ruleBody, stateNow } from '../conformance-kit.test-helper.js'
import { realFileSystem } from './fs.js'
import { ConflictError, UnavailableError } from '../rule-store.js'
import {
  closeStores,
  fileSystemError,
  failingFileSystem,
  filesIn,
  makeRulesFolder,
  openStore,
  readRules,
} from './file-store.test-helper.js'

afterEach(closeStores)

/** A store whose journal fails at the steps in `failing`, after half of a write. */
async function failingStore() {
  const folder = makeRulesFolder()
  const failing = new Map<string, string>()
  const fs = failingFileSystem((step, path, bytes) => {
    const code = failing.get(step)
    if (code === undefined || !path.endsWith('journal.jsonl')) return
    if (bytes !== undefined) appendFileSync(path, bytes.subarray(0, bytes.length / 2))
    throw fileSystemError(code)
  })
  const store = await openStore(folder, { fs })
  await commit(store, [rule('a')])
  return { folder, store, failing, journal: join(folder, 'journal.jsonl') }
}

test.each([
  ['write', 'ENOSPC', 'the disk is full'],
  ['write', 'EIO', 'the disk failed'],
  ['datasync', 'EIO', 'the disk failed'],
] as const)(
  'a commit whose %s fails with %s is not made, and the next one is',
  async (step, code, why) => {
    const { folder, store, failing, journal } = await failingStore()
    const before = readFileSync(journal)
    failing.set(step, code)
    for (let tries = 0; tries < 3; tries++) {
      const refused = commit(store, [rule('a', 2)], { base: 2 })
      await expect(refused).rejects.toMatchObject({ name: 'UnavailableError', isUncertain: false })
      await expect(refused).rejects.toThrow(why)
      expect(readFileSync(journal)).toEqual(before)
      expect(store.status().problem).toContain(why)
    }
    expect((await readAll(store)).position.version).toBe(2)
    failing.clear()
    await commit(store, [rule('a', 3)], { base: 2 })
    expect(store.status().problem).toBeUndefined()
    await store.close()
    const again = await openStore(folder)
    expect((await readAll(again)).position.version).toBe(3)
    expect((await stateNow(again)).get('rule a')).toEqual(ruleBody('a', 3))
  },
)

test('after an uncertain write, nothing is appended until the file is repaired', async () => {
  const { folder, store, failing } = await failingStore()
  failing.set('datasync', 'EIO').set('truncate', 'EIO')
  const uncertain = commit(store, [rule('a', 2)], { base: 2 })
  await expect(uncertain).rejects.toMatchObject({ name: 'UnavailableError', isUncertain: true })
  failing.delete('datasync')
  const refused = commit(store, [rule('b')], { base: 2 })
  await expect(refused).rejects.toMatchObject({ name: 'UnavailableError', isUncertain: false })
  failing.clear()
  await commit(store, [rule('c')], { base: 2 })
  await store.close()
  const state = await stateNow(await openStore(folder))
  expect([...state.keys()].toSorted()).toEqual(['rule a', 'rule c', 'secret main'])
  expect(state.get('rule a')).toEqual(ruleBody('a'))
})

test('a process that ends after an uncertain write leaves the old version or the new one', async () => {
  const { folder, store, failing } = await failingStore()
  failing.set('datasync', 'EIO').set('truncate', 'EIO')
  await expect(commit(store, [rule('a', 2)], { base: 2 })).rejects.toThrow(UnavailableError)
  await store.close()
  const again = await openStore(folder)
  const { version } = (await readAll(again)).position
  expect((await stateNow(again)).get('rule a')).toEqual(ruleBody('a', version - 1))
})

test('commits that build on each other are synced together, in their order', async () => {
  const folder = makeRulesFolder()
  let syncs = 0
  const fs = failingFileSystem((step, path) => {
    if (step === 'datasync' && path.endsWith('journal.jsonl')) syncs++
  })
  const store = await openStore(folder, { fs })
  const order: number[] = []
  const bases = Array.from({ length: 200 }, (_, index) => index + 1)
  await Promise.all(
    bases.map(async (base) => {
      const { version } = await commit(store, [rule('a', base), key(`k${base}`)], { base })
      order.push(version)
    }),
  )
  expect(order).toEqual(bases.map((base) => base + 1))
  expect(syncs).toBe(1)
  const [newest] = await store.history({ limit: 1 })
  expect(newest?.changes[0]).toMatchObject({
    before: ruleBody('a', 199),
    after: ruleBody('a', 200),
  })
  await store.close()
  expect((await readAll(await openStore(folder))).position.version).toBe(201)
})

test('a conflict with a commit that failed is not reported as a conflict', async () => {
  const { store, failing } = await failingStore()
  failing.set('datasync', 'EIO')
  const settled = await Promise.allSettled([
    commit(store, [rule('b')], { base: 2 }),
    commit(store, [rule('c')], { base: 2 }),
    commit(store, [rule('d')], { base: 3 }),
  ])
  for (const one of settled) expect(one).toMatchObject({ reason: { name: 'UnavailableError' } })
  failing.clear()
  const [won, lost] = await Promise.allSettled([
    commit(store, [rule('b')], { base: 2 }),
    commit(store, [rule('c')], { base: 2 }),
  ])
  expect(won.status).toBe('fulfilled')
  expect(lost).toMatchObject({ reason: new ConflictError(3) })
})

test('a commit that cannot be stored does not fail the others of its batch', async () => {
  const { store } = await failingStore()
  const settled = await Promise.allSettled([
    commit(store, [rule('b')], { base: 2 }),
    commit(store, [], { base: 3 }),
    commit(store, [rule('c')], { base: 3 }),
  ])
  expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  expect((await readAll(store)).position.version).toBe(4)
})

test('a journal that was removed or replaced takes no more commits', async () => {
  for (const harm of [
    (journal: string) => rmSync(journal),
    (journal: string) => {
      copyFileSync(journal, `${journal}.copy`)
      renameSync(`${journal}.copy`, journal)
    },
  ]) {
    const { folder, store, journal } = await failingStore()
    harm(journal)
    const refused = commit(store, [rule('a', 2)], { base: 2 })
    await expect(refused).rejects.toMatchObject({ name: 'UnavailableError', isUncertain: false })
    await expect(refused).rejects.toThrow(`${journal}: the file was removed or replaced`)
    expect((await readAll(store)).position.version).toBe(2)
    expect(filesIn(folder)).toContain('lock.1')
  }
})

test('a folder that cannot be used is reported with what is accepted', async () => {
  const folder = makeRulesFolder()
  for (const code of ['EROFS', 'EACCES', 'ENOSPC']) {
    const fs = failingFileSystem((step, path) => {
      if (step === 'write' && path.includes('lock.')) throw fileSystemError(code)
    })
    const refused = openStore(folder, { fs })
    await expect(refused).rejects.toThrow(`${folder}: cannot be used: ${code}`)
    await expect(refused).rejects.toThrow('SLUICE_DATA_DIR')
  }
  const file = makeRulesFolder()
  writeFileSync(file, 'no folder')
  await expect(openStore(file)).rejects.toThrow('may write to')
})

test('a folder that is open to others and cannot be closed is used, with a warning', async () => {
  const folder = makeRulesFolder()
  mkdirSync(folder, { mode: 0o750 })
  const { log, lines } = createMemoryLog()
  const fs = { ...realFileSystem, chmod: () => Promise.reject(fileSystemError('EPERM')) }
  const store = await openStore(folder, { fs, log })
  expect((await commit(store, [rule('a')])).version).toBe(2)
  expect(lines).toMatchObject([{ level: 'warn', folder }])
})

test('a commit succeeds even if rules.yaml cannot be written', async () => {
  const folder = makeRulesFolder()
  let isFull = true
  const fs = failingFileSystem((step, path) => {
    if (isFull && step === 'write' && path.includes('rules.yaml')) throw fileSystemError('ENOSPC')
  })
  const { log, lines } = createMemoryLog()
  const store = await openStore(folder, { fs, log })
  expect(lines).toMatchObject([{ level: 'warn', error: 'the disk is full (ENOSPC)' }])
  await commit(store, [rule('a')])
  isFull = false
  await store.close()
  expect(readRules(folder)).toContain('as of version 2')
  expect(filesIn(folder).filter((name) => name.endsWith('.new'))).toEqual([])
})

test('an edited rules.yaml is moved aside once, however often writing the next one fails', async () => {
  const folder = makeRulesFolder()
  await (await openStore(folder)).close()
  appendFileSync(join(folder, 'rules.yaml'), '# by hand\n')
  const fs = failingFileSystem((step, path) => {
    if (step === 'write' && path.includes('rules.yaml')) throw fileSystemError('ENOSPC')
  })
  for (let tries = 0; tries < 3; tries++) await (await openStore(folder, { fs })).close()
  expect(filesIn(folder).filter((name) => name.includes('edited'))).toHaveLength(1)
})

test('a closed store takes no commits, and closes only once', async () => {
  const { store } = await failingStore()
  const last = commit(store, [rule('b')], { base: 2 })
  await Promise.all([store.close(), store.close()])
  expect((await last).version).toBe(3)
  await expect(commit(store, [rule('c')], { base: 3 })).rejects.toThrow(UnavailableError)
  await expect(store.history({ limit: 1 })).rejects.toThrow(UnavailableError)
  expect(store.status().isConnected).toBe(false)
})
