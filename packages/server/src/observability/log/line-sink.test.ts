import { execFileSync } from 'node:child_process'
import {
  closeSync,
  constants,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createLineSink, type LineSink, nonBlocking } from './line-sink.js'

let directory: string
let opened: number[]

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'sluice-log-'))
  opened = []
})

afterEach(() => {
  for (const fd of new Set(opened)) closeSync(fd)
  rmSync(directory, { recursive: true })
})

function open(path: string, flags: number | string): number {
  const fd = openSync(path, flags)
  opened.push(fd)
  return fd
}

/** Both ends of a pipe; the writing one is what a process is given as its standard output. */
function openPipe() {
  const path = join(directory, 'pipe')
  execFileSync('mkfifo', [path])
  const reader = open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  const writer = open(path, constants.O_WRONLY)
  const fd = nonBlocking(writer)
  opened.push(fd)
  return { reader, writer, fd }
}

/** The current content of the pipe. */
function readAvailable(reader: number): string {
  const buffer = Buffer.alloc(256 * 1024)
  let text = ''
  for (;;) {
    try {
      const read = readSync(reader, buffer)
      if (read === 0) return text
      text += buffer.toString('utf8', 0, read)
    } catch {
      return text
    }
  }
}

/** A flush tries for a second, which a busy disk may need. */
async function flushAll(sink: LineSink, path: string, length: number): Promise<void> {
  for (let tries = 0; tries < 20; tries++) {
    await sink.flush()
    if (readFileSync(path, 'utf8').length >= length) return
  }
}

test('lines arrive whole and in order', async () => {
  const path = join(directory, 'file')
  const sink = createLineSink(open(path, 'w'))
  const lines = Array.from({ length: 5000 }, (_, i) => `{"line":${i},"text":"grüße"}\n`)
  for (const line of lines) expect(sink.write(line)).toBe(true)
  await flushAll(sink, path, lines.join('').length)
  expect(readFileSync(path, 'utf8')).toBe(lines.join(''))
  expect(sink.lost()).toBe(0)
})

test('a line longer than a chunk is written', async () => {
  const path = join(directory, 'file')
  const sink = createLineSink(open(path, 'w'))
  const line = `${'a'.repeat(100_000)}\n`
  sink.write('first\n')
  sink.write(line)
  sink.write('last\n')
  await flushAll(sink, path, `first\n${line}last\n`.length)
  expect(readFileSync(path, 'utf8')).toBe(`first\n${line}last\n`)
})

test('a reader that is stuck costs lines, not time and not memory', async () => {
  const { reader, fd } = openPipe()
  const sink = createLineSink(fd)
  const line = (i: number) => `${String(i).padStart(1000, '.')}\n`
  const taken: string[] = []
  for (let i = 0; i < 5000; i++) if (sink.write(line(i))) taken.push(line(i))
  // A pipe holds 64 KiB, the buffer 1 MiB.
  expect(taken.length).toBeGreaterThan(1000)
  expect(taken.length).toBeLessThan(1200)

  let text = ''
  const whole = taken.join('')
  while (text.length < whole.length) {
    await new Promise(setImmediate)
    text += readAvailable(reader)
  }
  expect(text).toBe(whole)
  expect(sink.lost()).toBe(0)
})

test('the sink is busy while more than half of its buffer is full', async () => {
  const { reader, fd } = openPipe()
  const sink = createLineSink(fd)
  const line = `${'.'.repeat(1023)}\n`
  expect(sink.isBusy()).toBe(false)
  // A pipe holds 64 KiB, the buffer 1 MiB.
  for (let i = 0; i < 700; i++) expect(sink.write(line)).toBe(true)
  expect(sink.isBusy()).toBe(true)
  while (sink.isBusy()) {
    await new Promise(setImmediate)
    readAvailable(reader)
  }
  expect(sink.write(line)).toBe(true)
})

test('a flush ends even if the reader does not read', async () => {
  const { fd } = openPipe()
  const sink = createLineSink(fd)
  for (let i = 0; i < 500; i++) sink.write(`${'a'.repeat(999)}\n`)
  await sink.flush()
  sink.flushNow()
  expect(sink.lost()).toBeGreaterThan(400)
})

test('a reader that is gone costs every line, and each is counted', async () => {
  const { reader, fd } = openPipe()
  const sink = createLineSink(fd)
  closeSync(reader)
  opened = opened.filter((one) => one !== reader)
  const taken = ['one\n', 'two\n', 'three\n'].filter((line) => sink.write(line))
  await sink.flush()
  expect(sink.lost()).toBe(taken.length)
  expect(sink.write('four\n')).toBe(false)
})

test('buffered lines are written synchronously when the process ends', () => {
  const path = join(directory, 'file')
  const sink = createLineSink(open(path, 'w'))
  sink.write('one\n')
  sink.write('two\n')
  sink.write('three\n')
  sink.flushNow()
  // A thread is already writing the first line.
  expect(readFileSync(path, 'utf8')).toContain('two\nthree\n')
})

test('only a pipe is reopened', () => {
  const fd = open(join(directory, 'file'), 'w')
  expect(nonBlocking(fd)).toBe(fd)
  const { writer, fd: again } = openPipe()
  if (process.platform === 'linux') expect(again).not.toBe(writer)
})
