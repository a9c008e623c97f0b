/** Frames that break HTTP/2: most end the connection, some only their stream. */
import { describe, expect, test } from 'vitest'
import {
  block,
  call,
  continuation,
  Conversation,
  data,
  frame,
  headers,
  PATH,
  ping,
  priority,
  replyOf,
  REQUEST,
  rstStream,
  settings,
  windowUpdate,
} from './conversation.test-helper.js'
import { ErrorCode, FrameType, PREFACE, Setting } from './frames.js'

describe('frames that break HTTP/2', () => {
  const { protocolError, frameSizeError, flowControlError, streamClosed } = ErrorCode
  const empty = Buffer.alloc(0)
  test.each([
    ['DATA of the connection', [data(0, empty)], protocolError],
    ['DATA of a stream that was not opened', [data(1, empty)], protocolError],
    ['DATA of a stream that has ended', [call(1), data(1, empty)], streamClosed],
    ['HEADERS of a stream that has ended', [call(1), headers(1, block(REQUEST))], streamClosed],
    ['HEADERS of a stream that was left out', [call(5), headers(3, block(REQUEST))], protocolError],
    ['HEADERS of the connection', [headers(0, block(REQUEST))], protocolError],
    ['HEADERS of an even stream', [headers(2, block(REQUEST))], protocolError],
    [
      'HEADERS that depend on themselves',
      [headers(1, Buffer.from([0, 0, 0, 1, 0]), 0x24)],
      protocolError,
    ],
    ['HEADERS without their priority', [headers(1, Buffer.alloc(4), 0x24)], frameSizeError],
    ['padding longer than its frame', [headers(1, Buffer.from([9, 0]), 0xc)], protocolError],
    ['padding without its length', [headers(1, empty, 0xc)], protocolError],
    ['CONTINUATION without HEADERS', [continuation(1, empty)], protocolError],
    ['a frame within headers', [headers(1, empty, 0), ping()], protocolError],
    [
      'CONTINUATION of another stream',
      [headers(1, empty, 0), continuation(3, empty)],
      protocolError,
    ],
    ['PUSH_PROMISE', [frame(FrameType.pushPromise, 4, 1, Buffer.alloc(4))], protocolError],
    ['PRIORITY of the connection', [priority(0)], protocolError],
    ['PRIORITY on itself', [priority(3, 3)], protocolError],
    ['PRIORITY of a wrong length', [frame(FrameType.priority, 0, 1, empty)], frameSizeError],
    ['RST_STREAM of the connection', [rstStream(0)], protocolError],
    ['RST_STREAM of a stream that was not opened', [rstStream(1)], protocolError],
    ['RST_STREAM of a wrong length', [frame(FrameType.rstStream, 0, 1, empty)], frameSizeError],
    ['SETTINGS of a stream', [frame(FrameType.settings, 0, 1, empty)], protocolError],
    [
      'SETTINGS of a wrong length',
      [frame(FrameType.settings, 0, 0, Buffer.alloc(5))],
      frameSizeError,
    ],
    [
      'an acknowledgement with settings',
      [frame(FrameType.settings, 1, 0, Buffer.alloc(6))],
      frameSizeError,
    ],
    ['ENABLE_PUSH of 2', [settings([Setting.enablePush, 2])], protocolError],
    ['a window of 2^31', [settings([Setting.initialWindowSize, 2 ** 31])], flowControlError],
    ['small frames', [settings([Setting.maxFrameSize, 16_383])], protocolError],
    ['large frames', [settings([Setting.maxFrameSize, 2 ** 24])], protocolError],
    ['PING of a stream', [frame(FrameType.ping, 0, 1, Buffer.alloc(8))], protocolError],
    ['PING of a wrong length', [frame(FrameType.ping, 0, 0, Buffer.alloc(7))], frameSizeError],
    ['GOAWAY of a stream', [frame(FrameType.goaway, 0, 1, Buffer.alloc(8))], protocolError],
    ['GOAWAY of a wrong length', [frame(FrameType.goaway, 0, 0, Buffer.alloc(7))], frameSizeError],
    ['WINDOW_UPDATE of nothing', [windowUpdate(0, 0)], protocolError],
    ['WINDOW_UPDATE of an idle stream', [windowUpdate(1, 1)], protocolError],
    [
      'WINDOW_UPDATE of a wrong length',
      [frame(FrameType.windowUpdate, 0, 0, empty)],
      frameSizeError,
    ],
    [
      'a frame of 16,385 bytes',
      [frame(FrameType.ping, 0, 0, Buffer.alloc(16_385))],
      frameSizeError,
    ],
  ])('end the connection: %s', (_what, frames, code) => {
    const conversation = Conversation.open()
    conversation.send(...frames, call(7))
    const sent = conversation.frames()
    const last = sent.at(-1)
    expect(last?.type).toBe(FrameType.goaway)
    expect(last?.payload.readUInt32BE(4)).toBe(code)
    expect(replyOf(sent, 7).status).toBeUndefined()
    expect(conversation.transport.hasEnded).toBe(true)
    expect(conversation.context.counters.protocolErrors).toBe(1)
  })

  test.each([
    ['no preface', [Buffer.from('GET / HTTP/1.1\r\n\r\n')]],
    ['a preface that goes wrong', [PREFACE.subarray(0, 20), Buffer.from('nope')]],
    ['no settings after the preface', [PREFACE, ping()]],
    ['an acknowledgement as the first settings', [PREFACE, frame(FrameType.settings, 1, 0, empty)]],
  ])('end the connection: %s', (_what, chunks) => {
    const conversation = new Conversation()
    for (const chunk of chunks) conversation.send(chunk)
    expect(conversation.goawayCode()).toBe(protocolError)
    expect(conversation.transport.hasEnded).toBe(true)
  })

  test('are errors of their stream alone where HTTP/2 says so', () => {
    const conversation = Conversation.open({ methods: { [PATH]: async (message) => message } })
    conversation.send(call(1), windowUpdate(1, 0), call(3), data(3, empty), call(5), call(7))
    conversation.send(headers(5, block(REQUEST)), headers(9, block(REQUEST)))
    conversation.send(headers(9, block([['x-trailer', '']])))
    const frames = conversation.frames()
    expect([1, 3, 5, 9].map((id) => replyOf(frames, id).reset)).toEqual([
      protocolError,
      streamClosed,
      streamClosed,
      protocolError,
    ])
    expect(conversation.transport.hasEnded).toBe(false)
  })
})
