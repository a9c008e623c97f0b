/** What a connection answers, frame by frame. Attacks are in attacks.test.ts. */
import { describe, expect, test } from 'vitest'
import type { UnaryCall } from './call.js'
import {
  block,
  call,
  continuation,
  Conversation,
  data,
  type Field,
  frame,
  goaway,
  grpc,
  headers,
  PATH,
  ping,
  replyOf,
  REQUEST,
  requestTo,
  rstStream,
  settings,
  windowUpdate,
} from './conversation.test-helper.js'
import { GrpcStatusError } from './errors.js'
import { ErrorCode, Flag, FrameType, PREFACE, Setting } from './frames.js'
import { Status } from './grpc/status.js'

const OK = { status: '200', grpcStatus: '0', isEnded: true, reset: undefined }
const bodyOf = (message: string) => grpc(message).toString('latin1')

describe('a connection', () => {
  test('begins with settings, and a larger window', () => {
    const conversation = new Conversation()
    const [first, second] = conversation.frames()
    expect(first?.type).toBe(FrameType.settings)
    const entries = Array.from({ length: 3 }, (_, index) => [
      first?.payload.readUInt16BE(index * 6),
      first?.payload.readUInt32BE(index * 6 + 2),
    ])
    expect(entries).toEqual([
      [Setting.maxConcurrentStreams, 1_000],
      [Setting.initialWindowSize, 256 * 1024 + 5],
      [Setting.maxHeaderListSize, 16 * 1024],
    ])
    expect(second).toMatchObject({ type: FrameType.windowUpdate, id: 0 })
  })

  test('acknowledges settings and echoes PING', () => {
    const conversation = new Conversation()
    conversation.frames()
    conversation.send(PREFACE, settings(), ping('12345678'))
    expect(conversation.frames()).toEqual([
      { type: FrameType.settings, flags: Flag.ack, id: 0, payload: Buffer.alloc(0) },
      { type: FrameType.ping, flags: Flag.ack, id: 0, payload: Buffer.from('12345678') },
    ])
  })

  test('ends when the client has said that it leaves and all its calls have ended', async () => {
    const conversation = Conversation.open({ methods: { [PATH]: async (message) => message } })
    conversation.send(call(1), goaway())
    expect(conversation.transport.hasEnded).toBe(false)
    await conversation.settle()
    expect(conversation.reply(1)).toMatchObject(OK)
    expect(conversation.transport.hasEnded).toBe(true)
  })
})

