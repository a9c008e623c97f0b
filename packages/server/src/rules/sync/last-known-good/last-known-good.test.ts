import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createMemoryLog } from '../../../observability/log/memory-log.test-helper.js'
import { type FileSystem, realFileSystem } from '../../store/file/fs.js'
import type { StoredRecord } from '../../store/records.js'
import { CHUNK_RECORDS_MAX } from '../../store/rule-store.js'
import { NO_LAST_GOOD_VERSIONS } from '../active-rules.js'
import { openLastKnownGood } from './last-known-good.js'

let dataDir: string
let file: string
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'sluice-last-good-'))
  file = join(dataDir, 'last-good', 'records.jsonl')
})
afterEach(() => rmSync(dataDir, { recursive: true }))

const at = (version: number) => ({ version, mark: `m${version}`, lineage: 'l' })
const key = (id: string, version: number): StoredRecord => ({
  kind: 'key',
  id,
  version,
  body: { hash: id, state: 'active', createdAt: '', user: `ü${version}` },
})
const gone = (id: string, version: number) =>
  ({ kind: 'key', id, version, body: null }) as StoredRecord

function openCopy(options: { fs?: FileSystem; isKeeper?: boolean } = {}) {
  const memory = createMemoryLog()
  const { fs, isKeeper = true } = options
  return Object.assign(memory, {
    copy: openLastKnownGood({ dataDir, log: memory.log, isKeeper, fs }),
  })
}

type Opened = ReturnType<typeof openCopy>

async function write({ copy }: Opened, isWhole: boolean, version: number, records: StoredRecord[]) {
  const update = copy.begin(isWhole)
  await update.add(records)
  update.complete()
  copy.save(at(version), NO_LAST_GOOD_VERSIONS)
  await copy.flush()
}

/** The version and records that a starting node reads; later records replace earlier ones. */
async function load({ copy }: Opened) {
  const records = new Map<string, StoredRecord>()
  let version: number | undefined
  let isFirst = true
  for await (const chunk of copy.read()) {
    expect(chunk.isWhole).toBe(isFirst)
    expect(chunk.records.length).toBeLessThanOrEqual(CHUNK_RECORDS_MAX)
    isFirst = false
    for (const record of chunk.records) {
      if (record.body === null) records.delete(record.id)
      else records.set(record.id, record)
    }
    version = chunk.position?.version
  }
  return version === undefined ? undefined : { version, records: [...records.values()] }
}

test('the copy returns everything that was saved, and the changes since', async () => {
  const opened = openCopy()
  expect(await load(opened)).toBeUndefined()
  await write(opened, true, 1, [key('a', 1), key('b', 1)])
  await write(opened, false, 2, [gone('a', 2), key('c', 2)])
  await write(opened, false, 3, [key('b', 3)])
  const again = openCopy()
  expect(await load(again)).toEqual({ version: 3, records: [key('b', 3), key('c', 2)] })
  await write(again, false, 4, [key('d', 4)])
  expect((await load(openCopy()))?.version).toBe(4)
  await write(again, true, 5, [key('e', 5)])
  expect(await load(openCopy())).toEqual({ version: 5, records: [key('e', 5)] })
  expect(again.lines).toEqual([])
})

test('only the owner can read the copy', async () => {
  await write(openCopy(), true, 1, [key('a', 1)])
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect(statSync(join(dataDir, 'last-good')).mode & 0o777).toBe(0o700)
})

test('the copy has nothing of a read that failed or is not active yet', async () => {
  const opened = openCopy()
  await write(opened, true, 1, [key('a', 1)])
  const failed = opened.copy.begin(true)
  await failed.add([key('b', 2)])
  failed.discard()
  const refused = opened.copy.begin(false)
  await refused.add([key('c', 2)])
  refused.complete()
  await opened.copy.flush()
  expect(await load(openCopy())).toEqual({ version: 1, records: [key('a', 1)] })
  // The next active read is saved together with it.
  await write(opened, false, 3, [key('d', 3)])
  const records = [key('a', 1), key('c', 2), key('d', 3)]
  expect(await load(openCopy())).toEqual({ version: 3, records })
})

test('a whole read that was not active is saved together with the changes that repair it', async () => {
  const opened = openCopy()
  await write(opened, true, 1, [key('a', 1)])
  const refused = opened.copy.begin(true)
  await refused.add([key('b', 2)])
  refused.complete()
  expect((await load(openCopy()))?.version).toBe(1)
  await write(opened, false, 3, [key('c', 3)])
  expect(await load(openCopy())).toEqual({ version: 3, records: [key('b', 2), key('c', 3)] })
  expect(readdirSync(join(dataDir, 'last-good'))).toEqual(['records.jsonl'])
})

describe('an interrupted write', () => {
  test('a file cut off at any byte holds the last complete version', async () => {
    const opened = openCopy()
    const ends: number[] = []
    await write(opened, true, 1, [key('a', 1), key('b', 1)])
    ends.push(statSync(file).size)
    for (const version of [2, 3]) {
      await write(opened, false, version, [key('a', version), key(`n${version}`, version)])
      ends.push(statSync(file).size)
    }
    const whole = readFileSync(file)
    for (let length = whole.length; length >= 0; length--) {
      writeFileSync(file, whole.subarray(0, length))
      const cut = openCopy()
      const version = ends.filter((end) => end <= length).length
      expect((await load(cut))?.version).toBe(version === 0 ? undefined : version)
      expect(cut.lines.map((line) => line['level'])).toEqual(version === 0 ? ['error'] : [])
      if (version === 0 || length % 41 !== 0) continue
      // The next write follows that version, not the incomplete rest.
      await write(cut, false, 9, [key('z', 9)])
      expect((await load(openCopy()))?.version).toBe(9)
    }
  })

  test('drafts of an interrupted process are removed by the next writer', async () => {
    mkdirSync(join(dataDir, 'last-good'))
    writeFileSync(`${file}.abcdef`, 'half')
    const opened = openCopy()
    expect(await load(opened)).toBeUndefined()
    await write(opened, true, 1, [key('a', 1)])
    expect(existsSync(`${file}.abcdef`)).toBe(false)
  })
})

