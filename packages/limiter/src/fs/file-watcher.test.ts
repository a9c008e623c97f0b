import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type FileWatcher, type WatchOptions, watchFile } from './file-watcher.js'

/** So rarely that only events of the directory can report a change. */
const NEVER_MS = 10 * 60_000
const OFTEN_MS = 20
/** The same value as in the module. */
const SETTLE_MS = 50

let directory: string
let file: string
let opened: FileWatcher[]

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'sluice-watch-'))
  file = join(directory, 'rules.yaml')
  opened = []
})

afterEach(() => {
  for (const watched of opened) watched.close()
  rmSync(directory, { recursive: true, force: true })
})

/** The reported contents, in order; `next` waits for the next one. */
function follow(path: string, options: Partial<WatchOptions> = {}) {
  const texts: string[] = []
  const waiting: ((text: string) => void)[] = []
  let taken = 0
  const tell = (text: string) => {
    texts.push(text)
    waiting.shift()?.(text)
  }
  const watched = watchFile(path, tell, {
    onError: (error) => tell(`error: ${error.message}`),
    pollMs: NEVER_MS,
    ...options,
  })
  opened.push(watched)
  const next = () => {
    const text = texts[taken++]
    if (text !== undefined) return Promise.resolve(text)
    return new Promise<string>((resolve) => waiting.push(resolve))
  }
  return { watched, texts, next }
}

test('the first content is reported if the owner has none', async () => {
  writeFileSync(file, 'one')
  expect(await follow(file).next()).toBe('one')
})

test('content that the owner has read already is not reported', async () => {
  writeFileSync(file, 'one')
  const { watched, texts, next } = follow(file, { known: 'one' })
  await watched.check()
  expect(texts).toEqual([])
  writeFileSync(file, 'two')
  expect(await next()).toBe('two')
})

test('a change between the read of the owner and the start of the watch is reported', async () => {
  writeFileSync(file, 'two')
  expect(await follow(file, { known: 'one' }).next()).toBe('two')
})

test.each([
  ['written in place', () => writeFileSync(file, 'two')],
  [
    'moved over the old file',
    () => {
      writeFileSync(`${file}.new`, 'two')
      renameSync(`${file}.new`, file)
    },
  ],
  [
    'deleted and made again',
    () => {
      rmSync(file)
      writeFileSync(file, 'two')
    },
  ],
])('an event reports a file that was %s', async (_, change) => {
  writeFileSync(file, 'one')
  const { watched, next } = follow(file, { known: 'one' })
  await watched.check()
  change()
  expect(await next()).toBe('two')
})

test('a symbolic link that is switched is a change, as Kubernetes swaps its volumes', async () => {
  for (const [version, text] of [
    ['..v1', 'one'],
    ['..v2', 'two'],
  ] as const) {
    mkdirSync(join(directory, version))
    writeFileSync(join(directory, version, 'rules.yaml'), text)
  }
  symlinkSync('..v1', join(directory, '..data'))
  symlinkSync('..data/rules.yaml', file)
  const { next } = follow(file)
  expect(await next()).toBe('one')
  symlinkSync('..v2', join(directory, '..data_tmp'))
  renameSync(join(directory, '..data_tmp'), join(directory, '..data'))
  expect(await next()).toBe('two')
})

test('a change without an event is found by polling', async () => {
  const elsewhere = join(directory, 'elsewhere')
  mkdirSync(elsewhere)
  const link = join(directory, 'link.yaml')
  const target = join(elsewhere, 'target.yaml')
  writeFileSync(target, 'one')
  symlinkSync(target, link)
  const { next } = follow(link, { pollMs: OFTEN_MS })
  expect(await next()).toBe('one')
  // The directory of the link does not change.
  writeFileSync(target, 'two')
  expect(await next()).toBe('two')
})

test('a change that keeps size and times is found by one more read', async () => {
  const elsewhere = join(directory, 'elsewhere')
  mkdirSync(elsewhere)
  const target = join(elsewhere, 'target.yaml')
  writeFileSync(target, 'one')
  symlinkSync(target, file)
  const { next, watched } = follow(file)
  expect(await next()).toBe('one')
  await watched.check()
  const { atime, mtime } = statSync(target)
  writeFileSync(target, 'two')
  utimesSync(target, atime, mtime)
  await watched.check()
  expect(await next()).toBe('two')
})

