import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { watchNpmShell } from './npm-shell.js'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }))
afterEach(() => void vi.useRealTimers())

test('the end of the shell of npm is reported once, and not before', () => {
  const shellId = 4_711
  let parent = shellId
  const onEnd = vi.fn()
  watchNpmShell({ shellId, parentId: () => parent, onEnd })
  vi.advanceTimersByTime(60_000)
  expect(onEnd).not.toHaveBeenCalled()
  parent = 1
  vi.advanceTimersByTime(250)
  expect(onEnd).toHaveBeenCalledTimes(1)
  vi.advanceTimersByTime(60_000)
  expect(onEnd).toHaveBeenCalledTimes(1)
  expect(vi.getTimerCount()).toBe(0)
})

test('the end of the shell of npm is not reported to a process that is stopping', () => {
  const onEnd = vi.fn()
  const stop = watchNpmShell({ shellId: 4_711, parentId: () => 1, onEnd })
  stop()
  vi.advanceTimersByTime(60_000)
  expect(onEnd).not.toHaveBeenCalled()
})
