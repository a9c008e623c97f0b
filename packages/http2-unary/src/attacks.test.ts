/**
 * What a client may do to harm the server, and what it costs: bounds of counts and bytes, never of
 * time that a busy machine would break.
 */
import { describe, expect, test } from 'vitest'
import {
  block,
  call,
  continuation,
  Conversation,
  data,
  type Field,
  frame,
  grpc,
  headers,
  integer,
  PATH,
  ping,
  priority,
  replyOf,
  REQUEST,
  requestTo,
  rstStream,
  settings,
  windowUpdate,
} from './conversation.test-helper.js'
import { ErrorCode, Flag, FrameType, PREFACE, Setting } from './frames.js'

const { enhanceYourCalm, refusedStream } = ErrorCode
const REQUEST_BLOCK = block(REQUEST)
const never = () => new Promise<Buffer>(() => {})
const range = (count: number) => Array.from({ length: count }, (_, index) => index)
const streamIds = (count: number) => range(count).map((index) => 2 * index + 1)

/** Sends one after the other until the connection has ended; returns how many it took. */
function countUntilEnd(conversation: Conversation, next: (index: number) => Buffer): number {
  for (let sent = 1; sent <= 20_000; sent++) {
    conversation.send(next(sent))
    if (conversation.transport.hasEnded) return sent
  }
  return Infinity
}

describe('rapid reset (CVE-2023-44487)', () => {
  test('starts no more handlers at once than there may be streams, and answers no GOAWAY', () => {
    let running = 0
    const handler = () => {
      running += 1
      return never()
    }
    const conversation = Conversation.open({
      methods: { [PATH]: handler },
      limits: { streams: 100 },
    })
    for (const id of streamIds(10_000)) conversation.send(call(id), rstStream(id))
    expect(running).toBe(100)
    expect(conversation.context.counters).toMatchObject({
      activeStreams: 100,
      resets: 100,
      streamsRefused: 9_900,
    })
    expect(conversation.goawayCode()).toBeUndefined()
  })

  test('of requests that never end pauses reading as soon as it costs a share of a core', () => {
    const conversation = Conversation.open()
    for (const id of streamIds(49_000)) conversation.send(headers(id, REQUEST_BLOCK), rstStream(id))
    expect(conversation.transport.pausesMs).toEqual([])
    const late = range(100_000).map((index) => 2 * (49_000 + index) + 1)
    const resets = late.flatMap((id) => [headers(id, REQUEST_BLOCK), rstStream(id)])
    conversation.send(Buffer.concat(resets))
    expect(conversation.transport.pausesMs).toHaveLength(1)
    expect(conversation.transport.pausesMs[0]).toBeGreaterThan(1_900)
    expect(conversation.goawayCode()).toBeUndefined()
    // Once the pause is over, the connection is as good as before.
    conversation.nowMs += 2_000
    const id = 2 * 149_000 + 1
    conversation.send(call(id))
    expect(conversation.reply(id)).toMatchObject({ grpcStatus: '0' })
    expect(conversation.transport.pausesMs).toHaveLength(1)
  })

  test('of a proxy whose short timeout expires while we are slow costs it nothing at all', async () => {
    const release: (() => void)[] = []
    const handler = (message: Buffer) =>
      new Promise<Buffer>((resolve) => release.push(() => resolve(message)))
    const conversation = Conversation.open({ methods: { [PATH]: handler } })
    let id = -1
    // Four seconds in which every call is given up after 20 ms: 10,000 calls a second.
    for (let turn = 0; turn < 200; turn++) {
      const ids = range(200).map(() => (id += 2))
      conversation.send(...ids.map((one) => call(one)))
      conversation.nowMs += 20
      conversation.send(...ids.map((one) => rstStream(one)))
      if (turn % 5 === 4) {
        for (const resolve of release.splice(0)) resolve()
        await conversation.settle()
      }
      conversation.transport.sent.splice(0)
    }
    expect(conversation.transport.hasEnded).toBe(false)
    expect(conversation.transport.pausesMs).toEqual([])
    conversation.send(call(id + 2))
    for (const resolve of release.splice(0)) resolve()
    await conversation.settle()
    expect(conversation.reply(id + 2)).toMatchObject({ grpcStatus: '0' })
    expect(conversation.context.counters.activeStreams).toBe(0)
  })
})

