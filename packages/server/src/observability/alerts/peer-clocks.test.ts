import { expect, test } from 'vitest'
import { ClockOffsets } from './conditions/clock-offset.js'
import { nodeWith } from './conditions/conditions.test-helper.js'
import { PeerClocks } from './peer-clocks.js'

const peer = { id: 'n2', host: 'web-2', offsets: [] }
const HOUR_MS = 3_600_000

/** Waits until a finished reading is processed. */
const settle = () => new Promise((done) => void setImmediate(done))

/** Requests the clocks once a second, from one second until before another. */
async function askFrom(clocks: PeerClocks, from: number, to: number) {
  const found = []
  for (let second = from; second < to; second++) {
    found.push(clocks.latest(second * 1000)?.length)
    await settle()
  }
  return found
}

function counting(read: () => Promise<readonly (typeof peer)[]> = async () => [peer]) {
  const counted = { readings: 0 }
  const clocks = new PeerClocks(() => {
    counted.readings++
    return read()
  })
  return { clocks, counted }
}

test('other nodes have five seconds to publish their clocks, and are read once a minute', async () => {
  const { clocks, counted } = counting()
  const unknown = Array.from({ length: 6 }, () => undefined)
  expect(await askFrom(clocks, 0, 8)).toEqual([...unknown, 1, 1])
  expect(counted.readings).toBe(1)
  await askFrom(clocks, 8, 65)
  expect(counted.readings).toBe(1)
  await askFrom(clocks, 65, 66)
  expect(counted.readings).toBe(2)
})

test('an old reading is not reused', async () => {
  const { clocks } = counting()
  await askFrom(clocks, 0, 8)
  expect(clocks.latest(14_000)).toBeUndefined()
})

test('the clocks of other nodes are read again when the clock of this one is set back', async () => {
  const { clocks, counted } = counting()
  await askFrom(clocks, 3600, 3608)
  await askFrom(clocks, 0, 8)
  expect(counted.readings).toBe(2)
})

test('clocks that cannot be read are unknown, and are read again after five seconds', async () => {
  const { clocks, counted } = counting(() => Promise.reject(new Error('no answer')))
  const found = await askFrom(clocks, 0, 12)
  expect(found.every((known) => known === undefined)).toBe(true)
  expect(counted.readings).toBe(2)
})

test('readings do not overlap, and a slow one is discarded if clocks were needed anew', async () => {
  let answer = () => {}
  const slow = new Promise<readonly (typeof peer)[]>((resolve) => {
    answer = () => resolve([peer])
  })
  const { clocks, counted } = counting(() => slow)
  await askFrom(clocks, 0, 8)
  await askFrom(clocks, 100, 108)
  expect(counted.readings).toBe(1)
  answer()
  await settle()
  expect(clocks.latest(108_000)).toBeUndefined()
})

test('a node is not reported before others have published since the clock of Redis was set', async () => {
  let second = 0
  // Published before the change was noticed, or up to two seconds after.
  const published = () => (second < 2 ? 0 : HOUR_MS)
  const clocks = new PeerClocks(async () => [
    { ...peer, offsets: [{ store: 'a', offsetMs: published() }] },
  ])
  const offsets = new ClockOffsets({ id: 'n1', host: 'web-1' })
  const redis = nodeWith({
    address: 'a',
    clock: { offsetSeconds: HOUR_MS / 1000, errorSeconds: 0 },
  })
  const accused = new Set<string>()
  for (; second < 30; second++) {
    const found = offsets.evaluate([redis], () => clocks.latest(second * 1000))
    for (const { subject } of found) accused.add(subject)
    await settle()
  }
  expect([...accused]).toEqual(['a'])
})