describe('a call', () => {
  test('is answered with headers, a message and a status', () => {
    const conversation = Conversation.open()
    conversation.send(call(1, 'one'), call(3, 'two'))
    const frames = conversation.frames()
    expect(replyOf(frames, 1)).toMatchObject({ ...OK, body: bodyOf('one') })
    expect(replyOf(frames, 3)).toMatchObject({ ...OK, body: bodyOf('two') })
    expect(conversation.context.counters).toMatchObject({ calls: 2, answers: 2, activeStreams: 0 })
  })

  test('is answered in one write with the others of a chunk', () => {
    const conversation = Conversation.open()
    conversation.send(...Array.from({ length: 50 }, (_, index) => call(2 * index + 1)))
    expect(conversation.transport.sent).toHaveLength(1)
  })

  test('may be answered by a promise, and then with the others that settle in that turn', async () => {
    const conversation = Conversation.open({ methods: { [PATH]: async (message) => message } })
    conversation.send(call(1, 'one'), call(3, 'two'))
    expect(conversation.frames()).toEqual([])
    await conversation.settle()
    expect(conversation.transport.sent).toHaveLength(1)
    expect(conversation.reply(3)).toMatchObject({ ...OK, body: bodyOf('two') })
  })

  test('may have a message in many frames, some of them empty, with padding', () => {
    const conversation = Conversation.open()
    const body = grpc('a message in parts')
    const padded = Buffer.concat([Buffer.from([3]), body.subarray(7), Buffer.alloc(3)])
    conversation.send(
      headers(1, block(REQUEST)),
      data(1, body.subarray(0, 2), false),
      data(1, Buffer.alloc(0), false),
      data(1, body.subarray(2, 7), false),
      frame(FrameType.data, Flag.padded, 1, padded),
      data(1, Buffer.alloc(0)),
    )
    const frames = conversation.frames()
    expect(replyOf(frames, 1)).toMatchObject({ ...OK, body: bodyOf('a message in parts') })
    // Padding uses up the window, which a message otherwise fits.
    expect(frames).toContainEqual({
      type: FrameType.windowUpdate,
      flags: 0,
      id: 1,
      payload: Buffer.from([0, 0, 0, 4]),
    })
    expect(conversation.context.held.bytes).toBe(0)
  })

  test('may have headers in many frames, with padding and priority, and trailers', () => {
    const conversation = Conversation.open()
    const fields = block(REQUEST, 'indexed')
    const first = Buffer.concat([
      Buffer.from([2, 0, 0, 0, 0, 16]),
      fields.subarray(0, 9),
      Buffer.alloc(2),
    ])
    conversation.send(
      headers(1, first, Flag.padded | Flag.priority),
      continuation(1, fields.subarray(9, 40), 0),
      continuation(1, fields.subarray(40)),
      data(1, grpc('hello'), false),
      headers(1, block([['x-trailer', 'ignored']]), Flag.endHeaders | Flag.endStream),
    )
    expect(conversation.reply(1)).toMatchObject({ ...OK, body: bodyOf('hello') })
  })

  test('with an empty message is one', () => {
    const conversation = Conversation.open()
    conversation.send(call(1, ''))
    expect(conversation.reply(1)).toMatchObject({ ...OK, body: bodyOf('') })
  })

  test('states path, deadline, metadata and address', () => {
    const calls: UnaryCall[] = []
    const conversation = Conversation.open({
      methods: { [PATH]: (message, one) => (calls.push(one), message) },
      metadata: ['x-request-id', 'trace-bin'],
    })
    const more: readonly Field[] = [
      ['grpc-timeout', '20m'],
      ['x-request-id', 'a'],
      ['x-other', 'b'],
      ['x-request-id', 'c'],
    ]
    conversation.send(call(1, '', requestTo(PATH, ...more)), call(3))
    const [first, second] = calls
    expect(first).toMatchObject({
      path: PATH,
      remoteAddress: '192.0.2.7',
      deadlineMs: conversation.nowMs + 20,
    })
    expect(['x-request-id', 'trace-bin', 'x-other'].map((name) => first?.metadata(name))).toEqual([
      'a,c',
      undefined,
      undefined,
    ])
    expect(second?.deadlineMs).toBeUndefined()
    expect(second?.metadata('x-request-id')).toBeUndefined()
  })

  test('is not answered once it was reset, and says so to its handler', async () => {
    let one: UnaryCall | undefined
    const handler = async (message: Buffer, given: UnaryCall) => {
      one = given
      return message
    }
    const conversation = Conversation.open({ methods: { [PATH]: handler } })
    conversation.send(call(1))
    expect(one?.isReset).toBe(false)
    conversation.send(rstStream(1))
    expect(one?.isReset).toBe(true)
    expect(conversation.context.counters.activeStreams).toBe(1)
    await conversation.settle()
    expect(conversation.frames()).toEqual([])
    expect(conversation.context.counters).toMatchObject({ resets: 1, answers: 0, activeStreams: 0 })
  })

  test('leaves what a handler returns to it: one buffer may serve all answers', () => {
    const buffer = Buffer.alloc(1)
    let count = 0
    const conversation = Conversation.open({
      methods: { [PATH]: () => (buffer.writeUInt8(++count), buffer) },
    })
    conversation.send(call(1), call(3))
    const frames = conversation.frames()
    expect([1, 3].map((id) => replyOf(frames, id).body.at(-1))).toEqual(['\u0001', '\u0002'])
  })
})

describe('a handler that fails', () => {
  const failure = new GrpcStatusError(Status.resourceExhausted, 'no budget: 100%')
  test.each([
    [
      'throws',
      () => {
        throw failure
      },
    ],
    [
      'rejects',
      async () => {
        throw failure
      },
    ],
  ])('%s with a status, which is sent', async (_how, handler) => {
    const conversation = Conversation.open({ methods: { [PATH]: handler } })
    conversation.send(call(1))
    await conversation.settle()
    expect(conversation.reply(1)).toMatchObject({
      ...OK,
      grpcStatus: '8',
      grpcMessage: 'no budget: 100%25',
      body: '',
    })
    expect(conversation.errors).toEqual([])
  })

  const bug = new TypeError('secret')
  test.each([
    [
      'throws',
      () => {
        throw bug
      },
    ],
    [
      'rejects',
      async () => {
        throw bug
      },
    ],
  ])(
    '%s with anything else: INTERNAL, a report, and the connection goes on',
    async (_how, handler) => {
      const conversation = Conversation.open({
        methods: { [PATH]: handler, '/test.Service/Other': (message) => message },
      })
      conversation.send(call(1), call(3, 'after', requestTo('/test.Service/Other')))
      await conversation.settle()
      const frames = conversation.frames()
      expect(replyOf(frames, 1)).toMatchObject({
        ...OK,
        grpcStatus: '13',
        grpcMessage: 'Internal error.',
      })
      expect(replyOf(frames, 3)).toMatchObject({ ...OK, body: bodyOf('after') })
      expect(conversation.errors).toEqual([bug])
      expect(conversation.context.counters.handlerErrors).toBe(1)
    },
  )

  test.each([undefined, null, 'text', {}])('returns %s, which are no bytes', async (answer) => {
    const conversation = Conversation.open({ methods: { [PATH]: () => answer as never } })
    conversation.send(call(1))
    await conversation.settle()
    expect(conversation.reply(1)).toMatchObject({ grpcStatus: '13' })
    expect(conversation.errors).toHaveLength(1)
  })

  test('and a report that fails too end neither the connection nor the process', () => {
    const conversation = Conversation.open({
      methods: {
        [PATH]: () => {
          throw bug
        },
      },
      onError: () => {
        throw bug
      },
    })
    conversation.send(call(1))
    expect(conversation.reply(1)).toMatchObject({ grpcStatus: '13' })
  })
})

