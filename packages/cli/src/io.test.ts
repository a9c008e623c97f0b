import { PassThrough, Writable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { main } from './index.js'
import { processIo } from './io.js'

function streams() {
  return { stdin: new PassThrough(), stdout: new PassThrough(), stderr: new PassThrough() }
}

/** Fails as a pipe does whose reader has gone, or as a disk that is full. */
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

describe('what a command writes', () => {
  test('goes to the two outputs, and is there after a flush', async () => {
    const world = streams()
    const io = processIo(world)
    io.out('a')
    io.err('b')
    await io.flush()
    expect(world.stdout.read()?.toString()).toBe('a')
    expect(world.stderr.read()?.toString()).toBe('b')
  })

  test('to a reader that has gone is no failure, and what follows is said to nobody', async () => {
    const { stdout, written } = broken('EPIPE')
    const io = processIo({ ...streams(), stdout })
    io.out('first')
    await new Promise((resolve) => void stdout.once('close', resolve))
    io.out('second')
    await io.flush()
    expect(written).toEqual(['first'])
  })

  test('to a full disk is told at the end', async () => {
    const { stdout } = broken('ENOSPC')
    const io = processIo({ ...streams(), stdout })
    io.out('first')
    await expect(io.flush()).rejects.toThrow('output: ENOSPC: write')
  })

  test.each([
    ['EPIPE', 0, ''],
    ['ENOSPC', 2, 'output: ENOSPC: write\n'],
  ])('an output that fails with %s ends any command with %i', async (code, exit, said) => {
    const world = { ...streams(), stdout: broken(code).stdout }
    expect(await main(['--help'], processIo(world))).toBe(exit)
    expect(world.stderr.read()?.toString() ?? '').toBe(said)
  })

  test.each(['EPIPE', 'ENOSPC'])(
    'a wait ends early once the output fails with %s',
    async (code) => {
      const io = processIo({ ...streams(), stdout: broken(code).stdout })
      expect(io.isOutputOpen()).toBe(true)
      io.out('first')
      // Longer than any test may take: it returns because the output closes.
      await io.wait(3_600_000)
      expect(io.isOutputOpen()).toBe(false)
    },
  )

  test('listens to no stream before it is used', () => {
    const world = streams()
    processIo(world)
    expect(world.stdout.listenerCount('error')).toBe(0)
  })
})

describe('what a command reads', () => {
  test('is standard input to its end', async () => {
    const world = streams()
    world.stdin.end('rules: []\n')
    expect(await processIo(world).readInput(100)).toBe('rules: []\n')
  })

  test('has a bound', async () => {
    const world = streams()
    world.stdin.end('x'.repeat(101))
    await expect(processIo(world).readInput(100)).rejects.toThrow('found more than 100 bytes')
  })

  test('is the line of a person, or nothing where nobody answers', async () => {
    const world = streams()
    world.stdin.write('yes\n')
    expect(await processIo(world).prompt('Apply? ')).toBe('yes')
    expect(world.stderr.read()?.toString()).toContain('Apply? ')
    const gone = streams()
    gone.stdin.end()
    expect(await processIo(gone).prompt('Apply? ')).toBe('')
  })
})

test('a person is there only where both input and questions are a terminal', () => {
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
