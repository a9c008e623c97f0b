import { fileURLToPath } from 'node:url'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { makeFolder, startProgram, stopAll, waitFor } from './process.test-helper.js'

const SOON = { timeout: 20_000, interval: 50 }
const FIXTURE = fileURLToPath(new URL('./workers.fixture.mjs', import.meta.url))

afterEach(stopAll)

/** One connection per call, or one worker would get them all. */
const requestWorker = async (url: string, withinMs = 10_000) =>
  (
    await fetch(url, {
      headers: { connection: 'close' },
      signal: AbortSignal.timeout(withinMs),
    })
  ).text()

test('workers share a listener, add up their metrics, are replaced when they die, and stop together', async () => {
  const program = startProgram(process.execPath, [FIXTURE], { cwd: makeFolder() })
  await waitFor(program, () => program.output().includes('port'))
  const url = `http://127.0.0.1:${/port (\d+)/.exec(program.output())?.[1]}`
  const seen = new Set<string>()
  let calls = 0
  const expectWorkers = async (count: number) => {
    for (let i = 0; i < 10 && seen.size < count; i++, calls++) seen.add(await requestWorker(url))
    expect(seen.size).toBe(count)
  }
  await vi.waitFor(() => expectWorkers(2), SOON)
  // A worker that does not send its metrics within a second is left out.
  await vi.waitFor(
    async () => expect(await requestWorker(`${url}/metrics`)).toContain(`calls_total ${calls}\n`),
    SOON,
  )
  expect(program.output().match(/port/g)).toHaveLength(1)

  const [first] = seen
  process.kill(Number(first), 'SIGKILL')
  await waitFor(program, () => program.output().includes('worker exited SIGKILL'))
  await vi.waitFor(() => expectWorkers(3), SOON)

  program.signal('SIGTERM')
  expect(await program.code()).toBe(0)
})

describe('the addresses of workers', () => {
  /** The first worker serves, the second is held back before it listens. */
  async function startHeld() {
    const program = startProgram(process.execPath, [FIXTURE, '--held'], { cwd: makeFolder() })
    const pidOf = (word: string) => Number(new RegExp(`${word} (\\d+)`).exec(program.output())?.[1])
    await waitFor(program, () => pidOf('serving') > 0 && pidOf('held') > 0)
    return { program, serving: pidOf('serving'), held: pidOf('held') }
  }
  const urlOf = (output: string) => `http://127.0.0.1:${/port (\d+)/.exec(output)?.[1]}`

  test('are printed when all of them serve, so that they are valid when one dies', async () => {
    const { program, serving, held } = await startHeld()
    expect(program.output()).not.toContain('port')
    process.kill(held, 'SIGUSR2')
    await waitFor(program, () => program.output().includes('port'))
    process.kill(serving, 'SIGKILL')
    await waitFor(program, () => program.output().includes('worker exited SIGKILL'))
    expect(await requestWorker(urlOf(program.output()))).toBe(String(held))
    program.signal('SIGTERM')
    expect(await program.code()).toBe(0)
  })

  test('are printed even if one dies before it serves', async () => {
    const { program, serving, held } = await startHeld()
    process.kill(held, 'SIGKILL')
    await waitFor(program, () => program.output().includes('port'))
    expect(await requestWorker(urlOf(program.output()))).toBe(String(serving))
    program.signal('SIGTERM')
    expect(await program.code()).toBe(0)
  })
})

