import { describe, expect, test } from 'vitest'
import type { UsageDialect } from './dialects.js'
import { readRequest, unreadRequest } from './request-reader.js'

const CHAT = '/v1/chat/completions'
const MESSAGES = '/v1/messages'

const read = (dialect: UsageDialect, path: string, body: object | string) =>
  readRequest(dialect, path, Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)))
const maximumOf = (path: string, body: object | string) => read('openai', path, body).maximum

describe('the request reader', () => {
  test('reads model, stream, maximum and the length of all text, of keys too', () => {
    const body = { model: 'gpt-5', stream: true, max_tokens: 50, messages: [{ content: 'abcd' }] }
    const keys = 'model'.length + 'stream'.length + 'max_tokens'.length + 'messages'.length
    const text = keys + 'gpt-5'.length + 'content'.length + 'abcd'.length
    expect(read('openai', CHAT, body)).toEqual({
      // A number counts four bytes.
      characters: text + 4,
      maximum: 50,
      answers: 1,
      model: 'gpt-5',
      stream: true,
    })
  })

  test('counts characters beyond ASCII as the bytes that they take, escaped or not', () => {
    const lengthOf = (body: string) => read('openai', CHAT, body).characters
    expect(lengthOf('{"a":"水门"}')).toBe(1 + 6)
    expect(lengthOf(String.raw`{"a":"\u6c34\u95e8"}`)).toBe(1 + 6)
    expect(lengthOf(String.raw`{"a":"\n\"\\"}`)).toBe(1 + 3)
  })

  test('counts a prompt of token numbers as tokens', () => {
    const prompt = Array.from({ length: 1000 }, (_, index) => index)
    const { characters } = read('openai', '/v1/completions', { prompt })
    expect(characters).toBe('prompt'.length + 4 * 1000)
  })

  test('takes the largest maximum that the API reads, and none that it ignores', () => {
    expect(maximumOf(CHAT, { max_tokens: 1, max_completion_tokens: 90 })).toBe(90)
    expect(maximumOf(CHAT, '{"max_tokens":90,"max_tokens":1}')).toBe(90)
    expect(maximumOf(CHAT, { max_output_tokens: 1 })).toBeUndefined()
    expect(maximumOf('/v1/responses', { max_tokens: 1 })).toBeUndefined()
    expect(maximumOf('/v1/Responses/', { max_output_tokens: 7 })).toBe(7)
    expect(maximumOf('/v1/other', { max_tokens: 1, max_output_tokens: 7 })).toBe(7)
    expect(maximumOf('/v1/embeddings', { max_tokens: 5, input: 'x' })).toBe(0)
    expect(read('anthropic', MESSAGES, { max_tokens: 6 }).maximum).toBe(6)
    expect(read('anthropic', `${MESSAGES}/count_tokens`, {}).maximum).toBe(0)
  })

  test.each([0, -1, 1.5, '"9"', 'null', '[9]', '1e400'])('takes no maximum of %s', (value) => {
    expect(maximumOf(CHAT, `{"max_tokens":${value}}`)).toBeUndefined()
  })

  test('bounds the maximum and the number of answers', () => {
    const facts = read('openai', CHAT, { max_tokens: 1e15, n: 1e15 })
    expect([facts.maximum, facts.answers]).toEqual([1e7, 1000])
  })

  test('counts several answers, and one for each prompt', () => {
    const answersOf = (body: object) => read('openai', '/v1/completions', body).answers
    expect(answersOf({ n: 3 })).toBe(3)
    expect(answersOf({ n: 2, best_of: 5 })).toBe(5)
    expect(answersOf({ prompt: ['a', 'b'], n: 4 })).toBe(8)
    expect(answersOf({ prompt: 'a', n: 0 })).toBe(1)
  })

  test('counts an image as 1,600 tokens, encoded or by its address', () => {
    const data = 'A'.repeat(100_000)
    const urls = [`data:image/png;base64,${data}`, 'https://images.example/a.png']
    for (const url of urls) {
      const chat = { messages: [{ content: [{ image_url: { url } }] }] }
      const response = { input: [{ content: [{ image_url: url }] }] }
      for (const body of [chat, response]) {
        const { characters } = read('openai', CHAT, body)
        expect(characters - 6400).toBeGreaterThan(0)
        expect(characters - 6400).toBeLessThan(100)
      }
    }
    const source = { type: 'base64', media_type: 'image/png', data }
    const message = { messages: [{ content: [{ source }, { content: [{ source }] }] }] }
    expect(read('anthropic', MESSAGES, message).characters - 2 * 6400).toBeLessThan(200)
  })

  test('counts documents and text that claim to be no image by their length', () => {
    const data = 'A'.repeat(100_000)
    for (const source of [
      { type: 'text', media_type: 'text/plain', data },
      { type: 'text', media_type: 'image/png', data },
      { type: 'base64', media_type: 'application/pdf', data },
    ]) {
      const { characters } = read('anthropic', MESSAGES, { messages: [{ content: [{ source }] }] })
      expect(characters).toBeGreaterThan(100_000)
    }
  })

  test.each([
    ['no JSON', 'model=gpt-5&max_tokens=1'],
    ['a form', '--boundary\r\n{"model":"gpt-5"}'],
    ['a list', '[{"model":"gpt-5"}]'],
    ['JSON that breaks off', '{"model":"gpt-5","max_tokens":1'],
    ['nothing', ''],
  ])('estimates %s from its length alone', (_name, body) => {
    expect(read('openai', CHAT, body)).toEqual(unreadRequest(body.length))
  })

  test('has no model if its name is empty, longer than 256 bytes or no text', () => {
    for (const model of ['', 'm'.repeat(257), 5, null, ['gpt-5']]) {
      expect(read('openai', CHAT, { model }).model).toBeUndefined()
    }
    const longest = 'm'.repeat(256)
    expect(read('openai', CHAT, { model: longest }).model).toBe(longest)
  })

  test('has no model, and may be a stream, if it says two things of them', () => {
    const twice = '{"model":"gpt-5","model":"cheap","stream":true,"stream":false}'
    expect(read('openai', CHAT, twice)).toMatchObject({ model: undefined, stream: undefined })
    const long = `{"model":"cheap","model":"${'m'.repeat(257)}"}`
    expect(read('openai', CHAT, long).model).toBeUndefined()
    const same = '{"model":"gpt-5","model":"gpt-5","stream":true,"stream":true}'
    expect(read('openai', CHAT, same)).toMatchObject({ model: 'gpt-5', stream: true })
  })

  test('counts a compressed body as longer than its bytes', () => {
    expect(unreadRequest(100, true).characters).toBe(800)
  })
})
