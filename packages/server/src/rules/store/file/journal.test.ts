import { createHash } from 'node:crypto'
import { appendFileSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { createMemoryLog } from '../../../observability/log/memory-log.test-helper.js'
import { commit, key, numbered, readAll, rule, ruleBody } from '../conformance-kit.test-helper.js'
import { closeStores, filesIn, makeRulesFolder, openStore } from './file-store.test-helper.js'
import { decodeLine, encodeLine } from './journal-line.js'

afterEach(closeStores)

/** A closed store with three versions of its own. */
async function threeVersions() {
  const folder = makeRulesFolder()
  const store = await openStore(folder)
  for (let base = 1; base <= 3; base++) await commit(store, [rule('a', base)], { base })
  await store.close()
  const file = join(folder, 'journal.jsonl')
  return { folder, file, lines: readFileSync(file, 'utf8').trimEnd().split('\n') }
}

const versionIn = async (folder: string) =>
  (await readAll(await openStore(folder))).position.version

test('the journal has a line of JSON for each version, readable only by its owner', async () => {
  const { folder, file, lines } = await threeVersions()
  expect(lines.map((line) => (JSON.parse(line) as { version: number }).version)).toEqual([
    1, 2, 3, 4,
  ])
  expect(statSync(folder).mode & 0o777).toBe(0o700)
  for (const name of filesIn(folder)) expect(statSync(join(folder, name)).mode & 0o777).toBe(0o600)
  expect(statSync(file).size).toBeGreaterThan(0)
})

test('an incomplete last line is cut off and kept in a file, wherever it ends', async () => {
  const { folder, file } = await threeVersions()
  const whole = readFileSync(file)
  const lastStart = whole.lastIndexOf('\n', whole.length - 2) + 1
  for (let length = lastStart; length < whole.length; length += 41) {
    writeFileSync(file, whole.subarray(0, length))
    const { log, lines } = createMemoryLog()
    const store = await openStore(folder, { log })
    expect((await readAll(store)).position.version).toBe(3)
    expect((await commit(store, [rule('a', 9)], { base: 3 })).version).toBe(4)
    await store.close()
    if (length === lastStart) continue
    expect(readFileSync(`${file}.torn`)).toEqual(whole.subarray(lastStart, length))
    expect(lines[0]).toMatchObject({ level: 'warn', line: 4, version: 3, kept: `${file}.torn` })
  }
})

test('zeros that a file system appended to the last line are cut off', async () => {
  const { folder, file, lines } = await threeVersions()
  appendFileSync(file, Buffer.alloc(5000))
  expect(await versionIn(folder)).toBe(4)
  expect(readFileSync(file, 'utf8')).toBe(`${lines.join('\n')}\n`)
  expect(filesIn(folder)).not.toContain('journal.jsonl.torn')
})

test('damage before the last line is reported with its place, and nothing is changed', async () => {
  const { folder, file, lines } = await threeVersions()
  const damaged = [
    { index: 0, line: lines[0]?.replace('"by":"sluice"', '"by":"mallet"') ?? '' },
    { index: 1, line: '' },
    { index: 2, line: lines[2]?.slice(0, -20) ?? '' },
    { index: 2, line: lines[1] ?? '' },
  ]
  for (const { index, line } of damaged) {
    const text = `${lines.with(index, line).join('\n')}\n`
    writeFileSync(file, text)
    await expect(openStore(folder)).rejects.toThrow(
      new RegExp(`journal.jsonl, line ${index + 1}: .*backup`, 's'),
    )
    expect(readFileSync(file, 'utf8')).toBe(text)
  }
  writeFileSync(file, `${lines.toSpliced(1, 1).join('\n')}\n`)
  await expect(openStore(folder)).rejects.toThrow('line 2: found version 3 after version 1')
})

test('a journal without a complete first line is reported as damaged, not opened as a new store', async () => {
  const { folder, file } = await threeVersions()
  for (const text of ['', 'x', '\0'.repeat(100), '{}\n']) {
    writeFileSync(file, text)
    await expect(openStore(folder)).rejects.toThrow(/journal.jsonl, line 1/)
  }
})

test('lines of one batch that reached the disk in another order are cut off together', async () => {
  const { folder, file, lines } = await threeVersions()
  const decoded = lines.map((line) => decodeLine(Buffer.from(line)))
  const together = decoded.slice(2).map((line) => {
    if (typeof line === 'string') throw new Error(line)
    return encodeLine({ ...line, batch: 3 }).toString()
  })
  const second = lines.slice(0, 2).join('\n')
  writeFileSync(file, `${second}\n${together[0]?.replace('second', '\0\0\0\0\0\0')}${together[1]}`)
  expect(await versionIn(folder)).toBe(2)
  expect(readFileSync(file, 'utf8')).toBe(`${second}\n`)
})

test('a line of a process that had lost the lock is ignored and does no harm', async () => {
  const { folder, file, lines } = await threeVersions()
  const again = await openStore(folder)
  await commit(again, [rule('b')], { base: 4 })
  await again.close()
  const stale = decodeLine(Buffer.from(lines[3] ?? ''))
  if (typeof stale === 'string') throw new Error(stale)
  appendFileSync(file, encodeLine(stale))
  const { log, lines: logged } = createMemoryLog()
  const store = await openStore(folder, { log })
  await commit(store, [rule('c')], { base: 5 })
  expect(logged).toMatchObject([{ level: 'warn', line: 6, version: 4 }])
  const history = await store.history({ limit: 10 })
  expect(history.map(({ version }) => version)).toEqual([6, 5, 4, 3, 2, 1])
  await store.close()
  expect((await readAll(await openStore(folder))).position.version).toBe(6)
})

test('a journal that a newer release has written to is not modified', async () => {
  const { folder, file, lines } = await threeVersions()
  const newer = (line: string) => {
    const text = line.replace('"format":1', '"format":2').replace(/,"sum".*$/, '')
    const sum = createHash('sha256').update(text).digest('hex').slice(0, 32)
    return `${text},"sum":"${sum}"}`
  }
  for (const from of [0, 2, 3]) {
    const text = `${lines.map((line, index) => (index < from ? line : newer(line))).join('\n')}\n`
    writeFileSync(file, text)
    await expect(openStore(folder)).rejects.toThrow(
      `line ${from + 1}: its format is 2, and this Sluice writes 1`,
    )
    expect(readFileSync(file, 'utf8')).toBe(text)
  }
})

test('decodeLine describes what is wrong with any line', () => {
  for (const text of ['', '{}', ',"sum":""}', 'x'.repeat(42), '\xff'.repeat(50)]) {
    expect(decodeLine(Buffer.from(text, 'latin1'))).toMatch(/checksum/)
  }
})

test('the history reads versions from the journal, also large ones', async () => {
  const store = await openStore(makeRulesFolder())
  await commit(store, [rule('a')])
  for (let index = 0; index < 5; index++) {
    const ids = numbered(`k${index}`, 3000)
    await commit(
      store,
      ids.map((id) => key(id)),
    )
  }
  await commit(store, [rule('a', 2)])
  const past = await store.history({ rule: 'a', limit: 10 })
  expect(past.map(({ changes }) => changes[0]?.after)).toEqual([ruleBody('a', 2), ruleBody('a')])
})

test('a journal damaged while it is in use makes the store unavailable', async () => {
  const folder = makeRulesFolder()
  const store = await openStore(folder)
  await commit(store, [rule('a')])
  const file = join(folder, 'journal.jsonl')
  const text = readFileSync(file, 'utf8')
  writeFileSync(file, text.replace('1/second', '9/second'))
  await expect(store.history({ limit: 5 })).rejects.toMatchObject({ name: 'UnavailableError' })
  appendFileSync(file, 'somebody was here\n')
  const refused = commit(store, [rule('b')], { base: 2 })
  await expect(refused).rejects.toThrow(/another process writes to it/)
  writeFileSync(file, text)
  expect((await commit(store, [rule('b')], { base: 2 })).version).toBe(3)
})
