/** Every middleware with the remote limiter, in front of a real server. */
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { type RemoteLimiter, remoteLimiter } from '../../packages/client/src/index.js'
import { createLimiter } from '../../packages/limiter/src/index.js'
import type { CallLimiter } from '../../packages/limiter/src/middleware/middleware-options.js'
import { sluice as wsSluice } from '../../packages/limiter/src/middleware/ws.js'
import { freePort } from '../../tools/ports.mjs'
import { makeFolder, stopAll } from '../process.test-helper.js'
import { start } from '../serve.test-helper.js'
import { ADAPTERS, type AdapterOptions, type RunningAdapter } from './adapters.test-helper.js'

const RULES = `
rules:
  - id: per-user
    match: { path: /v1/* }
    by: [user]
    limits: [3/day, { algorithm: fixed-window, max: 100, window: 30d, name: monthly }]
  - { id: upgrades, match: { path: /chat, method: GET }, by: [user], limits: [1/day] }
`

/** A client must wait longer than a machine under load ever takes. */
const DEADLINE_MS = 30_000

let remote: RemoteLimiter
let running: RunningAdapter | undefined

beforeAll(async () => {
  const folder = makeFolder()
  writeFileSync(join(folder, 'rules.yaml'), RULES)
  const { api } = await start({ SLUICE_RULES: 'rules.yaml' }, folder)
  remote = remoteLimiter({ url: api, deadlineMs: DEADLINE_MS, logger: false })
})
afterEach(async () => {
  await running?.close()
  running = undefined
})
afterAll(async () => {
  await remote.close()
  await stopAll()
})

const HEADERS = ['ratelimit-policy', 'ratelimit', 'x-ratelimit-limit', 'x-ratelimit-remaining']

/** Times differ by when a call was made; everything else must be equal. */
const withoutTimes = (text: string) => text.replace(/t=\d+/g, 't=n').replace(/\d+ seconds?/g, 'n s')

async function fetchFrom(port: number, path: string) {
  const response = await fetch(`http://127.0.0.1:${port}${path}`)
  const headers = HEADERS.map((name) => withoutTimes(response.headers.get(name) ?? 'none'))
  const body = (await response.text()).replace(/"retry_after_seconds":\d+/, '')
  const refused = [response.headers.has('retry-after'), response.headers.get('cache-control')]
  return { status: response.status, headers, body: withoutTimes(body), refused }
}

const app = () => Promise.resolve({ status: 200, body: 'served' })

test.each(ADAPTERS)(
  '%s answers with the remote limiter as with one of its own',
  async (name, startAdapter) => {
    const local = createLimiter({ rules: RULES })
    const answersOf = async (limiter: CallLimiter) => {
      const options: AdapterOptions = { limiter, attributes: () => ({ user: `user of ${name}` }) }
      running = await startAdapter(options, app)
      const answers = []
      const paths = ['/v1/a', '/v1/a', '/v1/a', '/v1/a', '/other', '/v1//a']
      for (const path of paths) answers.push(await fetchFrom(running.port, path))
      await running.close()
      running = undefined
      return answers
    }
    const answers = await answersOf(remote)
    expect(answers).toEqual(await answersOf(local))
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429, 200, 400])
    expect(answers[3]?.refused).toEqual([true, 'no-store'])
    await local.close()
  },
)

test.each(ADAPTERS)(
  '%s gives back what the remote limiter took for calls that are not counted',
  async (name, startAdapter) => {
    const user = `uncounted user of ${name}`
    const options: AdapterOptions = {
      limiter: remote,
      attributes: () => ({ user }),
      count: 'failed',
    }
    running = await startAdapter(options, app)
    for (let i = 0; i < 5; i++) {
      expect((await fetchFrom(running.port, '/v1/a')).status).toBe(200)
      await expect
        .poll(async () => (await remote.peek({ attributes: { user, path: '/v1/a' } })).remaining)
        .toBe(3)
    }
  },
)

test.each(ADAPTERS)(
  '%s refuses with Retry-After if the server is gone and the posture is closed',
  async (_name, startAdapter) => {
    const url = `http://127.0.0.1:${await freePort()}`
    const gone = remoteLimiter({ url, posture: 'closed', logger: false, deadlineMs: DEADLINE_MS })
    running = await startAdapter({ limiter: gone }, app)
    const answer = await fetchFrom(running.port, '/v1/a')
    expect(answer).toMatchObject({ status: 429, refused: [true, 'no-store'] })
    expect(answer.body).toContain('temporary-reduced-capacity')
    await gone.close()
  },
)

test('ws asks the remote limiter about upgrades', async () => {
  const limited = wsSluice({ limiter: remote, attributes: () => ({ user: 'user of ws' }) })
  const server = createServer().on(
    'upgrade',
    limited.upgrade(new WebSocketServer({ noServer: true })),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const statuses = []
  for (let i = 0; i < 2; i++) {
    const socket = new WebSocket(`ws://127.0.0.1:${port}/chat`)
    socket.on('error', () => {})
    statuses.push(
      await new Promise((resolve) => {
        socket.on('upgrade', ({ statusCode }) => resolve(statusCode))
        socket.on('unexpected-response', (_request, { statusCode }) => resolve(statusCode))
      }),
    )
    socket.terminate()
  }
  expect(statuses).toEqual([101, 429])
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  await limited.close()
})
