/**
 * A real `sluice serve` in front of a fake language model: usage is read in both dialects while
 * bytes pass unchanged, streams that break off are charged, and a budget that is used up ends one.
 */
import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  ANSWER_HEADER,
  type FakeAnswer,
  type FakeLlm,
  PATHS,
  startFakeLlm,
} from '../packages/server/src/entrypoints/gateway/usage/fake-llm.test-helper.js'
import { type RedisServer, startRedis } from '../tools/redis/server.mjs'
import { makeFolder, stopAll } from './process.test-helper.js'
import { type RunningServer, start } from './serve.test-helper.js'

const SOON = { timeout: 30_000, interval: 50 }
const DIALECTS = ['openai', 'anthropic'] as const
type Dialect = (typeof DIALECTS)[number]

const keyOf = (user: string) => `key-of-${user}-0123456789`
/** Each test is a caller of its own. */
const USERS = Array.from({ length: 60 }, (_, index) => `user-${index}`)
const BUDGET = 100_000
/** What callers of the plan `small` have. */
const SMALL_BUDGET = 400
/** Windows that no test outlasts, so that what is left says what was charged. */
const window = (max: number) => ({ algorithm: 'fixed-window', max, window: '366d' })
const budget = (id: string, attribute: string) => ({
  id,
  by: ['user'],
  cost: { attribute },
  limits: [window(BUDGET)],
  tiers: { plan: { small: [window(SMALL_BUDGET)] } },
})
const RULES = {
  rules: [
    { id: 'requests', by: ['user'], limits: [window(1000)] },
    budget('input', 'input_tokens'),
    budget('output', 'output_tokens'),
    { ...budget('money', 'spend'), tiers: undefined },
  ],
}

function configOf(llm: FakeLlm): object {
  const prices = { 'model-1': { input: 1, output: 2 } }
  const upstream = (prefix: string, usage: Dialect, onExhausted: string) => ({
    prefix,
    url: llm.origin,
    usage,
    onExhausted,
    prices,
  })
  return {
    gateway: {
      upstreams: [
        upstream(PATHS.openai, 'openai', 'stop'),
        upstream(PATHS.anthropic, 'anthropic', 'stop'),
        upstream('/v1/responses', 'openai', 'continue'),
      ],
    },
    shutdown: { delay: '0ms', within: '1s' },
    identity: {
      keys: USERS.map((user, index) => ({
        key: keyOf(user),
        user,
        plan: index < 40 ? 'large' : 'small',
      })),
    },
  }
}

interface Answer {
  readonly status: number
  readonly hash: string
  readonly text: string
  readonly isCut: boolean
}

interface Asked {
  readonly origin: string
  readonly path: string
  readonly user: string
  readonly body: object
  readonly wanted: FakeAnswer
  /** Called with all that was received so far. */
  readonly onText?: (text: string, leave: () => void) => void
}

function ask({ origin, path, user, body, wanted, onText }: Asked): Promise<Answer> {
  const { port } = new URL(origin)
  return new Promise((resolve, reject) => {
    const request = httpRequest({
      host: '127.0.0.1',
      port,
      path,
      method: 'POST',
      agent: false,
      headers: { 'x-api-key': keyOf(user), [ANSWER_HEADER]: JSON.stringify(wanted) },
    })
    request.on('error', reject)
    request.on('response', (response) => {
      const hash = createHash('sha256')
      let text = ''
      const end = (isCut: boolean) =>
        resolve({ status: response.statusCode ?? 0, hash: hash.digest('hex'), text, isCut })
      response.on('data', (bytes: Buffer) => {
        hash.update(bytes)
        text += bytes.toString()
        onText?.(text, () => request.destroy())
      })
      response.on('end', () => end(false))
      response.on('error', () => end(true))
    })
    request.end(JSON.stringify(body))
  })
}

const bodyOf = (stream: boolean, more: object = {}) => ({
  model: 'model-1',
  stream,
  max_tokens: 50,
  messages: [{ role: 'user', content: 'How does a sluice work?' }],
  ...more,
})

const countWords = (text: string) => (text.match(/wör/g) ?? []).length

async function metricsOf({ admin }: RunningServer): Promise<string> {
  return (await fetch(`${admin}/metrics`)).text()
}