test('a damaged byte never yields another set: the file is ignored, or an older version is used', async () => {
  const opened = openCopy()
  await write(opened, true, 1, [key('a', 1)])
  await write(opened, false, 2, [key('a', 2)])
  const whole = readFileSync(file)
  const known = [undefined, 1, 2]
  for (let place = 0; place < whole.length; place++) {
    const damaged = Buffer.from(whole)
    damaged[place] = (damaged[place] ?? 0) ^ 0x11
    writeFileSync(file, damaged)
    const found = openCopy()
    const loaded = await load(found)
    expect(known).toContain(loaded?.version)
    expect(loaded?.version).not.toBe(2)
    if (loaded !== undefined) expect(loaded.records).toEqual([key('a', loaded.version)])
    else expect(found.lines).toMatchObject([{ level: 'error', problem: expect.any(String) }])
  }
})

test('the file is compacted when its changes outgrow the first batch', async () => {
  const opened = openCopy()
  const many = Array.from({ length: 5000 }, (_, i) => key(`k${i}`, 1))
  await write(opened, true, 1, many)
  const { size } = statSync(file)
  for (let version = 2; version < 8; version++) {
    await write(opened, false, version, [...many.map(({ id }) => key(id, version)), gone('k7', 2)])
    expect(statSync(file).size).toBeLessThan(3.1 * size + 1024 * 1024)
  }
  expect(statSync(file).size).toBeLessThan(3.1 * size)
  await write(opened, false, 9, [key('new', 9)])
  const loaded = await load(openCopy())
  expect(loaded?.version).toBe(9)
  expect(loaded?.records).toHaveLength(5000)
  expect(new Set(loaded?.records.map(({ version }) => version))).toEqual(new Set([7, 9]))
})

test('only one worker writes the copy, and all can read it', async () => {
  await write(openCopy(), true, 1, [key('a', 1)])
  const other = openCopy({ isKeeper: false })
  expect((await load(other))?.version).toBe(1)
  await write(other, false, 2, [key('b', 2)])
  expect((await load(openCopy()))?.version).toBe(1)
})

test('a second process that writes to the same file is detected and not overwritten', async () => {
  const opened = openCopy()
  await write(opened, true, 1, [key('a', 1)])
  appendFileSync(file, 'other')
  await write(opened, false, 2, [key('b', 2)])
  expect(opened.lines).toMatchObject([{ level: 'warn', problem: 'another process writes to it' }])
  expect(readFileSync(file, 'utf8')).toMatch(/other$/)
})

describe('a failing disk', () => {
  const full = Object.assign(new Error('no space'), { code: 'ENOSPC' })

  test('a full disk affects only the copy, and changes are written when there is space again', async () => {
    let isFull = false
    const fs: FileSystem = {
      ...realFileSystem,
      open: (path, flags, mode) =>
        isFull ? Promise.reject(full) : realFileSystem.open(path, flags, mode),
    }
    const opened = openCopy({ fs })
    await write(opened, true, 1, [key('a', 1)])
    isFull = true
    await write(opened, false, 2, [key('b', 2)])
    await write(opened, false, 3, [key('c', 3)])
    expect(opened.lines[0]).toMatchObject({ level: 'warn', problem: 'the disk is full (ENOSPC)' })
    expect((await load(openCopy()))?.version).toBe(1)
    isFull = false
    await write(opened, false, 4, [])
    const records = [key('a', 1), key('b', 2), key('c', 3)]
    expect(await load(openCopy())).toEqual({ version: 4, records })
  })

  test('a failure during a whole write keeps the older copy, and nothing is appended to it', async () => {
    let isFull = false
    const fs: FileSystem = {
      ...realFileSystem,
      rename: (from, to) => (isFull ? Promise.reject(full) : realFileSystem.rename(from, to)),
    }
    const opened = openCopy({ fs })
    await write(opened, true, 1, [key('a', 1)])
    isFull = true
    await write(opened, true, 2, [key('b', 2)])
    isFull = false
    await write(opened, false, 3, [key('c', 3)])
    expect(await load(openCopy())).toEqual({ version: 1, records: [key('a', 1)] })
    await write(opened, true, 4, [key('d', 4)])
    expect(await load(openCopy())).toEqual({ version: 4, records: [key('d', 4)] })
  })
})

test('an empty or foreign file is logged and ignored', async () => {
  mkdirSync(join(dataDir, 'last-good'))
  for (const text of ['', 'hello\n', '{"sluice":"last good rules","format":2}\n']) {
    writeFileSync(file, text)
    const opened = openCopy()
    expect(await load(opened)).toBeUndefined()
    expect(opened.lines).toMatchObject([{ level: 'error' }])
  }
  truncateSync(file, 0)
})
