/** The same bytes, cut anywhere, are answered alike, and no bytes make a connection throw. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { propertyRuns } from '../../../tools/property-runs.js'
import {
  block,
  call,
  continuation,
  Conversation,
  data,
  frame,
  framesOf,
  goaway,
  grpc,
  headers,
  PATH,
  ping,
  priority,
  REQUEST,
  requestTo,
  rstStream,
  settings,
  settingsAck,
  windowUpdate,
} from './conversation.test-helper.js'
import { Flag, FrameType, PREFACE, Setting } from './frames.js'

const indexed = block(REQUEST, 'indexed')
const body = grpc('a message in some parts')

/** One of everything that clients send. */
const CONVERSATION = Buffer.concat([
  PREFACE,
  settings([Setting.initialWindowSize, 40], [Setting.headerTableSize, 0]),
  settingsAck(),
  windowUpdate(0, 1_000),
  headers(1, indexed),
  data(1, body.subarray(0, 3), false),
  ping(),
  data(1, body.subarray(3)),
  windowUpdate(1, 9),
  priority(3, 1),
  headers(3, block(requestTo('/test.Service/Unknown')), Flag.endHeaders | Flag.endStream),
  headers(5, indexed.subarray(0, 10), 0),
  continuation(5, indexed.subarray(10)),
  frame(
    FrameType.data,
    Flag.padded | Flag.endStream,
    5,
    Buffer.concat([Buffer.from([2]), body, Buffer.alloc(2)]),
  ),
  rstStream(1),
  call(7, 'x'.repeat(200)),
  settings([Setting.initialWindowSize, 500]),
  frame(77, 1, 9, Buffer.from('unknown')),
  headers(9, block(REQUEST)),
  data(9, grpc('', 1), false),
  data(9, Buffer.alloc(3)),
  goaway(),
])

function answersTo(chunks: readonly Uint8Array[]): Conversation {
  const conversation = new Conversation({ methods: { [PATH]: (message) => message } })
  for (const chunk of chunks) conversation.send(chunk)
  return conversation
}

const bytesOf = (conversation: Conversation) => Buffer.concat(conversation.transport.sent)

function cut(bytes: Buffer, places: readonly number[]): readonly Buffer[] {
  const sorted = [
    0,
    ...places.map((at) => at % bytes.length).toSorted((one, other) => one - other),
    bytes.length,
  ]
  return sorted.slice(1).map((end, index) => bytes.subarray(sorted[index], end))
}

const whole = bytesOf(answersTo([CONVERSATION]))

test('a conversation byte by byte is answered as in one chunk', () => {
  expect(framesOf(whole).length).toBeGreaterThan(15)
  const bytes = Array.from(CONVERSATION, (byte) => Uint8Array.of(byte))
  expect(bytesOf(answersTo(bytes))).toEqual(whole)
})

test('a conversation that is cut anywhere is answered as in one chunk', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(), { maxLength: 30 }), (places) => {
      expect(bytesOf(answersTo(cut(CONVERSATION, places)))).toEqual(whole)
    }),
    { numRuns: propertyRuns(2_000) },
  )
})

const change = fc.record({
  kind: fc.constantFrom('set' as const, 'remove' as const, 'insert' as const, 'repeat' as const),
  at: fc.nat(CONVERSATION.length - 1),
  byte: fc.nat(255),
  length: fc.integer({ min: 1, max: 40 }),
})

function mutate(
  bytes: Buffer,
  changes: readonly { kind: string; at: number; byte: number; length: number }[],
): Buffer {
  return changes.reduce((all, { kind, at, byte, length }) => {
    const [before, after] = [all.subarray(0, at), all.subarray(at)]
    if (kind === 'remove') return Buffer.concat([before, after.subarray(length)])
    if (kind === 'insert') return Buffer.concat([before, Buffer.alloc(length, byte), after])
    if (kind === 'repeat') return Buffer.concat([before, after.subarray(0, length), after])
    return Buffer.concat([before, Buffer.from([byte]), after.subarray(1)])
  }, bytes)
}

test('no change of a conversation makes the server throw, report a mistake, or keep memory', () => {
  let ended = 0
  fc.assert(
    fc.property(
      fc.array(change, { minLength: 1, maxLength: 8 }),
      fc.array(fc.nat()),
      (changes, places) => {
        const conversation = answersTo(cut(mutate(CONVERSATION, changes), places))
        expect(conversation.errors).toEqual([])
        // All that was sent is whole frames.
        framesOf(bytesOf(conversation))
        if (conversation.transport.hasEnded) ended += 1
        for (const ms of [30_001, 30_001, 3_000]) conversation.pass(ms)
        conversation.connection.onClosed()
        expect(conversation.context.held.bytes).toBe(0)
        expect(conversation.context.counters.activeStreams).toBe(0)
      },
    ),
    { numRuns: propertyRuns(20_000) },
  )
  expect(ended).toBeGreaterThan(0)
})
