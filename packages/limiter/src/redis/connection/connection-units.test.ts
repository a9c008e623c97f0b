import { SluiceError } from '@sluice/core'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { type RedisReply, RedisReplyError } from './driver.js'
import type { RedisClient } from '../redis-options.js'
import { parseRedisUrl } from './redis-target.js'
import { handshakeSteps, type HandshakeVerdict } from './handshake.js'
import { openDriver } from './open-driver.js'
import { tlsOf } from './socket.js'
import { reconnectPauseMs } from './reconnect-pause.js'
import { TopologyPoll } from './topology-poll.js'
import { PendingReplies } from './pending-replies.js'
import { readSlotRanges } from './slot-ranges.js'

describe('the pause before the next attempt', () => {
  test.each([
    [false, 50, 500],
    [true, 50, 150],
  ])('lies, with a timeout before: %s, between %i and %i ms', (timedOut, least, most) => {
    expect(reconnectPauseMs(timedOut, () => 0)).toBe(least)
    expect(reconnectPauseMs(timedOut, () => 1)).toBe(most)
    expect(reconnectPauseMs(timedOut, () => 0.5)).toBe((least + most) / 2)
  })
})

describe('a write', () => {
  test('settles each command once, in any order', () => {
    const settle = vi.fn()
    const done = vi.fn()
    const sent = new PendingReplies(3, settle, { onDone: done, onListenerError: () => {} })
    sent.settle(1, 11)
    sent.settle(1, 12)
    sent.abort('the end')
    sent.settle(0, 13)
    sent.abort('the end')
    expect(settle.mock.calls).toEqual([
      [1, 11],
      [0, expect.objectContaining({ name: 'RedisConnectionError', message: 'the end' })],
      [2, expect.objectContaining({ name: 'RedisConnectionError' })],
    ])
    expect(done).toHaveBeenCalledTimes(1)
  })
})

describe('the handshake', () => {
  const nobody = { username: undefined, password: undefined, db: 0, mustBePrimary: false }
  const words = (greeting: Parameters<typeof handshakeSteps>[0]) =>
    handshakeSteps(greeting).map(({ command }) => command.words().join(' '))

  test('has no unnecessary command', () => {
    expect(words(nobody)).toEqual(['PING'])
    expect(words({ ...nobody, password: 'p' })).toEqual(['AUTH p', 'PING'])
    expect(words({ username: 'u', password: 'p', db: 2, mustBePrimary: true })).toEqual([
      'AUTH u p',
      'SELECT 2',
      'PING',
      'ROLE',
    ])
  })

  const [auth, select, ping, role] = handshakeSteps({
    username: 'u',
    password: 'p',
    db: 2,
    mustBePrimary: true,
  })
  const error = (message: string) => new RedisReplyError(message)
  const roleOf = (name: string) => [Buffer.from(name), 0, []]

  test.each<[string, typeof ping, RedisReply | Error, HandshakeVerdict | 'unfit']>([
    ['PONG', ping, Buffer.from('PONG'), 'fit'],
    ['reading its data', ping, error('LOADING Redis is loading the dataset in memory'), 'not-yet'],
    ['a replica alone', ping, error('MASTERDOWN Link with MASTER is down and …'), 'not-yet'],
    ['not let in', ping, error('NOAUTH Authentication required.'), 'unfit'],
    ['protected', ping, error('DENIED Redis is running in protected mode …'), 'unfit'],
    ['full', ping, error('ERR max number of clients reached'), 'unfit'],
    ['no right to ping', ping, error("NOPERM this user has no permissions to run 'ping'"), 'fit'],
    ['cannot save', ping, error('MISCONF Redis is configured to save RDB snapshots, but …'), 'fit'],
    ['in a script', ping, error('BUSY Redis is busy running a script. …'), 'fit'],
    ['lost', ping, new Error('closed'), 'unfit'],
    ['let in', auth, Buffer.from('OK'), 'fit'],
    ['wrong password', auth, error('WRONGPASS invalid username-password pair …'), 'unfit'],
    ['no such database', select, error('ERR DB index is out of range'), 'unfit'],
    ['primary', role, roleOf('master'), 'fit'],
    ['replica', role, roleOf('slave'), 'unfit'],
    ['sentinel', role, roleOf('sentinel'), 'unfit'],
    ['senseless', role, 7, 'unfit'],
    ['no right to ask', role, error('NOPERM …'), 'fit'],
    ['lost', role, new Error('closed'), 'unfit'],
  ])('judges the answer: %s', (_, step, reply, expected) => {
    const verdict = step?.judge(reply, () => expect.unreachable())
    if (expected === 'unfit') expect(verdict).toBeInstanceOf(Error)
    else expect(verdict).toBe(expected)
  })
})