describe('windows of the client', () => {
  const answers = (size: number) => ({ methods: { [PATH]: () => Buffer.alloc(size, 'x') } })

  test('of one byte are obeyed, and opened by a byte each time', () => {
    const conversation = Conversation.open(answers(20), [Setting.initialWindowSize, 1])
    conversation.send(call(1))
    let body = conversation.reply(1).body
    expect(body).toHaveLength(1)
    for (let sent = 1; sent < 25; sent++) {
      conversation.send(windowUpdate(1, 1))
      const reply = conversation.reply(1)
      expect(reply.isEnded).toBe(sent === 24)
      body += reply.body
    }
    expect(body).toBe(bodyOf('x'.repeat(20)))
    expect(conversation.context.held.bytes).toBe(0)
  })

  test('that are closed hold an answer back until settings open them', () => {
    const conversation = Conversation.open(answers(20), [Setting.initialWindowSize, 0])
    conversation.send(call(1))
    expect(conversation.reply(1).body).toBe('')
    // The stream itself, and a message with its prefix.
    expect(conversation.context.held.bytes).toBe(512 + 25)
    conversation.send(settings([Setting.initialWindowSize, 10]))
    expect(conversation.reply(1)).toMatchObject({ body: bodyOf('x'.repeat(20)).slice(0, 10) })
    // Ten bytes are out, so the window becomes negative, and opens at the eleventh.
    conversation.send(settings([Setting.initialWindowSize, 5]), windowUpdate(1, 5))
    expect(conversation.reply(1).body).toBe('')
    conversation.send(windowUpdate(1, 100))
    expect(conversation.reply(1)).toMatchObject({ body: 'x'.repeat(15), isEnded: true })
  })

  test('of the connection are shared by the streams that wait, in their order', () => {
    const conversation = Conversation.open(answers(40_000), [
      Setting.initialWindowSize,
      2 ** 31 - 1,
    ])
    conversation.send(call(1), call(3), call(5))
    const first = conversation.frames()
    expect(replyOf(first, 1).isEnded).toBe(true)
    expect(replyOf(first, 1).body.length + replyOf(first, 3).body.length).toBe(65_535)
    conversation.send(windowUpdate(0, 20_000))
    const second = conversation.frames()
    expect(replyOf(second, 3).isEnded).toBe(true)
    expect(replyOf(second, 5).body).toHaveLength(20_000 - (80_010 - 65_535))
    conversation.send(rstStream(5), windowUpdate(0, 100))
    expect(conversation.frames()).toEqual([])
    expect(conversation.context.held.bytes).toBe(0)
  })

  test('that overflow are errors of the stream, or of the connection', () => {
    const conversation = Conversation.open(answers(20), [Setting.initialWindowSize, 0])
    conversation.send(call(1), windowUpdate(1, 2 ** 31 - 1), windowUpdate(1, 2 ** 31 - 1), call(3))
    expect(conversation.reply(1).isEnded).toBe(true)
    conversation.send(
      settings([Setting.initialWindowSize, 2 ** 31 - 1]),
      windowUpdate(3, 2 ** 31 - 1),
    )
    expect(conversation.transport.hasEnded).toBe(false)
    conversation.send(windowUpdate(0, 2 ** 31 - 1))
    expect(conversation.goawayCode()).toBe(ErrorCode.flowControlError)
  })

  test('large answers are cut into frames that every client accepts', () => {
    const conversation = Conversation.open(answers(50_000))
    conversation.send(call(1))
    const frames = conversation.frames()
    expect(replyOf(frames, 1).body).toHaveLength(50_005)
    for (const { payload } of frames) expect(payload.length).toBeLessThanOrEqual(16_384)
  })
})