test('a file that is touched but unchanged is not reported', async () => {
  writeFileSync(file, 'one')
  const { watched, texts, next } = follow(file)
  expect(await next()).toBe('one')
  writeFileSync(file, 'one')
  utimesSync(file, 1, 1)
  await watched.check()
  await watched.check()
  expect(texts).toEqual(['one'])
})

test('a file that is being written is reported when it is whole', async () => {
  writeFileSync(file, 'one')
  const { watched, texts } = follow(file, { known: 'one' })
  await watched.check()
  writeFileSync(file, 'half')
  const checking = watched.check()
  let [last, longestMs] = [performance.now(), 0]
  for (let i = 0; i < 4; i++) {
    await new Promise(setImmediate)
    appendFileSync(file, ' and more')
    longestMs = Math.max(longestMs, performance.now() - last)
    last = performance.now()
  }
  await checking
  await watched.check()
  expect(texts.at(-1)).toBe('half and more and more and more and more')
  // Unless this process was suspended for as long as a file must be unchanged to count as whole.
  expect(texts.length - 1).toBeLessThanOrEqual(Math.floor(longestMs / SETTLE_MS))
})

test('a missing file is reported once, and so is its return', async () => {
  writeFileSync(file, 'one')
  const { watched, texts, next } = follow(file, { pollMs: OFTEN_MS })
  expect(await next()).toBe('one')
  rmSync(file)
  expect(await next()).toBe(`error: ${file}: there is no such file`)
  for (let i = 0; i < 5; i++) await watched.check()
  expect(texts).toHaveLength(2)
  writeFileSync(file, 'one')
  expect(await next()).toBe('one')
  for (let i = 0; i < 5; i++) await watched.check()
  expect(texts).toHaveLength(3)
})

test('a directory that is removed and created again is followed', async () => {
  const inner = join(directory, 'inner')
  const path = join(inner, 'rules.yaml')
  mkdirSync(inner)
  writeFileSync(path, 'one')
  const { next } = follow(path, { pollMs: OFTEN_MS })
  expect(await next()).toBe('one')
  rmSync(inner, { recursive: true })
  expect(await next()).toContain('there is no such file')
  mkdirSync(inner)
  writeFileSync(path, 'two')
  expect(await next()).toBe('two')
})

test('a file that never existed is an error, and is reported when it appears', async () => {
  const { next } = follow(file, { pollMs: OFTEN_MS })
  expect(await next()).toContain('there is no such file')
  writeFileSync(file, 'one')
  expect(await next()).toBe('one')
})

test('a file that is too large, or not a file, is refused and named', async () => {
  writeFileSync(file, 'one')
  const { watched, next } = follow(file)
  expect(await next()).toBe('one')
  truncateSync(file, 16 * 1024 * 1024 + 1)
  expect(await next()).toBe(`error: ${file}: found more than 16 MiB; accepted: up to that`)
  truncateSync(file, 0)
  writeFileSync(file, 'two')
  await watched.check()
  expect(await next()).toBe('two')

  expect(await follow(directory).next()).toContain('accepted: a file')
  const pipe = join(directory, 'pipe')
  execFileSync('mkfifo', [pipe])
  expect(await follow(pipe).next()).toContain('accepted: a file')
})

test('a file of exactly 16 MiB is read', async () => {
  writeFileSync(file, '')
  truncateSync(file, 16 * 1024 * 1024)
  expect(await follow(file).next()).toHaveLength(16 * 1024 * 1024)
})

test('an error thrown by the owner is reported to onError, and the next change is reported', async () => {
  writeFileSync(file, 'one')
  const errors: string[] = []
  const heard: string[] = []
  const watched = watchFile(
    file,
    (text) => {
      heard.push(text)
      throw new Error('cannot take it')
    },
    { onError: ({ message }) => errors.push(message), pollMs: NEVER_MS },
  )
  opened.push(watched)
  await watched.check()
  expect(errors).toEqual(['cannot take it'])
  writeFileSync(file, 'two')
  await watched.check()
  expect(heard).toEqual(['one', 'two'])
})

test('nothing is reported after close', async () => {
  writeFileSync(file, 'one')
  const { watched, texts, next } = follow(file)
  expect(await next()).toBe('one')
  writeFileSync(file, 'two')
  const checking = watched.check()
  watched.close()
  await checking
  writeFileSync(file, 'three')
  await watched.check()
  expect(texts).toEqual(['one'])
})

test('concurrent polls are one', async () => {
  writeFileSync(file, 'one')
  const { watched } = follow(file, { known: 'one' })
  const first = watched.check()
  expect(watched.check()).toBe(first)
  expect(watched.check()).toBe(first)
  await first
})