describe('a reply to CLUSTER SLOTS', () => {
  const node = (host: string | null, port: number) => [
    host === null ? null : Buffer.from(host),
    port,
    Buffer.from('id'),
    [],
  ]

  test('names the primary of each range; replicas are ignored', () => {
    const reply = [
      [0, 5, node('10.0.0.1', 1), node('10.0.0.2', 2)],
      [6, 6, node('::1', 3)],
    ]
    expect(readSlotRanges(reply, 'here')).toEqual([
      { first: 0, last: 5, primary: { host: '10.0.0.1', port: 1 } },
      { first: 6, last: 6, primary: { host: '::1', port: 3 } },
    ])
    expect(readSlotRanges([], 'here')).toEqual([])
  })

  test('means the queried host if it names none', () => {
    expect(readSlotRanges([[0, 1, node(null, 7)]], 'here')?.[0]?.primary.host).toBe('here')
    expect(readSlotRanges([[0, 1, node('', 7)]], 'here')?.[0]?.primary.host).toBe('here')
  })

  test('leaves out a primary without a usable address', () => {
    const reply = [
      [0, 1, node('?', 7)],
      [2, 3, node('a b', 7)],
      [4, 5, node('a', 0)],
      [6, 7, node('b', 8)],
    ]
    expect(readSlotRanges(reply, 'here')).toEqual([
      { first: 6, last: 7, primary: { host: 'b', port: 8 } },
    ])
  })

  test.each<[string, RedisReply | Error]>([
    ['an error', new RedisReplyError('ERR This instance has cluster support disabled')],
    ['a text', Buffer.from('no')],
    ['null', null],
    ['no ranges', [1, 2]],
    ['slots that are none', [[0, 16_384, node('a', 1)]]],
    ['a range the wrong way', [[5, 4, node('a', 1)]]],
    ['no node', [[0, 5]]],
    ['slots as text', [[Buffer.from('0'), 5, node('a', 1)]]],
  ])('does not parse if it has %s', (_, reply) => {
    expect(readSlotRanges(reply, 'here')).toBeUndefined()
  })
})

describe('topology polls', () => {
  beforeEach(() => {
    vi.useFakeTimers()
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  function make(isWell: () => boolean, answers = true) {
    let polls = 0
    let open: (() => void) | undefined
    const rounds = new TopologyPoll(() => 0.5, {
      poll: (done) => {
        polls += 1
        open = done
        if (answers) done()
      },
      isHealthy: isWell,
    })
    return { rounds, polls: () => polls, answer: () => open?.() }
  }

  test('repeat slowly while all is well, and fast while something is missing', () => {
    let isWell = true
    const { rounds, polls } = make(() => isWell)
    expect(polls()).toBe(0)
    rounds.pollSoon()
    vi.advanceTimersByTime(25)
    expect(polls()).toBe(1)
    vi.advanceTimersByTime(20_000)
    expect(polls()).toBe(5)
    isWell = false
    vi.advanceTimersByTime(5000)
    const before = polls()
    vi.advanceTimersByTime(2500)
    expect(polls() - before).toBe(10)
    rounds.close()
  })

  test('start at once when a change is reported, however many reports there are', () => {
    const { rounds, polls } = make(() => true)
    for (let ms = 0; ms < 1000; ms += 5) {
      rounds.pollSoon()
      vi.advanceTimersByTime(5)
    }
    expect(polls()).toBe(40)
    rounds.close()
  })

  test('run one at a time, and end even if no node answers', () => {
    const { rounds, polls, answer } = make(() => false, false)
    rounds.pollSoon()
    vi.advanceTimersByTime(25)
    rounds.pollSoon()
    vi.advanceTimersByTime(900)
    expect(polls()).toBe(1)
    vi.advanceTimersByTime(200)
    expect(polls()).toBe(2)
    answer()
    answer()
    vi.advanceTimersByTime(250)
    expect(polls()).toBe(3)
    rounds.close()
    rounds.pollSoon()
    answer()
    vi.advanceTimersByTime(10_000)
    expect(polls()).toBe(3)
    expect(vi.getTimerCount()).toBe(0)
  })
})

describe('a driver', () => {
  const target = parseRedisUrl('redis://127.0.0.1:1')

  test('names the package to install if it is missing', async () => {
    vi.doMock('iovalkey', () => {
      throw new Error("Cannot find package 'iovalkey'")
    })
    const opening = openDriver({ target, client: 'iovalkey' })
    await expect(opening).rejects.toThrow(SluiceError)
    await expect(opening).rejects.toThrow(
      'client: found no package iovalkey that could be loaded; ' +
        'accepted: npm install iovalkey, or another of ioredis, iovalkey, node-redis',
    )
    vi.doUnmock('iovalkey')
  })

  test('refuses an unknown client', async () => {
    const opening = openDriver({ target, client: 'other' as RedisClient })
    await expect(opening).rejects.toThrow(
      'client: found other; accepted: ioredis, iovalkey, node-redis',
    )
  })

  test('refuses certificates for a URL without TLS', async () => {
    const opening = openDriver({ target, client: 'ioredis', tls: {} })
    await expect(opening).rejects.toThrow('tls: found with a URL without TLS; accepted: ')
  })

  test('sends the host name to servers that share an address, unless it is an IP address', () => {
    expect(tlsOf({}, { host: 'a.example', port: 1 })).toEqual({ servername: 'a.example' })
    expect(tlsOf({}, { host: '10.0.0.1', port: 1 })).toEqual({})
    expect(tlsOf({}, { host: '::1', port: 1 })).toEqual({})
    expect(tlsOf({ servername: 'b' }, { host: 'a', port: 1 })).toEqual({ servername: 'b' })
  })
})