describe('making us reset streams (CVE-2025-8671)', () => {
  test.each([
    ['by WINDOW_UPDATE of nothing', (id: number) => windowUpdate(id, 0)],
    ['by DATA after the end', (id: number) => data(id, Buffer.alloc(0))],
    ['by trailers after the end', (id: number) => headers(id, REQUEST_BLOCK, 0x5)],
  ])('%s ends the connection after a hundred, with as many handlers', (_how, wrong) => {
    let running = 0
    const conversation = Conversation.open({
      methods: {
        [PATH]: () => {
          running += 1
          return never()
        },
      },
    })
    const sent = countUntilEnd(conversation, (index) => {
      const id = 2 * index - 1
      return Buffer.concat([call(id), wrong(id)])
    })
    expect(sent).toBeLessThanOrEqual(101)
    expect(running).toBe(sent)
    expect(conversation.goawayCode()).toBe(enhanceYourCalm)
    expect(conversation.context.counters.floods).toBe(1)
  })

  test('by malformed requests does too', () => {
    const conversation = Conversation.open()
    const bad = block([['X', '']])
    expect(countUntilEnd(conversation, (index) => headers(2 * index - 1, bad))).toBeLessThan(102)
  })
})

describe('floods', () => {
  const empty = Buffer.alloc(0)
  test.each([
    ['PING', () => ping()],
    ['acknowledged PING', () => ping('12345678', Flag.ack)],
    ['PRIORITY', () => priority(1, 3)],
    ['frames of an unknown type', () => frame(200, 0, 0, empty)],
    ['WINDOW_UPDATE', () => windowUpdate(0, 1)],
    ['WINDOW_UPDATE of a stream that has ended', () => windowUpdate(1, 1)],
    ['GOAWAY', () => frame(FrameType.goaway, 0, 0, Buffer.alloc(8))],
  ])('of %s end the connection after 2,000', (_what, next) => {
    const conversation = Conversation.open({ methods: { [PATH]: never } })
    conversation.send(call(1))
    const sent = countUntilEnd(conversation, next)
    expect(sent).toBeGreaterThan(1_900)
    expect(sent).toBeLessThan(2_010)
    expect(conversation.goawayCode()).toBe(enhanceYourCalm)
  })

  test.each([
    ['SETTINGS', () => settings([Setting.initialWindowSize, 1])],
    ['acknowledgements of settings', () => frame(FrameType.settings, Flag.ack, 0, empty)],
  ])('of %s end the connection after 200', (_what, next) => {
    const conversation = Conversation.open()
    expect(countUntilEnd(conversation, next)).toBeLessThan(202)
    expect(conversation.goawayCode()).toBe(enhanceYourCalm)
  })

  test.each([
    ['empty DATA', data(1, empty, false)],
    ['padding alone', frame(FrameType.data, Flag.padded, 1, Buffer.from([3, 0, 0, 0]))],
  ])('of %s end the connection after 2,000', (_what, bytes) => {
    const conversation = Conversation.open()
    conversation.send(headers(1, REQUEST_BLOCK))
    expect(countUntilEnd(conversation, () => bytes)).toBeLessThan(2_010)
    expect(conversation.goawayCode()).toBe(enhanceYourCalm)
  })

  test('in one chunk cost no more than the budget: nothing is answered after it is used up', () => {
    const conversation = Conversation.open()
    conversation.send(...range(100_000).map(() => ping()))
    const frames = conversation.frames()
    expect(frames.filter(({ type }) => type === FrameType.ping).length).toBeLessThan(2_010)
    expect(frames.at(-1)?.type).toBe(FrameType.goaway)
  })

  test('do not end a connection whose calls they belong to', () => {
    const conversation = Conversation.open()
    for (const id of streamIds(20_000)) {
      conversation.send(call(id), ping(), windowUpdate(0, 40))
      conversation.transport.sent.splice(0)
    }
    expect(conversation.transport.hasEnded).toBe(false)
  })

  test('of window updates by an honest client with a window of one byte do not end it', () => {
    const conversation = Conversation.open({ methods: { [PATH]: () => Buffer.alloc(5_000) } }, [
      Setting.initialWindowSize,
      1,
    ])
    conversation.send(call(1))
    for (let sent = 1; sent < 5_005; sent++)
      conversation.send(windowUpdate(0, 1), windowUpdate(1, 1))
    expect(conversation.reply(1)).toMatchObject({ isEnded: true, grpcStatus: '0' })
    expect(conversation.transport.hasEnded).toBe(false)
  })

  test('of keepalive PINGs are answered for hours', () => {
    const conversation = Conversation.open()
    for (let count = 0; count < 10_000; count++) {
      conversation.nowMs += 1_000
      conversation.send(ping())
    }
    expect(conversation.frames()).toHaveLength(10_000)
  })
})

