/** Runs the rules and the configuration of docs/guides/tokens.md before a fake language model. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
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

const SOON = { timeout: 30_000, interval: 200 }
const KEY = 'team-key-4fJ9sLq2ZxV7'
const IN_FLIGHT_MAX = 8

const GUIDE = readFileSync(new URL('../docs/guides/tokens.md', import.meta.url), 'utf8')
/** The first block of the guide with this text after its fence. */
const blockOf = (info: string) =>
  new RegExp(`^\`\`\`${info}\n([^]*?)^\`\`\`$`, 'm').exec(GUIDE)?.[1] ?? ''

let llm: FakeLlm
let redis: RedisServer
let node: RunningServer
beforeAll(async () => {
  llm = await startFakeLlm()
  redis = await startRedis()
  const folder = makeFolder()
  const config = blockOf('yaml config')
    .replaceAll(/https:\/\/api\.\w+\.com/g, llm.origin)
    .replace('redis://127.0.0.1:6379', redis.url)
  writeFileSync(join(folder, 'sluice.yaml'), config)
  writeFileSync(join(folder, 'rules.yaml'), blockOf('yaml'))
  node = await start({ SLUICE_STORE_DEADLINE_MS: '10000' }, folder)
})
afterAll(async () => {
  await stopAll()
  await redis.stop()
  await llm.close()
})

const ask = (path: string, body: object, wanted: FakeAnswer, signal?: AbortSignal) =>
  fetch(`${node.gateway}${path}`, {
    method: 'POST',
    headers: { 'x-team-key': KEY, [ANSWER_HEADER]: JSON.stringify(wanted) },
    body: JSON.stringify({ max_tokens: 100, messages: [{ role: 'user', content: 'hi' }], ...body }),
    ...(signal !== undefined && { signal }),
  })

/** What the team has used of each rule. */
async function used(): Promise<Readonly<Record<string, number>>> {
  const response = await fetch(`${node.gateway}/_sluice/limits`, { headers: { 'x-team-key': KEY } })
  const { limits } = (await response.json()) as {
    limits: { readonly rule: string; readonly limit: number; readonly remaining: number }[]
  }
  return Object.fromEntries(limits.map((each) => [each.rule, each.limit - each.remaining]))
}

test('the example limits requests, tokens, money and calls in flight at once', async () => {
  const chat = { model: 'gpt-5', stream: true }
  const first = await ask(PATHS.openai, chat, { input: 1000, output: 40 })
  expect([first.status, (await first.text()).includes('[DONE]')]).toEqual([200, true])
  const message = { model: 'claude-sonnet-4' }
  const second = await ask(PATHS.anthropic, message, { input: 200, output: 10 })
  expect([second.status, await second.json()]).toMatchObject([
    200,
    { usage: { input_tokens: 200 } },
  ])
  // Of the day only: buckets of a minute refill while the test runs.
  const money = 1000 * 1.25 + 40 * 10 + 200 * 3 + 10 * 15
  await expect.poll(async () => (await used())['llm-money'], SOON).toBe(money)
  const stranger = await fetch(`${node.gateway}${PATHS.openai}`, { method: 'POST', body: '{}' })
  expect(stranger.status).toBe(401)
})

test('the example lets no more calls be in flight than it says, and frees their places', async () => {
  const chat = { model: 'gpt-5', stream: true }
  const clients = Array.from({ length: IN_FLIGHT_MAX }, () => new AbortController())
  const open = await Promise.all(
    clients.map(({ signal }) => ask(PATHS.openai, chat, { hangAfter: 3, output: 50 }, signal)),
  )
  expect(open.map(({ status }) => status)).toEqual(clients.map(() => 200))
  const refused = await ask(PATHS.openai, chat, {})
  expect([refused.status, await refused.json()]).toMatchObject([
    429,
    { 'violated-policies': ['llm-in-flight'] },
  ])
  for (const client of clients) client.abort()
  const passes = async () => {
    const response = await ask(PATHS.openai, chat, {})
    await response.text()
    return response.status === 200
  }
  await vi.waitUntil(passes, SOON)
})
