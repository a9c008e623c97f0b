import { PassThrough, Writable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { main } from './index.js'
import { processIo } from './io.js'

function streams() {
  return { stdin: new PassThrough(), stdout: new PassThrough(), stderr: new PassThrough() }
}

/** Fails like a pipe whose reader has closed it, or like a full disk. */
function broken(code: string) {
  const written: string[] = []
  const stdout = new Writable({
    write(chunk: Buffer, _encoding, done) {
      written.push(chunk.toString())
      done(Object.assign(new Error(`${code}: write`), { code }))
    },
  })
  return { stdout, written }
}

describe('the output of a command', () => {
  test('goes to the two streams, and is written after a flush', async () => {
    const world = streams()
    const io = processIo(world)
    io.out('a')
    io.err('b')
    await io.flush()
    expect(world.stdout.read()?.toString()).toBe('a')
    expect(world.stderr.read()?.toString()).toBe('b')
  })

  test('is dropped without an error once its reader has closed it', async () => {
    const { stdout, written } = broken('EPIPE')
    const io = processIo({ ...streams(), stdout })
    io.out('first')
    await new Promise((resolve) => void stdout.once('close', resolve))
    io.out('second')
    await io.flush()
    expect(written).toEqual(['first'])
  })

  test('fails the flush if the disk is full', async () => {
    const { stdout } = broken('ENOSPC')
    const io = processIo({ ...streams(), stdout })
    io.out('first')
    await expect(io.flush()).rejects.toThrow('output: ENOSPC: write')
  })

  test.each([
    ['EPIPE', 0, ''],
    ['ENOSPC', 2, 'output: ENOSPC: write\n'],
  ])('fails with %s: any command exits with %i', async (code, exit, said) => {
    const world = { ...streams(), stdout: broken(code).stdout }
    expect(await main(['--help'], processIo(world))).toBe(exit)
    expect(world.stderr.read()?.toString() ?? '').toBe(said)
  })

  test.each(['EPIPE', 'ENOSPC'])('ends a wait early once it fails with %s', async (code) => {
    const io = processIo({ ...streams(), stdout: broken(code).stdout })
    expect(io.isOutputOpen()).toBe(true)
    io.out('first')
    // Longer than any test may take: it returns because the output closes.
    await io.wait(3_600_000)
    expect(io.isOutputOpen()).toBe(false)
  })

  test('attaches to no stream before it is used', () => {
    const world = streams()
    processIo(world)
    expect(world.stdout.listenerCount('error')).toBe(0)
  })
})

describe('the input of a command', () => {
  test('is read from standard input to its end', async () => {
    const world = streams()
    world.stdin.end('rules: []\n')
    expect(await processIo(world).readInput(100)).toBe('rules: []\n')
  })

  test('is limited in size', async () => {
    const world = streams()
    world.stdin.end('x'.repeat(101))
    await expect(processIo(world).readInput(100)).rejects.toThrow('found more than 100 bytes')
  })

  test('is the line that a user typed, or empty if the input ends', async () => {
    const world = streams()
    world.stdin.write('yes\n')
    expect(await processIo(world).prompt('Apply? ')).toBe('yes')
    expect(world.stderr.read()?.toString()).toContain('Apply? ')
    const gone = streams()
    gone.stdin.end()
    expect(await processIo(gone).prompt('Apply? ')).toBe('')
  })
})

test('comes from a user only if both input and questions are on a terminal', () => {
  const world = streams()
  const tty = <T extends object>(stream: T) => Object.assign(stream, { isTTY: true, columns: 90 })
  expect(processIo(world)).toMatchObject({ isTerminal: false, columns: undefined })
  const half = { ...streams(), stdin: tty(new PassThrough()) }
  expect(processIo(half).isTerminal).toBe(false)
  const whole = {
    stdin: tty(new PassThrough()),
    stdout: tty(new PassThrough()),
    stderr: tty(new PassThrough()),
  }
  expect(processIo(whole)).toMatchObject({ isTerminal: true, columns: 90 })
})
