import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createMemoryLog } from '../../log/memory-log.test-helper.js'
import { HOUR, openTracker, REFUSED, START } from './callers.test-helper.js'
import { HoursFile } from './hours-file.js'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-callers-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** A server's worth of it. */
function open(startMs = START, index?: number) {
  const callers = openTracker(startMs)
  const { log, lines } = createMemoryLog()
  const file = new HoursFile({
    callers: callers.tracker,
    dataDir: join(folder, 'data'),
    log,
    clock: { now: callers.now },
    index,
  })
  return { ...callers, file, lines }
}

const path = (name = 'callers-24h.json') => join(folder, 'data', name)

test('the hours of callers outlive a restart, for the owner alone to read', async () => {
  const before = open()
  before.see(1, REFUSED)
  await before.file.close()
  expect(statSync(path()).mode & 0o777).toBe(0o600)
  expect(readdirSync(join(folder, 'data'))).toEqual(['callers-24h.json'])
  const after = open(START + HOUR)
  after.file.restore()
  expect(after.told(1)).toMatchObject({ hours: 0b10, caller: { user: 'u1' } })
  expect(after.lines).toMatchObject([{ level: 'info', callers: 1 }])
})

test('each of several processes has a file of its own', async () => {
  for (const index of [0, 1, 2]) {
    const { see, file } = open(START, index)
    see(index, REFUSED)
    await file.close()
  }
  expect(readdirSync(join(folder, 'data')).toSorted()).toEqual([
    'callers-24h-1.json',
    'callers-24h-2.json',
    'callers-24h.json',
  ])
  const after = open(START, 2)
  after.file.restore()
  expect(after.told(2)?.hours).toBe(1)
  expect(after.told(1)).toBeUndefined()
})

test('without a file there is nothing to say, and without callers nothing to write', async () => {
  const { file, lines } = open()
  file.restore()
  await file.save()
  await file.close()
  expect(lines).toEqual([])
  expect(readdirSync(folder)).toEqual([])
})

test('when the last caller is forgotten, the file forgets it too', async () => {
  const { see, jump, file } = open()
  see(1, REFUSED)
  await file.save()
  jump(24 * HOUR)
  await file.save()
  expect(readFileSync(path(), 'utf8')).not.toContain('u1')
})

test('a damaged file is warned of, and hours are counted anew', async () => {
  const before = open()
  before.see(1, REFUSED)
  await before.file.close()
  writeFileSync(path(), readFileSync(path(), 'utf8').replace('"format":1', '"format":9'))
  const after = open()
  after.file.restore()
  expect(after.told(1)).toBeUndefined()
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

test('a folder that cannot be written to is warned of once', async () => {
  const { see, file, lines } = open()
  writeFileSync(join(folder, 'data'), 'not a folder')
  see(1, REFUSED)
  await file.save()
  await file.save()
  await file.close()
  expect(lines).toMatchObject([
    { level: 'warn', msg: expect.stringContaining('a restart forgets them') as string },
  ])
})
