import { brotliCompressSync, gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { AnswerReader } from './answer-reader.js'
import { SAMPLES } from './answers.test-helper.js'

const TYPES = { json: 'application/json; charset=utf-8', events: 'text/event-stream' }

describe('the answer reader', () => {
  test.each(
    SAMPLES.flatMap((sample) =>
      (['', 'identity', 'gzip', 'br'] as const).map(
        (encoding) => [sample.name, encoding === '' ? 'none' : encoding, sample] as const,
      ),
    ),
  )('reads %s with the encoding %s', async (_name, encoding, { dialect, form, text, usage }) => {
    const compress = { gzip: gzipSync, br: brotliCompressSync }[encoding as 'gzip' | 'br']
    const bytes = compress?.(text) ?? Buffer.from(text)
    const contentEncoding = encoding === 'none' ? '' : encoding
    const answer = new AnswerReader(dialect, { contentType: TYPES[form], contentEncoding })
    for (let at = 0; at < bytes.length; at += 7) answer.push(bytes.subarray(at, at + 7))
    await answer.end()
    expect([answer.reported, answer.unread]).toEqual([usage, undefined])
    expect(answer.isPlainEvents).toBe(form === 'events' && compress === undefined)
  })

  test('says why it cannot read an answer', async () => {
    const json = '{"usage":{"prompt_tokens":1}}'
    const read = async (contentType: string, contentEncoding: string) => {
      const answer = new AnswerReader('openai', { contentType, contentEncoding })
      answer.push(Buffer.from(json))
      await answer.end()
      return [answer.unread, answer.reported, answer.outputSeen, answer.seenUsage(1)]
    }
    const nothing = [undefined, 0, undefined]
    expect(await read('audio/mpeg', '')).toEqual(['type', ...nothing])
    expect(await read('', '')).toEqual(['type', ...nothing])
    expect(await read('application/json', 'snappy')).toEqual(['encoding', ...nothing])
    expect(await read('application/json', 'gzip, br')).toEqual(['encoding', ...nothing])
    expect(await read('application/json', 'gzip')).toEqual(['encoding', ...nothing])
    const [unread, reported] = await read('application/vnd.api+json', 'identity')
    expect([unread, reported]).toMatchObject([undefined, { input: 1 }])
  })
})
