import { expect, test } from 'vitest'
import { Closers } from './closers.js'

/** A closer that waits until it is released. */
function heldCloser() {
  let release: () => void = () => {}
  const released = new Promise<void>((resolve) => (release = resolve))
  return { release, close: () => released }
}

test('the last opened is closed first, and each only once', async () => {
  const closed: string[] = []
  const closers = new Closers()
  closers.add(() => closed.push('first'))
  closers.add(() => closed.push('last'))
  await closers.close()
  await closers.close()
  expect(closed).toEqual(['last', 'first'])
})

test.each([
  ['rejects', () => Promise.reject(new Error('not closed'))],
  [
    'throws',
    () => {
      throw new Error('not closed')
    },
  ],
])('a closer that %s does not keep the others from being closed', async (_, close) => {
  const closed: string[] = []
  const closers = new Closers()
  closers.add(() => closed.push('first'))
  closers.add(close)
  await expect(closers.close()).rejects.toThrow('not closed')
  expect(closed).toEqual(['first'])
})

test('several errors of closers are reported together', async () => {
  const closers = new Closers()
  const errors = [new Error('one'), new Error('two')]
  for (const error of errors) closers.add(() => Promise.reject(error))
  await expect(closers.close()).rejects.toMatchObject({ errors: errors.toReversed() })
})

test('a second close waits for the first', async () => {
  const held = heldCloser()
  const closers = new Closers()
  closers.add(held.close)
  const events: string[] = []
  const first = closers.close().then(() => events.push('first'))
  const second = closers.close().then(() => events.push('second'))
  await Promise.resolve()
  events.push('released')
  held.release()
  await Promise.all([first, second])
  expect(events).toEqual(['released', 'first', 'second'])
})

test('what is opened while others are closed is closed too', async () => {
  const held = heldCloser()
  const closed: string[] = []
  const closers = new Closers()
  closers.add(held.close)
  const closing = closers.close()
  closers.add(() => closed.push('late'))
  held.release()
  await closing
  expect(closed).toEqual(['late'])
})

test('a failed start throws its own error, also if closing fails', async () => {
  const closed: string[] = []
  const closers = new Closers()
  closers.add(() => closed.push('first'))
  closers.add(() => Promise.reject(new Error('of closing')))
  await expect(closers.closeAndThrow(new Error('of the start'))).rejects.toThrow('of the start')
  expect(closed).toEqual(['first'])
})
