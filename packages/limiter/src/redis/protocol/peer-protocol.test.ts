import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type RedisReply, RedisReplyError } from '../connection/driver.js'
import { wordsCommand } from '../connection/run-command.js'
import { ReplyReader } from './read-reply.js'
import { RequestError, RequestReader } from './read-request.js'
import { encodeReply } from './write-reply.js'

const BYTES_MAX = 1000

/** Everything that a reader finds in these chunks. */
function readAll<Item>(
  reader: { push(chunk: Buffer): void; next(): Item | undefined },
  chunks: readonly Buffer[],
): readonly Item[] {
  const found: Item[] = []
  for (const chunk of chunks) {
    reader.push(chunk)
    for (let item = reader.next(); item !== undefined; item = reader.next()) found.push(item)
  }
  return found
}

/** The same bytes, cut at these places. */
function cut(bytes: Buffer, places: readonly number[]): readonly Buffer[] {
  const edges = [0, ...places.map((place) => place % (bytes.length + 1)), bytes.length]
  const sorted = edges.toSorted((a, b) => a - b)
  return sorted.slice(1).map((end, i) => bytes.subarray(sorted[i], end))
}

const places = fc.array(fc.nat(), { maxLength: 5 })
const word = fc.uint8Array({ maxLength: 50 }).map((bytes) => Buffer.from(bytes))

describe('requests of a peer', () => {
  test('are read as they were written, wherever the connection cuts them', () => {
    const requests = fc.array(fc.array(word, { minLength: 1, maxLength: 4 }), { maxLength: 5 })
    fc.assert(
      fc.property(requests, places, (sent, edges) => {
        const bytes = Buffer.concat(sent.map((words) => wordsCommand(words).bytes()))
        expect(readAll(new RequestReader(BYTES_MAX), cut(bytes, edges))).toEqual(sent)
      }),
    )
  })

  test.each([
    ['another mark', 'PING\r\n'],
    ['no words', '*0\r\n'],
    ['more words than a request has', '*17\r\n'],
    ['a length that is no number', '*x\r\n'],
    ['a length without digits', '*\r\n'],
    ['a negative length', '*1\r\n$-1\r\n'],
    ['a length of many digits', '*1\r\n$99999999999\r\n'],
    ['a word that is too long', `*1\r\n$${BYTES_MAX + 1}\r\n`],
    ['words that are too long together', `*2\r\n$1000\r\n${'a'.repeat(1000)}\r\n$1000\r\n`],
    ['a word that is longer than it says', '*1\r\n$2\r\nabc\r\n'],
  ])('with %s are an error', (_, text) => {
    const reader = new RequestReader(BYTES_MAX)
    reader.push(Buffer.from(text))
    expect(() => reader.next()).toThrow(RequestError)
  })
})

describe('replies to a peer', () => {
  const leaf = fc.oneof(word, fc.maxSafeInteger(), fc.constant(null))
  const reply: fc.Arbitrary<RedisReply> = fc.oneof(leaf, fc.array(leaf, { maxLength: 3 }))

  test('are read as they were written, wherever the connection cuts them', () => {
    fc.assert(
      fc.property(fc.array(reply, { maxLength: 5 }), places, (sent, edges) => {
        const bytes = Buffer.concat(sent.map((each) => encodeReply(each)))
        expect(readAll(new ReplyReader(), cut(bytes, edges))).toEqual(sent)
      }),
    )
  })

  test('are errors with their message on one line', () => {
    const bytes = encodeReply(new RedisReplyError('ERR a\r\nb'))
    expect(readAll(new ReplyReader(), [bytes])).toEqual([new RedisReplyError('ERR a b')])
  })

  test.each([
    ['another mark', 'x\r\n'],
    ['a number that is none', ':1x\r\n'],
    ['too many elements', '*2000\r\n'],
    ['arrays in arrays', '*1\r\n*1\r\n:1\r\n'],
    ['a negative length', '$-2\r\n'],
  ])('with %s are refused', (_, text) => {
    const reader = new ReplyReader()
    reader.push(Buffer.from(text))
    expect(() => reader.next()).toThrow(Error)
  })
})
