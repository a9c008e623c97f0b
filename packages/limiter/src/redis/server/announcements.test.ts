import type { CounterKey } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import { decodeAnnouncement, encodeAnnouncement, KEYS_MAX } from './announcement.js'
import { Announcements } from './announcements.js'
import { FakeScheduler, settled } from '../connection/channel.test-helper.js'
import {
  RedisConnectionError,
  RedisReplyError,
  type SubscriptionEvents,
} from '../connection/driver.js'

const US = '0000000000000001'
const THEM = '0000000000000002'
const keyOf = (lo: number): CounterKey => ({ hi: 7, lo, partition: 0 })
const NOPERM = new RedisReplyError("NOPERM this user has no permissions to run 'publish'")

function open({ nodes = 1 } = {}) {
  const scheduler = new FakeScheduler()
  const published: Buffer[] = []
  const returned: number[] = []
  const problems: string[] = []
  const state = { error: undefined as Error | undefined, restores: 0, isHeld: false }
  let events: SubscriptionEvents | undefined
  let release = () => {}
  const announcements = new Announcements({
    channel: 'a-channel',
    sender: US,
    run: async ([name, channel, message]) => {
      expect([name, channel]).toEqual(['PUBLISH', 'a-channel'])
      published.push(message as Buffer)
      if (state.isHeld) {
        await new Promise<void>((resolve) => {
          release = resolve
        })
      }
      if (state.error !== undefined) throw state.error
      return 3
    },
    subscribe: (given) => {
      events = given
      return { close: () => {} }
    },
    nowMs: () => scheduler.nowMs,
    scheduler,
    fleetSize: () => nodes,
    onReturned: ({ lo }) => void returned.push(lo),
    onRestore: () => {
      state.restores += 1
    },
    onProblem: (text) => void problems.push(text),
  })
  const keysIn = (message: Buffer) => {
    const read = decodeAnnouncement(message)
    return read?.kind === 'returned' ? read.keys.map(({ lo }) => lo) : undefined
  }
  return {
    announcements,
    scheduler,
    published,
    returned,
    problems,
    state,
    release: () => release(),
    sentKeys: () => published.map(keysIn),
    hear: (message: Buffer) => events?.message(message),
    refuse: (error: Error) => events?.refused(error),
    subscribed: () => events?.subscribed(),
  }
}

describe('announcements of returned units', () => {
  test('leave at once, all of a turn in one message, each counter once', async () => {
    const { announcements, scheduler, sentKeys } = open()
    for (const lo of [1, 2, 1, 3, 2]) announcements.announce(keyOf(lo))
    expect(sentKeys()).toEqual([])
    await scheduler.advance(0)
    expect(sentKeys()).toEqual([[1, 2, 3]])
  })

  test('leave every 5 ms at most, however many there are', async () => {
    const { announcements, scheduler, sentKeys } = open()
    for (let ms = 0; ms < 1000; ms++) {
      for (let i = 0; i < 3; i++) announcements.announce(keyOf(ms * 3 + i))
      await scheduler.advance(1)
    }
    await scheduler.advance(5)
    expect(sentKeys().length).toBeLessThanOrEqual(202)
    expect(sentKeys().flat()).toHaveLength(3000)
  })

  test('leave less often the more nodes there are, and every 250 ms at least', async () => {
    for (const [nodes, most] of [
      [30, 13],
      [1000, 6],
    ] as const) {
      const { announcements, scheduler, published } = open({ nodes })
      for (let ms = 0; ms < 1000; ms++) {
        announcements.announce(keyOf(ms))
        await scheduler.advance(1)
      }
      expect(published.length).toBeLessThanOrEqual(most)
      expect(published.length).toBeGreaterThanOrEqual(4)
    }
  })

  test('have a bounded size, and are dropped beyond a bound', async () => {
    const { announcements, scheduler, sentKeys } = open()
    for (let lo = 0; lo < 10_000; lo++) announcements.announce(keyOf(lo))
    await scheduler.advance(1000)
    expect(sentKeys().map((keys) => keys?.length)).toEqual(
      Array.from({ length: 8 }, () => KEYS_MAX),
    )
  })

  test('wait for the message before, and survive a failed one', async () => {
    const { announcements, scheduler, sentKeys, state, release } = open()
    state.isHeld = true
    announcements.announce(keyOf(1))
    await scheduler.advance(0)
    announcements.announce(keyOf(2))
    await scheduler.advance(1000)
    expect(sentKeys()).toEqual([[1]])
    state.isHeld = false
    state.error = new RedisConnectionError('gone')
    release()
    await settled()
    await scheduler.advance(1000)
    expect(sentKeys()).toEqual([[1], [2]])
  })

  test('leave when the store is closed', async () => {
    const { announcements, sentKeys } = open()
    announcements.announce(keyOf(1))
    await announcements.close()
    announcements.announce(keyOf(2))
    expect(sentKeys()).toEqual([[1]])
  })
})