describe('headers', () => {
  test('that go on and on in CONTINUATION end the connection, with 32 KiB held at most', () => {
    const conversation = Conversation.open()
    conversation.send(headers(1, Buffer.alloc(16_000), 0))
    conversation.send(continuation(1, Buffer.alloc(16_000), 0))
    expect(conversation.transport.hasEnded).toBe(false)
    conversation.send(continuation(1, Buffer.alloc(1_000), 0))
    expect(conversation.goawayCode()).toBe(enhanceYourCalm)
  })

  test('in empty CONTINUATION frames end the connection after 16', () => {
    const conversation = Conversation.open()
    conversation.send(headers(1, Buffer.alloc(0), 0))
    expect(countUntilEnd(conversation, () => continuation(1, Buffer.alloc(0), 0))).toBe(17)
    expect(conversation.goawayCode()).toBe(enhanceYourCalm)
  })

  test('of one byte that stand for 4 KiB each are refused, and hold no memory', () => {
    const conversation = Conversation.open({ metadata: ['x-bomb'] })
    const bomb: Field = ['x-bomb', 'b'.repeat(4_000)]
    conversation.send(headers(1, Buffer.concat([REQUEST_BLOCK, block([bomb], 'indexed')])))
    const references = Buffer.alloc(16_000, integer(0x80, 127, 62))
    const before = process.memoryUsage().heapUsed
    for (const id of streamIds(50)) {
      conversation.send(headers(id + 2, Buffer.concat([REQUEST_BLOCK, references]), 0x5))
    }
    // All of it as text would be 3 GB.
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(100_000_000)
    const frames = conversation.frames()
    for (const id of streamIds(50)) expect(replyOf(frames, id + 2).status).toBe('431')
  })

  test('that are too large do not lose the table of those after them', () => {
    const conversation = Conversation.open({ limits: { headerListBytes: 300 } })
    const large = Buffer.concat([block([['x-large', 'a'.repeat(500)]]), block(REQUEST, 'indexed')])
    conversation.send(headers(1, large, 0x5))
    expect(conversation.reply(1).status).toBe('431')
    conversation.send(headers(3, Buffer.from([0xc3, 0xc2, 0xc1, 0xbf, 0xbe])), data(3, grpc('')))
    expect(conversation.reply(3)).toMatchObject({ status: '200', grpcStatus: '0' })
  })
})

describe('settings', () => {
  test('of more than 64 entries end the connection', () => {
    const conversation = Conversation.open()
    const entry = [Setting.initialWindowSize, 1] as const
    conversation.send(settings(...range(64).map(() => entry)))
    expect(conversation.transport.hasEnded).toBe(false)
    conversation.send(settings(...range(65).map(() => entry)))
    expect(conversation.goawayCode()).toBe(enhanceYourCalm)
  })
})

