import { expect } from 'vitest'

/** A machine may be busy: nothing is about how long it takes. */
const WAIT_MS_MAX = 60_000

/** An expectation of what becomes true sooner or later. */
export const eventually = <T>(read: () => T, intervalMs = 20) =>
  expect.poll(read, { timeout: WAIT_MS_MAX, interval: intervalMs })
