/** Requests to a language model through a whole gateway, with counters in memory. */
import { connect } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { startTestServer, type TestServer } from '../../../serve.test-helper.js'
import { sendRequest } from '../forward.test-helper.js'
import {
  ANSWER_HEADER,
  type FakeAnswer,
  type FakeLlm,
  PATHS,
  startFakeLlm,
} from './fake-llm.test-helper.js'
import { READ_BODY_MAX } from './metered-requests.js'

/** The page that says what was used has a limit of its own: 10 requests a second. */
const SOON = { timeout: 20_000, interval: 150 }
const KEY = 'key-of-acme-0123456789'
const MAX = 1_000_000

/** Exact windows, so that what is left says what was charged. */
const rule = (id: string, more: object = {}) => ({
  id,
  by: ['ip'],
  limits: [{ algorithm: 'fixed-window', max: MAX, window: '366d' }],
  ...more,
})
const metered = (attribute: string, more: object = {}) =>
  rule(attribute.replace('_', '-'), { cost: { attribute }, ...more })
const RULES = [
  rule('requests'),
  ...['input_tokens', 'output_tokens', 'tokens', 'spend'].map((each) => metered(each)),
]

let llm: FakeLlm
let server: TestServer | undefined
beforeEach(async () => {
  llm = await startFakeLlm()
})
afterEach(async () => {
  await server?.close()
  server = undefined
  await llm.close()
})

async function start(rules: readonly object[] = RULES, upstream: object = {}, config: object = {}) {
  server = await startTestServer({
    rules,
    config: {
      gateway: {
        upstreams: [
          {
            url: llm.origin,
            usage: 'openai',
            prices: { 'gpt-5': { input: 2, output: 10 }, cheap: { input: 1, output: 1 } },
            ...upstream,
          },
        ],
        timeouts: { stall: '1s' },
      },
      ...config,
    },
    env: { SLUICE_UPSTREAM: '' },
  })
  return server
}

const ask = (body: object | Buffer, wanted: FakeAnswer = {}, more: object = {}) =>
  sendRequest(
    server?.gatewayPort ?? 0,
    {
      method: 'POST',
      path: PATHS.openai,
      ...more,
      headers: {
        [ANSWER_HEADER]: JSON.stringify(wanted),
        ...('headers' in more ? (more.headers as object) : {}),
      },
    },
    Buffer.isBuffer(body) ? body : JSON.stringify(body),
  )

/** What was used of each rule's limit. */
async function used(): Promise<Readonly<Record<string, number>>> {
  const { body } = await sendRequest(server?.gatewayPort ?? 0, { path: '/_sluice/limits' })
  const { limits } = JSON.parse(body.toString()) as {
    limits: { readonly rule: string; readonly limit: number; readonly remaining: number }[]
  }
  return Object.fromEntries(limits.map((each) => [each.rule, each.limit - each.remaining]))
}

const CHAT = { model: 'gpt-5', messages: [{ role: 'user', content: 'hello' }], max_tokens: 100 }