describe('the window of this side', () => {
  test('is given back as it is used, so that a client never stops', () => {
    const conversation = Conversation.open()
    let window = 1024 * 1024
    for (let id = 1; id < 400; id += 2) {
      conversation.send(call(id, 'a'.repeat(16_000)))
      window -= 16_005
      for (const { type, id: stream, payload } of conversation.frames()) {
        if (type === FrameType.windowUpdate && stream === 0) window += payload.readUInt32BE(0)
      }
      expect(window).toBeGreaterThan(1024 * 512 - 16_005)
    }
  })

  test('must not be exceeded', () => {
    const conversation = Conversation.open({ limits: { messageBytes: 100 } })
    const get = REQUEST.map(([name, value]): Field => [name, name === ':method' ? 'PUT' : value])
    conversation.send(headers(1, block(get)))
    for (let sent = 0; sent < 4; sent++) conversation.send(data(1, Buffer.alloc(16_384), false))
    expect(conversation.reply(1).reset).toBe(ErrorCode.flowControlError)
  })
})

describe('the dynamic table of the client', () => {
  test('is told to be empty with the first answer, whatever the client sets later', () => {
    const conversation = Conversation.open({}, [Setting.headerTableSize, 0])
    conversation.send(call(1), call(3))
    const blocks = conversation.frames().filter(({ type }) => type === FrameType.headers)
    expect(blocks.map(({ payload }) => payload[0] === 0x20)).toEqual([true, false, false, false])
  })
})

describe('what belongs to streams that this side has reset', () => {
  test('is ignored, but its headers are decoded for the table', () => {
    const conversation = Conversation.open()
    const more: readonly Field[] = [...REQUEST, ['x-a', 'b']]
    conversation.send(headers(1, block([['X', '']])), data(1, Buffer.alloc(9), false))
    expect(conversation.reply(1).reset).toBe(ErrorCode.protocolError)
    conversation.send(headers(1, block(more, 'indexed'), 0x5), windowUpdate(1, 5), rstStream(1))
    // The table has seven fields now: from the newest, 62, back to the first, 68.
    conversation.send(headers(3, Buffer.from([0xc4, 0xc3, 0xc2, 0xc1, 0xc0, 0xbf, 0xbe])))
    conversation.send(data(3, grpc('hello')))
    expect(conversation.reply(3)).toMatchObject(OK)
  })
})

describe('a drain', () => {
  const DRAIN_ACK = (frames: readonly { type: number; payload: Buffer }[]) =>
    ping(frames.find(({ type }) => type === FrameType.ping)?.payload.toString(), Flag.ack)
  const lastStreams = (frames: readonly { type: number; payload: Buffer }[]) =>
    frames
      .filter(({ type }) => type === FrameType.goaway)
      .map(({ payload }) => payload.readUInt32BE(0))

  test('asks for no new streams, answers those under way, and says which was the last', () => {
    const conversation = Conversation.open()
    conversation.connection.drain(conversation.nowMs)
    const announced = conversation.frames()
    expect(lastStreams(announced)).toEqual([2 ** 31 - 1])
    conversation.send(call(1), DRAIN_ACK(announced), call(3))
    const frames = conversation.frames()
    expect(replyOf(frames, 1)).toMatchObject(OK)
    expect(lastStreams(frames)).toEqual([1])
    expect(replyOf(frames, 3).status).toBeUndefined()
    expect(conversation.transport.hasEnded).toBe(true)
  })

  test('counts the client as leaving until it has answered the PING', () => {
    const conversation = Conversation.open()
    expect(conversation.connection.isLeaving).toBe(false)
    conversation.connection.drain(conversation.nowMs)
    expect(conversation.connection.isLeaving).toBe(true)
    conversation.send(DRAIN_ACK(conversation.frames()))
    expect(conversation.connection.isLeaving).toBe(false)
  })

  test('waits for answers that promises give', async () => {
    const conversation = Conversation.open({ methods: { [PATH]: async (message) => message } })
    conversation.send(call(1))
    conversation.connection.drain(conversation.nowMs)
    conversation.send(DRAIN_ACK(conversation.frames()), call(3), data(3, Buffer.alloc(0)))
    expect(conversation.transport.hasEnded).toBe(false)
    await conversation.settle()
    expect(conversation.reply(1)).toMatchObject(OK)
    expect(conversation.transport.hasEnded).toBe(true)
  })

  test('goes on after a pause if the client does not answer the PING', () => {
    const conversation = Conversation.open({ limits: { noticeMs: 1_000 } })
    conversation.connection.drain(conversation.nowMs)
    conversation.frames()
    conversation.pass(999)
    expect(conversation.frames()).toEqual([])
    conversation.pass(1)
    expect(lastStreams(conversation.frames())).toEqual([0])
    expect(conversation.transport.hasEnded).toBe(true)
    expect(conversation.transport.isDestroyed).toBe(false)
    conversation.pass(1_001)
    expect(conversation.transport.isDestroyed).toBe(true)
  })
})