describe('streams', () => {
  test('beyond the limit are refused, and may be tried again', () => {
    const conversation = Conversation.open({ methods: { [PATH]: never }, limits: { streams: 3 } })
    conversation.send(...streamIds(5).map((id) => call(id)))
    const frames = conversation.frames()
    expect(streamIds(5).map((id) => replyOf(frames, id).reset)).toEqual([
      undefined,
      undefined,
      undefined,
      refusedStream,
      refusedStream,
    ])
  })

  test('of requests that stay incomplete are reset after a while', () => {
    const conversation = Conversation.open()
    conversation.send(headers(1, REQUEST_BLOCK), data(1, grpc('hello').subarray(0, 6), false))
    expect(conversation.context.held.bytes).toBeGreaterThan(0)
    conversation.pass(30_000)
    expect(conversation.frames()).toEqual([])
    conversation.pass(1)
    expect(conversation.reply(1).reset).toBe(ErrorCode.cancel)
    expect(conversation.context).toMatchObject({ held: { bytes: 0 }, counters: { timeouts: 1 } })
  })

  test('whose prefix promises more than they send hold only what they sent', () => {
    const conversation = Conversation.open()
    const promise = Buffer.from([0, 0, 4, 0, 0, 1])
    for (const id of streamIds(1_000)) {
      conversation.send(headers(id, REQUEST_BLOCK), data(id, promise, false))
    }
    expect(conversation.context.held.bytes).toBeLessThan(1_000 * (1_024 + 512) + 1)
  })

  test('whose message is whole, but not their request, count as held, and keep no chunk', () => {
    const seen: Buffer[] = []
    const conversation = Conversation.open({
      methods: { [PATH]: (message) => (seen.push(message), Buffer.alloc(0)) },
    })
    const whole = grpc('a'.repeat(16_000))
    for (const id of streamIds(100)) {
      conversation.send(headers(id, REQUEST_BLOCK), data(id, whole, false), ping())
    }
    expect(conversation.context.held.bytes).toBeGreaterThan(100 * 16_000)
    conversation.send(...streamIds(100).map((id) => data(id, Buffer.alloc(0))))
    expect(conversation.context.held.bytes).toBe(0)
    expect(seen).toHaveLength(100)
    for (const message of seen) expect(message.buffer.byteLength).toBeLessThan(16_100)
  })

  test('with messages of many frames that are whole, but do not end, are bounded', () => {
    const conversation = Conversation.open()
    const bytes = grpc('a'.repeat(200_000))
    const parts = range(20).map((index) => bytes.subarray(index * 12_000, (index + 1) * 12_000))
    for (const id of streamIds(100)) {
      const frames = parts.filter((part) => part.length > 0).map((part) => data(id, part, false))
      conversation.send(headers(id, REQUEST_BLOCK), ...frames)
    }
    expect(conversation.context.held.bytes).toBeGreaterThan(4_000_000)
    expect(conversation.context.held.bytes).toBeLessThan(4_800_000)
    expect(conversation.reply(199)).toMatchObject({ grpcStatus: '8', reset: 0 })
    conversation.connection.onClosed()
    expect(conversation.context.held.bytes).toBe(0)
  })

  test('with large headers count as held until their handlers have ended', async () => {
    const release: (() => void)[] = []
    const handler = () =>
      new Promise<Buffer>((resolve) => release.push(() => resolve(Buffer.alloc(0))))
    const conversation = Conversation.open({ metadata: ['x-a'], methods: { [PATH]: handler } })
    const fields = requestTo(PATH, ['x-a', 'a'.repeat(10_000)])
    conversation.send(...streamIds(500).map((id) => call(id, '', fields)))
    expect(release.length).toBeGreaterThan(300)
    expect(release.length).toBeLessThan(420)
    const { held } = conversation.context
    expect(held.bytes).toBeGreaterThan(4_000_000)
    conversation.connection.onClosed()
    expect(held.bytes).toBeGreaterThan(4_000_000)
    for (const resolve of release) resolve()
    await conversation.settle()
    expect(held.bytes).toBe(0)
  })

  test('of unknown methods keep no path', () => {
    const conversation = Conversation.open()
    const path = `/${'a'.repeat(15_000)}`
    const open = streamIds(1_000).map((id) => headers(id, block(requestTo(path))))
    conversation.send(...open)
    expect(conversation.context.counters.activeStreams).toBe(1_000)
    expect(conversation.context.held.bytes).toBeLessThan(1_000_000)
  })

  test('of many connections, each with its bound, are bounded together', () => {
    const first = Conversation.open({ methods: { [PATH]: never }, limits: { heldBytes: 100_000 } })
    const ids = streamIds(100)
    let running = 0
    for (let count = 0; count < 20; count++) {
      const other = new Conversation({}, first.context)
      other.send(PREFACE, settings(), ...ids.map((id) => call(id)))
      other.connection.onClosed()
      running = first.context.counters.activeStreams
    }
    expect(running).toBeGreaterThan(200)
    expect(running).toBeLessThan(1_000)
    first.send(call(1))
    expect(first.context.counters.activeStreams).toBe(running + 1)
  })

  test('that hold too much of one connection are refused, and later ones too', () => {
    const conversation = Conversation.open({ limits: { connectionHeldBytes: 100_000 } })
    const half = grpc('a'.repeat(30_000)).subarray(0, 16_000)
    for (const id of streamIds(8))
      conversation.send(headers(id, REQUEST_BLOCK), data(id, half, false))
    const frames = conversation.frames()
    expect(replyOf(frames, 1).status).toBeUndefined()
    expect(replyOf(frames, 13)).toMatchObject({ grpcStatus: '8', reset: 0 })
    expect(conversation.context.held.bytes).toBeLessThan(120_000)
  })

  test('that hold too much of all connections are refused there, and not on others', () => {
    const first = Conversation.open({ limits: { heldBytes: 50_000 } })
    const second = new Conversation({}, first.context)
    second.send(PREFACE, settings())
    const half = grpc('a'.repeat(60_000)).subarray(0, 16_000)
    first.send(...streamIds(6).flatMap((id) => [headers(id, REQUEST_BLOCK), data(id, half, false)]))
    expect(first.context.held.bytes).toBeLessThan(70_000)
    expect(first.reply(11)).toMatchObject({ grpcStatus: '8' })
    second.send(call(1))
    expect(second.reply(1)).toMatchObject({ grpcStatus: '0' })
    second.send(headers(3, REQUEST_BLOCK), data(3, half, false), call(5))
    expect(second.reply(5)).toMatchObject({ grpcStatus: '0' })
    second.connection.onClosed()
    first.connection.onClosed()
    expect(first.context.held.bytes).toBe(0)
  })

  test('are refused while too much output waits to be read', () => {
    const conversation = Conversation.open()
    conversation.transport.backlogBytes = 4 * 1024 * 1024 + 1
    conversation.send(call(1))
    expect(conversation.reply(1).reset).toBe(refusedStream)
    expect(conversation.context.held.bytes).toBe(4 * 1024 * 1024 + 1)
    conversation.transport.backlogBytes = 0
    conversation.send(call(3))
    expect(conversation.reply(3)).toMatchObject({ grpcStatus: '0' })
    expect(conversation.context.held.bytes).toBe(0)
  })
})