describe('a request to a language model', () => {
  test('is charged what its answer reports: requests, tokens of both kinds, and money', async () => {
    await start()
    const { status, body } = await ask(CHAT, { input: 30, output: 7 })
    expect([status, JSON.parse(body.toString())]).toMatchObject([
      200,
      { usage: { prompt_tokens: 30 } },
    ])
    await expect.poll(used, SOON).toEqual({
      requests: 1,
      'input-tokens': 30,
      'output-tokens': 7,
      tokens: 37,
      spend: 30 * 2 + 7 * 10,
    })
  })

  test('is decided with its model and whether it streams', async () => {
    const { adminPort } = await start([
      rule('one-model', { match: { where: { model: ['gpt-5'] } } }),
      rule('streams', { match: { where: { stream: ['true'] } } }),
      rule('by-model', { by: ['model'], limits: ['1/day'] }),
    ])
    await ask(CHAT)
    await ask({ ...CHAT, model: 'cheap', stream: true })
    expect((await ask(CHAT)).status).toBe(429)
    const { body } = await sendRequest(adminPort, { path: '/metrics' })
    const decided = body.toString().match(/^sluice_decisions_total\{.*/gm)
    expect(decided).toEqual([
      'sluice_decisions_total{rule="by-model",outcome="allowed",source="store"} 2',
      'sluice_decisions_total{rule="by-model",outcome="refused",source="store"} 1',
      'sluice_decisions_total{rule="one-model",outcome="allowed",source="store"} 2',
      'sluice_decisions_total{rule="streams",outcome="allowed",source="store"} 1',
    ])
  })

  test('is refused with 429 if its estimate exceeds what is left, and reaches no model', async () => {
    await start([
      metered('tokens', { limits: [{ algorithm: 'fixed-window', max: 150, window: '366d' }] }),
    ])
    expect((await ask(CHAT, { input: 20, output: 30 })).status).toBe(200)
    await expect.poll(used, SOON).toEqual({ tokens: 50 })
    const refused = await ask({ ...CHAT, max_tokens: 10_000 })
    expect([refused.status, refused.headers['retry-after'] !== undefined]).toEqual([429, true])
    expect(llm.bodies).toHaveLength(1)
    expect(await used()).toEqual({ tokens: 50 })
  })

  test('passes although its estimate exceeds the smallest limit, if nothing was used before', async () => {
    await start([
      metered('tokens', { limits: [{ algorithm: 'fixed-window', max: 60, window: '366d' }] }),
    ])
    expect((await ask({ ...CHAT, max_tokens: undefined }, { input: 8, output: 2 })).status).toBe(
      200,
    )
    await expect.poll(used, SOON).toEqual({ tokens: 10 })
  })

  test.each([400, 429, 500, 503])(
    'is counted, but charged no tokens, if the model answers %i',
    async (status) => {
      await start()
      expect((await ask(CHAT, { status })).status).toBe(status)
      await expect
        .poll(used, SOON)
        .toEqual({ requests: 1, 'input-tokens': 0, 'output-tokens': 0, tokens: 0, spend: 0 })
    },
  )

  test('is counted, but charged no tokens, if the upstream cannot be reached', async () => {
    await start(RULES, { url: 'http://127.0.0.1:9' })
    expect((await ask(CHAT)).status).toBe(502)
    await expect.poll(used, SOON).toMatchObject({ requests: 1, tokens: 0, spend: 0 })
  })

  test('of another method, or without a body, costs no tokens', async () => {
    await start()
    const { status } = await sendRequest(server?.gatewayPort ?? 0, { path: '/v1/models' })
    expect(status).toBe(200)
    await ask({}, {}, { method: 'DELETE' })
    expect(await used()).toMatchObject({ requests: 2, tokens: 0, spend: 0 })
  })

  test('that is refused for its key gives its tokens back', async () => {
    const identity = { apiKey: { unknown: 'refuse' }, keys: [{ key: KEY, user: 'acme' }] }
    await start(RULES, {}, { identity })
    const { status } = await ask(CHAT, {}, { headers: { 'x-api-key': 'unknown-key-0123456789' } })
    expect(status).toBe(401)
    await expect.poll(used, SOON).toMatchObject({ requests: 1, tokens: 0, spend: 0 })
    expect(llm.bodies).toEqual([])
  })

  test('gives everything back if its client leaves while it is held', async () => {
    const slow = { algorithm: 'leaky-bucket', max: 1, window: '1h', queue: 10, maxWait: '10h' }
    const { gatewayPort, adminPort } = await start([
      rule('slow', { limits: [slow] }),
      metered('tokens'),
    ])
    await ask(CHAT)
    await expect.poll(used, SOON).toMatchObject({ tokens: 15 })
    const client = connect(gatewayPort, '127.0.0.1')
    const body = JSON.stringify(CHAT)
    client.write(
      `POST ${PATHS.openai} HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    )
    const held = async () => {
      const { body: metrics } = await sendRequest(adminPort, { path: '/metrics' })
      return metrics.toString().includes('\nsluice_held_calls 1\n')
    }
    await vi.waitUntil(held, SOON)
    client.destroy()
    await expect.poll(used, SOON).toMatchObject({ tokens: 15 })
  })

  test.each([
    ['with a known length', true],
    ['of unknown length', false],
  ])('with a body beyond the bound is estimated from its length: %s', async (_name, hasLength) => {
    await start([
      metered('input_tokens'),
      rule('no-model', { match: { where: { model: null } }, limits: ['5/day'] }),
    ])
    const body = Buffer.from(JSON.stringify({ ...CHAT, user: 'x'.repeat(2 * READ_BODY_MAX) }))
    const headers = hasLength ? {} : { 'transfer-encoding': 'chunked' }
    const response = await ask(body, { status: 200 }, { headers })
    expect(response.status).toBe(200)
    expect(llm.bodies[0]?.equals(body)).toBe(true)
    // A status without usage and text is charged the reserve.
    const estimate = Math.ceil((hasLength ? body.length : READ_BODY_MAX) / 4)
    await expect.poll(used, SOON).toEqual({ 'input-tokens': estimate, 'no-model': 1 })
  })

  test('that is compressed is estimated from its length, and forwarded as it is', async () => {
    await start([metered('input_tokens')])
    const body = gzipSync(JSON.stringify({ ...CHAT, user: 'x'.repeat(100_000) }))
    await ask(body, { status: 200 }, { headers: { 'content-encoding': 'gzip' } })
    expect(llm.bodies[0]?.equals(body)).toBe(true)
    await expect.poll(used, SOON).toEqual({ 'input-tokens': Math.ceil((body.length * 8) / 4) })
  })

  test('waits for a client that expects to be told to continue', async () => {
    const { gatewayPort } = await start()
    const client = connect(gatewayPort, '127.0.0.1')
    let text = ''
    client.on('data', (bytes: Buffer) => (text += bytes.toString()))
    const body = JSON.stringify(CHAT)
    client.write(
      `POST ${PATHS.openai} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: ${body.length}\r\n\r\n`,
    )
    await vi.waitUntil(() => text.startsWith('HTTP/1.1 100 Continue'), SOON)
    client.write(body)
    await vi.waitUntil(() => text.includes('HTTP/1.1 200'), SOON)
    expect(text.match(/100 Continue/g)).toHaveLength(1)
    client.destroy()
  })

  test('whose body comes too slowly gets 408, and is not decided', async () => {
    const { gatewayPort } = await start()
    const client = connect(gatewayPort, '127.0.0.1')
    let text = ''
    client.on('data', (bytes: Buffer) => (text += bytes.toString()))
    client.write(`POST ${PATHS.openai} HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n{`)
    await vi.waitUntil(() => text.includes('HTTP/1.1 408'), SOON)
    expect(await used()).toMatchObject({ requests: 0, tokens: 0 })
    client.destroy()
  })
})