test('a worker that dies while metrics are collected stops no other process', async () => {
  const program = startProgram(process.execPath, [FIXTURE], { cwd: makeFolder() })
  await waitFor(program, () => program.output().includes('port'))
  const url = `http://127.0.0.1:${/port (\d+)/.exec(program.output())?.[1]}`
  const seen = new Set<string>()
  const look = async () => {
    for (let i = 0; i < 10 && seen.size < 2; i++) seen.add(await requestWorker(url))
    expect(seen.size).toBe(2)
  }
  await vi.waitFor(look, SOON)
  const [asking, silent] = [...seen].map(Number)
  if (asking === undefined || silent === undefined) throw new Error('found no two workers')
  process.kill(silent, 'SIGSTOP')
  try {
    // Requests to the other worker wait a second for the silent one.
    const asked = Array.from({ length: 4 }, () =>
      requestWorker(`${url}/metrics`, 3000).catch(() => ''),
    )
    await waitFor(program, () => program.output().includes(`asked ${asking}`))
    process.kill(asking, 'SIGKILL')
    await waitFor(program, () => program.output().includes('worker exited SIGKILL'))
    const before = seen.size
    await vi.waitFor(
      async () => {
        seen.add(await requestWorker(url, 2000))
        expect(seen.size).toBeGreaterThan(before)
      },
      { timeout: 40_000, interval: 300 },
    )
    await Promise.all(asked)
  } finally {
    process.kill(silent, 'SIGCONT')
  }
  program.signal('SIGTERM')
  expect(await program.code()).toBe(0)
})

test('workers whose channels close only after they have exited are not waited for', async () => {
  const program = startProgram(process.execPath, [FIXTURE, '--heir'], { cwd: makeFolder() })
  await waitFor(program, () => program.output().includes('port'))
  program.signal('SIGTERM')
  expect(await program.code()).toBe(0)
})

describe('a hung worker', () => {
  async function startTwo(...args: readonly string[]) {
    const program = startProgram(process.execPath, [FIXTURE, ...args], { cwd: makeFolder() })
    await waitFor(program, () => program.output().includes('port'))
    const url = `http://127.0.0.1:${/port (\d+)/.exec(program.output())?.[1]}`
    const seen = new Set<string>()
    await vi.waitFor(async () => {
      seen.add(await requestWorker(url))
      expect(seen.size).toBe(2)
    }, SOON)
    return { program, url, seen }
  }

  test('stopped by a signal is killed and replaced, and its calls are answered by others', async () => {
    const { program, url, seen } = await startTwo('--patience=3')
    const [stopped = ''] = seen
    process.kill(Number(stopped), 'SIGSTOP')
    // Connections are distributed in turn: one of these goes to the worker that accepts none.
    const answers = await Promise.all(Array.from({ length: 6 }, () => requestWorker(url, 60_000)))
    expect(program.output()).toContain(`worker hung: no heartbeat; killed ${stopped}`)
    expect(answers).toHaveLength(6)
    expect(answers).not.toContain(stopped)
    await waitFor(program, () => program.output().includes('worker exited SIGKILL'))
    await waitFor(program, () => program.output().includes('replaced hung'))
    await vi.waitFor(async () => {
      seen.add(await requestWorker(url))
      expect(seen.size).toBe(3)
    }, SOON)
    program.signal('SIGTERM')
    expect(await program.code()).toBe(0)
  })

  test('in an endless loop is killed and replaced', async () => {
    const { program, url, seen } = await startTwo('--patience=3')
    // The worker has read this call, so no other worker may answer it.
    await expect(requestWorker(`${url}/loop`, 60_000)).rejects.toThrow('fetch failed')
    expect(program.output()).toContain('worker hung')
    await vi.waitFor(async () => {
      seen.add(await requestWorker(url))
      expect(seen.size).toBe(3)
    }, SOON)
    program.signal('SIGTERM')
    expect(await program.code()).toBe(0)
  })

  test('is not killed if the primary process was paused too, as when a machine is suspended', async () => {
    const { program, url, seen } = await startTwo('--patience=6')
    const pids = [...seen].map(Number)
    program.signal('SIGSTOP')
    for (const pid of pids) process.kill(pid, 'SIGSTOP')
    // More heartbeats than a worker may miss, which neither side counts.
    await sleep(8000)
    // The primary process resumes before its workers, and has not received heartbeats for long.
    program.signal('SIGCONT')
    for (const pid of pids) process.kill(pid, 'SIGCONT')
    const again = new Set<string>()
    await vi.waitFor(async () => {
      again.add(await requestWorker(url))
      expect(again).toEqual(seen)
    }, SOON)
    expect(program.output()).not.toContain('worker hung')
    program.signal('SIGTERM')
    expect(await program.code()).toBe(0)
  })
})