describe('the supervision of a connection', () => {
  const pingsOf = (conversation: Conversation) =>
    conversation.frames().filter(({ type }) => type === FrameType.ping)

  test('asks a silent client whether it is there, as long as it answers', () => {
    const conversation = Conversation.open({ limits: { pingMs: 60_000, pingTimeoutMs: 20_000 } })
    for (let round = 0; round < 3; round++) {
      conversation.pass(60_000)
      expect(pingsOf(conversation)).toEqual([])
      conversation.pass(1)
      const [asked, ...others] = pingsOf(conversation)
      expect(others).toEqual([])
      conversation.pass(20_000)
      expect(pingsOf(conversation)).toEqual([])
      conversation.send(ping(asked?.payload.toString(), Flag.ack))
    }
    expect(conversation.transport.hasEnded).toBe(false)
    expect(conversation.context.counters).toMatchObject({ stalled: 0, timeouts: 0 })
  })

  test('does not ask a client that goes on to send', () => {
    const conversation = Conversation.open()
    for (let id = 1; id < 100; id += 2) {
      conversation.send(call(id))
      conversation.pass(59_000)
    }
    expect(pingsOf(conversation)).toEqual([])
  })

  test('closes the connection of a client that sends nothing more', () => {
    const conversation = Conversation.open()
    conversation.pass(60_001)
    conversation.pass(20_000)
    expect(conversation.transport.isDestroyed).toBe(false)
    conversation.pass(1)
    expect(conversation.transport.isDestroyed).toBe(true)
    expect(conversation.context.counters).toMatchObject({ stalled: 1, timeouts: 1 })
  })

  test('waits for the answer only from when the PING has left', () => {
    const conversation = Conversation.open({ limits: { stalledMs: 1_000_000 } })
    conversation.transport.backlogBytes = 1
    for (let second = 0; second < 300; second++) conversation.pass(1_000)
    expect(conversation.transport.isDestroyed).toBe(false)
    conversation.transport.backlogBytes = 0
    conversation.pass(61_000)
    conversation.pass(20_001)
    expect(conversation.transport.isDestroyed).toBe(true)
  })

  test.each([
    [0, 0.9],
    [0.5, 1],
    [0.999, 1.0998],
  ])('drains it when it is old, for a random number of %d at %d times the age', (number, times) => {
    const limits = { ageMs: 3_600_000, pingMs: 2 ** 30, idleMs: 2 ** 30 }
    const conversation = Conversation.open({ limits, random: () => number })
    conversation.pass(times * limits.ageMs)
    expect(conversation.frames()).toEqual([])
    conversation.pass(1)
    expect(conversation.frames()[0]).toMatchObject({ type: FrameType.goaway })
    expect(conversation.transport.hasEnded).toBe(false)
  })

  test('resets a call whose handler takes too long, and goes on', () => {
    const never = () => new Promise<Buffer>(() => {})
    const conversation = Conversation.open({
      methods: { [PATH]: never },
      limits: { callMs: 40_000, requestMs: 10_000 },
    })
    conversation.send(call(1))
    conversation.pass(40_000)
    expect(conversation.reply(1).reset).toBeUndefined()
    conversation.pass(1)
    expect(conversation.reply(1).reset).toBe(ErrorCode.cancel)
    expect(conversation.connection.inFlight).toBe(0)
    expect(conversation.context.counters).toMatchObject({ timeouts: 1, activeStreams: 1 })
  })

  test('closes it when its calls go on for too long after it was asked to go', () => {
    const never = () => new Promise<Buffer>(() => {})
    const conversation = Conversation.open({ methods: { [PATH]: never } })
    conversation.send(call(1))
    conversation.connection.drain(conversation.nowMs)
    conversation.pass(60_000)
    expect(conversation.transport.hasEnded).toBe(false)
    expect(conversation.connection.inFlight).toBe(1)
    conversation.pass(1)
    expect(conversation.transport.isDestroyed).toBe(true)
    expect(conversation.connection.inFlight).toBe(0)
  })
})
