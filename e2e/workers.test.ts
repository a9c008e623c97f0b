import { fileURLToPath } from 'node:url'
import { afterEach, expect, test, vi } from 'vitest'
import { makeFolder, startProgram, stopAll, waitFor } from './process.test-helper.js'

const FIXTURE = fileURLToPath(new URL('./workers.fixture.mjs', import.meta.url))

afterEach(stopAll)

/** A connection for each call, or one worker would get them all. */
const ask = async (url: string) => (await fetch(url, { headers: { connection: 'close' } })).text()

test('workers share a listener, add up their metrics, are replaced when they die, and stop together', async () => {
  const program = startProgram(process.execPath, [FIXTURE], { cwd: makeFolder() })
  await waitFor(program, () => program.output().includes('port'))
  const url = `http://127.0.0.1:${/port (\d+)/.exec(program.output())?.[1]}`
  const seen = new Set<string>()
  let calls = 0
  const expectWorkers = async (count: number) => {
    for (let i = 0; i < 10 && seen.size < count; i++, calls++) seen.add(await ask(url))
    expect(seen.size).toBe(count)
  }
  await vi.waitFor(() => expectWorkers(2), { timeout: 10_000 })
  expect(await ask(`${url}/metrics`)).toContain(`calls_total ${calls}\n`)
  expect(program.output().match(/port/g)).toHaveLength(1)

  const [first] = seen
  process.kill(Number(first), 'SIGKILL')
  await waitFor(program, () => program.output().includes('a worker died SIGKILL'))
  await vi.waitFor(() => expectWorkers(3), { timeout: 20_000 })

  program.signal('SIGTERM')
  expect(await program.code()).toBe(0)
})
