import { describe, expect, test } from 'vitest'
import { eventsOf, SAMPLES } from './answers.test-helper.js'
import { UsageReader } from './usage-reader.js'

function readWhole(dialect: 'openai' | 'anthropic', form: 'json' | 'events', text: string) {
  const reader = new UsageReader(dialect, form)
  reader.push(Buffer.from(text))
  reader.end()
  return reader
}

const tokensOf = (length: number) => Math.ceil(length / 4)

describe('the usage reader', () => {
  test.each(SAMPLES.map((sample) => [sample.name, sample] as const))(
    'reads the usage and the length of %s',
    (_name, { dialect, form, text, usage, written }) => {
      const reader = readWhole(dialect, form, text)
      expect(reader.reported).toEqual(usage)
      expect(reader.outputSeen).toBe(
        Math.max(tokensOf(written), dialect === 'anthropic' && form === 'events' ? 1 : 0),
      )
    },
  )

  test('charges the estimated input and the text that was seen if no usage is reported', () => {
    const text = eventsOf([{ choices: [{ delta: { content: 'x'.repeat(41) } }] }])
    const reader = readWhole('openai', 'events', text)
    expect(reader.reported).toBeUndefined()
    expect(reader.seenUsage(70)).toEqual({ input: 70, cached: 0, output: 11, reasoning: 0 })
  })

  test('charges the reported input and the text that was seen of a message that broke off', () => {
    const usage = { input_tokens: 9, cache_read_input_tokens: 5, output_tokens: 3 }
    const begin = [
      { type: 'message_start', message: { usage } },
      { type: 'content_block_delta', delta: { text: 'x'.repeat(8) } },
    ]
    const reader = readWhole('anthropic', 'events', eventsOf(begin))
    expect(reader.reported).toBeUndefined()
    expect(reader.seenUsage(70)).toEqual({ input: 14, cached: 5, output: 3, reasoning: 0 })
    reader.push(Buffer.from(eventsOf([{ delta: { partial_json: 'y'.repeat(12) } }])))
    expect(reader.seenUsage(70)?.output).toBe(5)
  })

  test('knows nothing of an answer without usage and text', () => {
    for (const text of ['{"data":[]}', '', '[DONE]', '{"error":{"message":"no"}}']) {
      const reader = readWhole('openai', 'json', text)
      expect([reader.reported, reader.seenUsage(70)]).toEqual([undefined, undefined])
    }
  })

  test('ignores the usage of an event or a text that broke off, also if others follow', () => {
    const half = 'data: {"usage":{"completion_tokens":5,"prompt_tokens":1\n\n'
    expect(readWhole('openai', 'events', half).reported).toBeUndefined()
    const other = `${half}data: {"usage":{"prompt_tokens":2}}\n\n`
    expect(readWhole('openai', 'events', other).reported).toMatchObject({ input: 2, output: 0 })
    expect(readWhole('openai', 'json', half.slice(6)).reported).toBeUndefined()
  })

  test('reads the last event of a stream that ends without an empty line', () => {
    const text = 'data: {"usage":{"completion_tokens":5}}'
    expect(readWhole('openai', 'events', text).reported).toMatchObject({ output: 5 })
  })

  test('takes the largest of several reports: a later event may leave a number at 0', () => {
    const started = { type: 'message_start', message: { usage: { input_tokens: 500 } } }
    const ended = { type: 'message_delta', usage: { input_tokens: 0, output_tokens: 9 } }
    expect(readWhole('anthropic', 'events', eventsOf([started, ended])).reported).toMatchObject({
      input: 500,
      output: 9,
    })
    const whole = { usage: { prompt_tokens: 11, completion_tokens: 22 } }
    const zeros = { usage: { prompt_tokens: 0, completion_tokens: 0 } }
    expect(readWhole('openai', 'events', eventsOf([whole, zeros])).reported).toMatchObject({
      input: 11,
      output: 22,
    })
  })

  test.each([1, 2, 1000])(
    'reads the first event after a byte order mark, %i bytes at a time',
    (size) => {
      const bytes = Buffer.from(`\ufeff${eventsOf([{ usage: { completion_tokens: 5 } }])}`)
      const reader = new UsageReader('openai', 'events')
      for (let at = 0; at < bytes.length; at += size) reader.push(bytes.subarray(at, at + size))
      reader.end()
      expect(reader.reported).toMatchObject({ output: 5 })
    },
  )

  test('takes the last of several reports, and joins the data lines of one event', () => {
    const text =
      'data: {"usage":{"completion_tokens":5}}\n\nid: 7\ndata:{"usage":\ndata: {"completion_tokens":6}}\n\n'
    expect(readWhole('openai', 'events', text).reported).toMatchObject({ output: 6 })
  })

  test.each([
    ['negative', '-5'],
    ['fractional', '5.5'],
    ['absurdly large', '1e300'],
    ['text', '"5"'],
    ['null', 'null'],
    ['a list', '[5]'],
    ['too long', '9'.repeat(400)],
  ])('takes no number for tokens that is %s', (_name, value) => {
    expect(
      readWhole('openai', 'json', `{"usage":{"prompt_tokens":${value}}}`).reported,
    ).toBeUndefined()
  })

  test('reads no usage from the text that a model wrote, nor from another place', () => {
    const usage = { usage: { prompt_tokens: 1, completion_tokens: 2 } }
    const answer = {
      choices: [{ message: { content: JSON.stringify(usage), ...usage } }],
      x: usage,
    }
    expect(readWhole('openai', 'json', JSON.stringify(answer)).reported).toBeUndefined()
  })

  test('reads keys that are written with escapes', () => {
    const text = String.raw`{"\u0075sage":{"prompt\u005ftokens":3}}`
    expect(readWhole('openai', 'json', text).reported).toMatchObject({ input: 3 })
  })
})
