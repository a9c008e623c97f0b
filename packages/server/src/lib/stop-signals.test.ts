import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, expect, test } from 'vitest'
import { StopSignals } from './stop-signals.js'

/** Neither Node nor the test runner uses this signal. */
const SIGNAL = 'SIGUSR2'

let signals: StopSignals | undefined
afterEach(() => signals?.close())

test('a signal that arrives before its handler is replaced reaches the new handler', async () => {
  const handled: string[] = []
  signals = new StopSignals((name) => handled.push(`first ${name}`), [SIGNAL])
  process.kill(process.pid, SIGNAL)
  signals.handleBy((name) => handled.push(`second ${name}`))
  while (handled.length === 0) await nextTurn()
  expect(handled).toEqual([`second ${SIGNAL}`])
})

test('closed signals have no listener', () => {
  const before = process.listenerCount(SIGNAL)
  signals = new StopSignals(() => {}, [SIGNAL])
  expect(process.listenerCount(SIGNAL)).toBe(before + 1)
  signals.close()
  expect(process.listenerCount(SIGNAL)).toBe(before)
})