describe('windows that stay closed', () => {
  const large = { methods: { [PATH]: () => Buffer.alloc(10_000) } }

  test('hold a bounded number of bytes: new streams are refused', () => {
    const conversation = Conversation.open({ ...large, limits: { connectionHeldBytes: 100_000 } }, [
      Setting.initialWindowSize,
      0,
    ])
    for (const id of streamIds(50)) conversation.send(call(id))
    expect(conversation.context.held.bytes).toBeLessThan(120_000)
    expect(conversation.reply(99).reset).toBe(refusedStream)
  })

  test('reset their streams after a while', () => {
    const conversation = Conversation.open(large, [Setting.initialWindowSize, 0])
    conversation.send(call(1), call(3))
    conversation.pass(30_001)
    const frames = conversation.frames()
    expect([1, 3].map((id) => replyOf(frames, id).reset)).toEqual([8, 8])
    expect(conversation.context.held.bytes).toBe(0)
  })

  test('make an update of the connection cost nothing for streams that cannot send', () => {
    const conversation = Conversation.open(large, [Setting.initialWindowSize, 0])
    conversation.send(...streamIds(400).map((id) => call(id)))
    conversation.frames()
    conversation.send(...range(1_000).map(() => windowUpdate(0, 1)))
    expect(conversation.frames()).toEqual([])
  })
})