describe.each(['memory', 'redis'])('with counters in %s', (store) => {
  let llm: FakeLlm
  let redis: RedisServer | undefined
  let node: RunningServer
  const users = [...USERS]
  const smallUsers = users.splice(40)
  const take = (from: string[]) => from.shift() ?? ''

  beforeAll(async () => {
    llm = await startFakeLlm()
    if (store === 'redis') redis = await startRedis()
    node = await startNode()
  })
  afterAll(async () => {
    await stopAll()
    await redis?.stop()
    await llm.close()
  })

  function startNode(): Promise<RunningServer> {
    const folder = makeFolder()
    writeFileSync(join(folder, 'rules.yaml'), JSON.stringify(RULES))
    writeFileSync(join(folder, 'sluice.yaml'), JSON.stringify(configOf(llm)))
    const shared =
      redis === undefined ? {} : { SLUICE_REDIS_URL: redis.url, SLUICE_STORE_DEADLINE_MS: '10000' }
    return start({ SLUICE_RULES: 'rules.yaml', ...shared }, folder)
  }

  const askGateway = (asked: Omit<Asked, 'origin'>) => ask({ origin: node.gateway, ...asked })

  /** What a caller has used of each rule. The page that says so has a limit of its own. */
  async function used(user: string): Promise<Readonly<Record<string, number>>> {
    const response = await fetch(`${node.gateway}/_sluice/limits`, {
      headers: { 'x-api-key': keyOf(user) },
    })
    if (response.status === 429) {
      await sleep(200)
      return used(user)
    }
    const { limits } = (await response.json()) as {
      limits: { readonly rule: string; readonly limit: number; readonly remaining: number }[]
    }
    return Object.fromEntries(limits.map((each) => [each.rule, each.limit - each.remaining]))
  }

  const charges = (input: number, output: number) => ({
    requests: 1,
    input,
    output,
    money: input + output * 2,
  })

  test.each(
    DIALECTS.flatMap((dialect) =>
      [false, true].flatMap((stream) =>
        (['identity', 'gzip', 'br'] as const)
          // The model streams no brotli.
          .filter((encoding) => !stream || encoding !== 'br')
          .map((encoding) => [dialect, stream ? 'a stream' : 'JSON', encoding, stream] as const),
      ),
    ),
  )(
    'usage of %s is read from %s (%s), and the bytes are unchanged',
    async (dialect, _form, encoding, stream) => {
      const user = take(users)
      const asked = {
        path: PATHS[dialect],
        user,
        body: bodyOf(stream),
        wanted: { input: 37, output: 41, ...(encoding !== 'identity' && { encoding }) },
      }
      const direct = await ask({ origin: llm.origin, ...asked })
      const through = await askGateway(asked)
      expect(through).toEqual(direct)
      expect([through.status, through.isCut]).toEqual([200, false])
      const [first, second] = llm.bodies.slice(-2)
      expect(first?.equals(second ?? Buffer.of())).toBe(true)
      await expect.poll(() => used(user), SOON).toEqual(charges(37, 41))
    },
  )

  test.each(DIALECTS)(
    'a stream of %s that its client leaves is charged what was seen',
    async (dialect) => {
      const user = take(users)
      const cutBefore = llm.cut()
      const { isCut } = await askGateway({
        path: PATHS[dialect],
        user,
        body: bodyOf(true, { max_tokens: 600 }),
        wanted: { input: 20, output: 500, hangAfter: 30 },
        onText: (text, leave) => {
          if (countWords(text) === 30) leave()
        },
      })
      expect(isCut).toBe(true)
      await vi.waitUntil(() => llm.cut() > cutBefore, SOON)
      // Only one of the dialects reports the input when a stream begins.
      const input = dialect === 'anthropic' ? 20 : expect.any(Number)
      await expect.poll(() => used(user), SOON).toMatchObject({ requests: 1, input, output: 30 })
      expect((await used(user))['input']).toBeGreaterThan(0)
    },
  )

  test('a call whose client leaves before the answer begins is charged its reserve', async () => {
    const user = take(users)
    const arrived = llm.bodies.length
    const asked = new AbortController()
    // A model without earlier calls, so that nothing corrects the estimate.
    const body = JSON.stringify(bodyOf(true, { model: 'silent' }))
    const headers = { 'x-api-key': keyOf(user), [ANSWER_HEADER]: '{"isSilent":true}' }
    const url = `${node.gateway}${PATHS.openai}`
    const asking = fetch(url, { method: 'POST', headers, body, signal: asked.signal })
    const left = expect(asking).rejects.toThrow()
    await vi.waitUntil(() => llm.bodies.length > arrived, SOON)
    asked.abort()
    await left
    const reserved = async () =>
      (await metricsOf(node)).includes(
        `sluice_usage_calls_total{upstream="${llm.origin}",charged="reserved"} 1\n`,
      )
    await vi.waitUntil(reserved, SOON)
    expect(await used(user)).toMatchObject({ requests: 1, output: 50 })
  })

  test.each(DIALECTS)(
    'a stream of %s ends with an error when the budget is used up',
    async (dialect) => {
      const user = take(smallUsers)
      const body = bodyOf(true, { max_tokens: 20 })
      const wanted = { input: 10, output: 5000, everyMs: 1 }
      const { status, text, isCut } = await askGateway({ path: PATHS[dialect], user, body, wanted })
      expect([status, isCut]).toEqual([200, false])
      const error =
        dialect === 'openai'
          ? /\n\ndata: \{"error":\{"message":"The token budget is used up\. Retry after \d+ seconds\.","type":"insufficient_quota","param":null,"code":"budget_exhausted"\}\}\n\n$/
          : /\n\nevent: error\ndata: \{"type":"error","error":\{"type":"rate_limit_error","message":"The token budget is used up\. Retry after \d+ seconds\."\}\}\n\n$/
      expect(text).toMatch(error)
      const words = countWords(text)
      expect(words).toBeGreaterThan(20)
      expect(words).toBeLessThan(5000)
      // All events before the last are as the model sent them.
      const events = text.split('\n\n').slice(0, -2)
      for (const event of events) {
        const data = event.split('\n').at(-1)?.slice('data: '.length) ?? ''
        expect(() => JSON.parse(data) as unknown).not.toThrow()
      }
      // What a busy machine lets pass during a round trip is owed, and not among what is used.
      const charged = Math.min(words, SMALL_BUDGET)
      await vi.waitUntil(async () => ((await used(user))['output'] ?? 0) >= charged, SOON)
      const large = bodyOf(true, { max_tokens: SMALL_BUDGET })
      const refused = await askGateway({ path: PATHS[dialect], user, body: large, wanted: {} })
      expect(refused.status).toBe(429)
    },
  )

  test('a stream goes on when the budget is used up, unless it is to be stopped', async () => {
    const user = take(smallUsers)
    const wanted = { input: 10, output: 600 }
    const body = { model: 'model-1', stream: true, max_output_tokens: 20, input: 'Hello' }
    const { text, isCut } = await askGateway({ path: '/v1/responses', user, body, wanted })
    expect([countWords(text), isCut]).toEqual([600, false])
    await expect.poll(async () => (await used(user))['output'], SOON).toBe(SMALL_BUDGET)
    // What the stream used beyond its budget is owed.
    const next = await askGateway({ path: '/v1/responses', user, body, wanted })
    expect(next.status).toBe(429)
  })

  test.runIf(store === 'redis')(
    'a node that stops in the middle of a stream settles what was seen',
    async () => {
      const user = take(users)
      const other = await startNode()
      const { isCut } = await ask({
        origin: other.gateway,
        path: PATHS.anthropic,
        user,
        body: bodyOf(true, { max_tokens: 600 }),
        wanted: { input: 20, output: 500, hangAfter: 30 },
        onText: (text) => {
          if (countWords(text) === 30) other.program.signal('SIGTERM')
        },
      })
      expect(isCut).toBe(true)
      expect(await other.program.code()).toBe(0)
      expect(await used(user)).toEqual(charges(20, 30))
    },
  )

  test('usage, money and estimates are in the metrics', async () => {
    const metrics = await metricsOf(node)
    const valueOf = (series: string) => {
      const line = metrics.split('\n').find((each) => each.startsWith(`${series} `))
      return Number(line?.split(' ').at(-1))
    }
    const upstream = `upstream="${llm.origin}"`
    expect(valueOf(`sluice_usage_tokens_total{${upstream},kind="output"}`)).toBeGreaterThan(41 * 10)
    expect(valueOf(`sluice_usage_spend_total{${upstream}}`)).toBeGreaterThan(0)
    expect(
      valueOf(`sluice_usage_calls_total{${upstream},charged="reported"}`),
    ).toBeGreaterThanOrEqual(10)
    // More than 2 if a test of stopped streams was repeated.
    expect(valueOf(`sluice_usage_stopped_total{${upstream}}`)).toBeGreaterThanOrEqual(2)
    expect(metrics).not.toContain('model-1')
  })
})