describe('a missing right to publish', () => {
  test('causes one report, and no attempt for half a minute', async () => {
    const { announcements, scheduler, published, problems, state, refuse } = open()
    void announcements.start()
    state.error = NOPERM
    refuse(NOPERM)
    for (let lo = 0; lo < 100; lo++) {
      announcements.announce(keyOf(lo))
      await scheduler.advance(100)
    }
    expect(published).toHaveLength(1)
    state.error = undefined
    await scheduler.advance(30_000)
    announcements.announce(keyOf(1))
    await scheduler.advance(0)
    expect(published).toHaveLength(2)
    expect(problems).toEqual([expect.stringContaining('may still refuse for up to 1 s after that')])
  })

  test('differs from a busy Redis', async () => {
    const { announcements, scheduler, published, problems, state } = open()
    state.error = new RedisReplyError('BUSY Redis is busy running a script')
    for (let lo = 0; lo < 3; lo++) {
      announcements.announce(keyOf(lo))
      await scheduler.advance(100)
    }
    expect(published).toHaveLength(3)
    expect(problems).toEqual([])
  })
})

describe('a start', () => {
  test('waits for the subscription, for a quarter of a second at most', async () => {
    for (const end of ['subscribed', 'refused', 'late'] as const) {
      const { announcements, scheduler, subscribed, refuse } = open()
      let isDone = false
      void announcements.start().then(() => {
        isDone = true
      })
      await scheduler.advance(249)
      expect(isDone).toBe(false)
      if (end === 'subscribed') subscribed()
      if (end === 'refused') refuse(NOPERM)
      await scheduler.advance(end === 'late' ? 1 : 0)
      expect(isDone).toBe(true)
    }
  })
})

describe('received messages', () => {
  test('reach the listener if another node announced them', () => {
    const { announcements, returned, hear } = open()
    void announcements.start()
    hear(encodeAnnouncement({ kind: 'returned', sender: THEM, keys: [keyOf(1), keyOf(2)] }))
    hear(encodeAnnouncement({ kind: 'returned', sender: US, keys: [keyOf(3)] }))
    hear(Buffer.from('garbage'))
    hear(Buffer.alloc(100_000, 1))
    expect(returned).toEqual([1, 2])
  })

  test('restore the secret four times a second at most', async () => {
    const { announcements, scheduler, state, hear } = open()
    void announcements.start()
    for (let i = 0; i < 1000; i++) {
      hear(encodeAnnouncement({ kind: 'restore', sender: THEM }))
      await scheduler.advance(1)
    }
    expect(state.restores).toBe(4)
  })

  test('a request for the secret resolves to the number of receivers', async () => {
    const { announcements, published } = open()
    expect(await announcements.requestSecret()).toBe(3)
    expect(published.map(decodeAnnouncement)).toEqual([{ kind: 'restore', sender: US }])
  })
})