describe('time', () => {
  const { settingsTimeout } = ErrorCode

  test('without a preface ends the connection', () => {
    const conversation = new Conversation()
    conversation.send(PREFACE.subarray(0, 10))
    conversation.pass(10_000)
    expect(conversation.transport.hasEnded).toBe(false)
    conversation.pass(1)
    expect(conversation.goawayCode()).toBe(settingsTimeout)
  })

  test('without an acknowledgement of settings ends the connection', () => {
    const conversation = new Conversation()
    conversation.send(PREFACE, settings())
    conversation.pass(20_001)
    expect(conversation.goawayCode()).toBe(settingsTimeout)
  })

  test('within a frame ends the connection, even if a byte comes now and then', () => {
    const conversation = Conversation.open()
    for (const byte of ping().subarray(0, 12)) {
      conversation.send(Buffer.from([byte]))
      conversation.pass(2_600)
    }
    expect(conversation.goawayCode()).toBe(settingsTimeout)
  })

  test('within a block of headers ends the connection', () => {
    const conversation = Conversation.open()
    conversation.send(headers(1, Buffer.alloc(0), 0))
    conversation.pass(30_001)
    expect(conversation.goawayCode()).toBe(settingsTimeout)
  })

  test('in which frames are cut, but go on, ends nothing', () => {
    const conversation = Conversation.open()
    const bytes = Buffer.concat(streamIds(100).map((id) => call(id)))
    for (let at = 0; at < bytes.length; at += 100) {
      conversation.send(bytes.subarray(at, at + 100))
      conversation.pass(1_000)
    }
    expect(conversation.transport.hasEnded).toBe(false)
    expect(conversation.context.counters.answers).toBe(100)
  })

  test('in which nothing is read by the client closes the connection', () => {
    const conversation = Conversation.open({ methods: { [PATH]: never } })
    conversation.send(call(1))
    conversation.transport.blockedForMs = 30_001
    conversation.pass(1)
    expect(conversation.transport.isDestroyed).toBe(true)
    expect(conversation.connection.isEnded).toBe(true)
  })

  test('without a call ends the connection by GOAWAY, and PINGs do not prevent it', () => {
    const conversation = Conversation.open()
    conversation.pass(60_000)
    conversation.send(call(1))
    conversation.frames()
    conversation.pass(15 * 60_000)
    conversation.send(ping())
    expect(conversation.frames().map(({ type }) => type)).not.toContain(FrameType.goaway)
    conversation.pass(1)
    expect(conversation.goawayCode()).toBe(ErrorCode.noError)
    conversation.pass(5_000)
    expect(conversation.transport.hasEnded).toBe(true)
  })
})

test('metadata that are asked for are bounded by the list of headers', () => {
  let length = 0
  const conversation = Conversation.open({
    metadata: ['x-a'],
    methods: { [PATH]: (message, one) => ((length = one.metadata('x-a')?.length ?? 0), message) },
  })
  const more = range(300).map((): Field => ['x-a', 'aaaa'])
  conversation.send(call(1, '', requestTo(PATH, ...more)))
  expect(length).toBe(300 * 5 - 1)
  conversation.send(call(3, '', requestTo(PATH, ...more, ...more)))
  expect(conversation.reply(3).status).toBe('431')
})
