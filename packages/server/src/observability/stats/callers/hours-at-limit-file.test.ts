import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createMemoryLog } from '../../log/memory-log.test-helper.js'
import { CLEAR, HASHED, SEALED } from '../name-protection.test-helper.js'
import { TextSealer } from '../sealed-text.js'
import { HOUR, openTracker, REFUSED, START } from './caller-tracker.test-helper.js'
import { HoursFile, type HoursFileDeps } from './hours-at-limit-file.js'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-callers-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

type Options = Partial<Pick<HoursFileDeps, 'index' | 'processes' | 'names'>>

/** The tracker and file of one server process. */
function open(startMs = START, { index, processes, names = SEALED }: Options = {}) {
  const callers = openTracker(startMs)
  const { log, lines } = createMemoryLog()
  const file = new HoursFile({
    callers: callers.tracker,
    dataDir: join(folder, 'data'),
    log,
    clock: { now: callers.now },
    names,
    index,
    processes,
  })
  return { ...callers, file, lines }
}

const path = (name = 'callers-24h.json') => join(folder, 'data', name)

test('the hours of callers survive a restart in a file that only its owner can read', async () => {
  const before = open()
  before.see(1, REFUSED)
  await before.file.close()
  expect(statSync(path()).mode & 0o777).toBe(0o600)
  expect(readdirSync(join(folder, 'data'))).toEqual(['callers-24h.json'])
  const after = open(START + HOUR)
  after.file.restore()
  expect(after.snapshotOf(1)).toMatchObject({ hours: 0b10, caller: { user: 'u1' } })
  expect(after.lines).toMatchObject([{ level: 'info', callers: 1 }])
})

test('each of several processes has its own file', async () => {
  for (const index of [0, 1, 2]) {
    const { see, file } = open(START, { index })
    see(index, REFUSED)
    await file.close()
  }
  expect(readdirSync(join(folder, 'data')).toSorted()).toEqual([
    'callers-24h-1.json',
    'callers-24h-2.json',
    'callers-24h.json',
  ])
  const after = open(START, { index: 2 })
  after.file.restore()
  expect(after.snapshotOf(2)?.hours).toBe(1)
  expect(after.snapshotOf(1)).toBeUndefined()
})

test('a missing file is not logged, and without callers no file is written', async () => {
  const { file, lines } = open()
  file.restore()
  await file.save()
  await file.close()
  expect(lines).toEqual([])
  expect(readdirSync(folder)).toEqual([])
})

test('the file is emptied when the last caller is forgotten', async () => {
  const { see, jump, file } = open()
  see(1, REFUSED)
  await file.save()
  jump(24 * HOUR)
  await file.save()
  expect(readFileSync(path(), 'utf8')).toContain('"rules":[]')
})

test('a damaged file is logged, and hours are counted from 0', async () => {
  const before = open()
  before.see(1, REFUSED)
  await before.file.close()
  writeFileSync(path(), readFileSync(path(), 'utf8').replace('"format":1', '"format":9'))
  const after = open()
  after.file.restore()
  expect(after.snapshotOf(1)).toBeUndefined()
  expect(after.lines).toMatchObject([
    { level: 'warn', error: expect.stringContaining('format: found 9') as string },
  ])
})

test('the file is written only when something changed', async () => {
  const { see, file } = open()
  see(1, REFUSED)
  await file.save()
  const { ino } = statSync(path())
  await file.save()
  expect(statSync(path()).ino).toBe(ino)
  see(2, REFUSED)
  await file.save()
  expect(statSync(path()).ino).not.toBe(ino)
})

test('a folder that cannot be written to is logged once', async () => {
  const { see, file, lines } = open()
  writeFileSync(join(folder, 'data'), 'not a folder')
  see(1, REFUSED)
  await file.save()
  await file.save()
  await file.close()
  expect(lines).toMatchObject([
    { level: 'warn', msg: expect.stringContaining('a restart will lose them') as string },
  ])
})

/** A file in the format of the previous release. */
function leave(name: string, text = CLEAR_TEXT): void {
  mkdirSync(join(folder, 'data'), { recursive: true })
  writeFileSync(path(name), text)
}

const ROW = ['00112233aabbccdd', 1, START, 'gold', 'alice']
const CLEAR_TEXT = `${JSON.stringify({
  format: 1,
  hour: START / HOUR,
  rules: [{ rule: 'per-user', by: ['user'], callers: [ROW] }],
})}\n`

/** Everything in the data directory, as one text. */
function dataText(): string {
  const data = join(folder, 'data')
  return readdirSync(data)
    .map((name) => `${name}\n${readFileSync(join(data, name), 'utf8')}`)
    .join('\n')
}

test.each([SEALED, HASHED])(
  'with names stored as $form the file has no name in it',
  async (names) => {
    const { see, file } = open(START, { names })
    see(1, { ...REFUSED, attributes: { user: 'alice', plan: 'gold' } })
    await file.close()
    expect(dataText()).toContain('"per-user"')
    expect(dataText()).not.toMatch(/alice|gold/)
  },
)

test('hours stored without names survive a restart, and get a name when the caller calls again', async () => {
  const before = open(START, { names: HASHED })
  before.see(1, REFUSED)
  await before.file.close()
  const after = open(START + HOUR, { names: HASHED })
  after.file.restore()
  expect(after.snapshotOf(1)).toMatchObject({ hours: 0b10, caller: {}, plan: null })
  after.see(1, REFUSED)
  expect(after.snapshotOf(1)).toMatchObject({ hours: 0b11, caller: { user: 'u1' }, plan: 'free' })
})

test('hours survive names that cannot be decrypted, as after a new key secret', async () => {
  const before = open()
  before.see(1, REFUSED)
  await before.file.close()
  const sealer = new TextSealer(Buffer.alloc(16, 'another'))
  const after = open(START, { names: { form: 'sealed', sealer } })
  after.file.restore()
  expect(after.snapshotOf(1)).toMatchObject({ hours: 1, caller: {} })
})

test.each([SEALED, HASHED])(
  'a file of the previous release is read, and has no name once it is saved as $form',
  async (names) => {
    leave('callers-24h.json')
    const { tracker, file, lines } = open(START, { names })
    file.restore()
    expect(lines).toMatchObject([{ level: 'info', callers: 1 }])
    expect(tracker.view(20, START)).toMatchObject([
      { caller: { user: 'alice' }, plan: 'gold', hours: 1 },
    ])
    file.start()
    await file.close()
    expect(dataText()).toContain('00112233aabbccdd')
    expect(dataText()).not.toMatch(/alice|gold/)
  },
)

test('drafts of a crash and files of processes that no longer exist are removed', () => {
  for (const name of ['callers-24h.json.new', 'callers-24h-1.json', 'callers-24h-2.json']) {
    leave(name)
  }
  leave('callers-24h-2.json.new', 'alice')
  leave('counters.snapshot', 'stays')
  open(START, { processes: 2 }).file.restore()
  expect(readdirSync(join(folder, 'data')).toSorted()).toEqual([
    'callers-24h-1.json',
    'counters.snapshot',
  ])
})

test('a damaged file, which may contain names, is replaced at the first save', async () => {
  leave('callers-24h.json', CLEAR_TEXT.slice(0, -3))
  const { file } = open()
  file.restore()
  file.start()
  await file.close()
  expect(dataText()).not.toContain('alice')
})

test('names in clear are stored in the format of the previous release', async () => {
  leave('callers-24h.json')
  const { file } = open(START, { names: CLEAR })
  file.restore()
  await file.close()
  expect(readFileSync(path(), 'utf8')).toBe(CLEAR_TEXT)
})
