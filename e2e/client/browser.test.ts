/** The client in Chromium, on a page of another origin than the gateway. */
import { writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, useChromium } from '../dashboard/chromium.test-helper.js'
import { makeFolder, stopAll } from '../process.test-helper.js'
import { type RunningServer, start } from '../serve.test-helper.js'

const CLIENT = fileURLToPath(new URL('../../packages/client/dist/index.js', import.meta.url))
/** A limit of one call an hour for each path, so that no test depends on time or on another. */
const RULES = 'rules: [{ id: per-path, by: [ip, path], limits: [1/hour] }]'

const chromium = useChromium()
const servers: Server[] = []
let sluice: RunningServer
let allowed: string
let foreign: string

async function listen(server: Server): Promise<string> {
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Serves an empty page, and the bundle of the client. */
function pageServer(bundle: string): Server {
  return createServer(({ url }, response) => {
    const isScript = url === '/client.js'
    response.setHeader('Content-Type', isScript ? 'text/javascript' : 'text/html')
    response.end(isScript ? bundle : '<!doctype html><title>page</title>')
  })
}

beforeAll(async () => {
  const options = { bundle: true, minify: true, format: 'esm', write: false } as const
  const { outputFiles } = await build({ entryPoints: [CLIENT], platform: 'browser', ...options })
  const bundle = outputFiles[0]?.text ?? ''
  allowed = await listen(pageServer(bundle))
  foreign = await listen(pageServer(bundle))
  const upstream = createServer((_, response) => {
    response.setHeader('Access-Control-Allow-Origin', allowed)
    response.end('ok')
  })
  const folder = makeFolder()
  writeFileSync(join(folder, 'rules.yaml'), RULES)
  writeFileSync(
    join(folder, 'sluice.yaml'),
    JSON.stringify({ rules: 'rules.yaml', gateway: { cors: { origins: [allowed] } } }),
  )
  sluice = await start({ SLUICE_UPSTREAM: await listen(upstream) }, folder)
})
afterAll(async () => {
  for (const server of servers) {
    server.closeAllConnections()
    server.close()
  }
  await stopAll()
})

/** Pages of one browser context, as tabs of one browser are, with a paced fetch each. */
async function openTabs(origin: string, count: number): Promise<readonly Page[]> {
  const context = await chromium.openUnwatched()
  const tabs: Page[] = []
  for (let i = 0; i < count; i++) {
    const tab = await context.newPage()
    await tab.goto(`${origin}/`)
    await tab.evaluate(`import('/client.js').then(({ createPacedFetch }) => {
      window.paced = createPacedFetch(fetch, { channel: 'limits' })
      window.messages = 0
      new BroadcastChannel('limits').onmessage = () => window.messages++
    })`)
    tabs.push(tab)
  }
  return tabs
}

async function openTab(origin: string): Promise<Page> {
  const [tab] = await openTabs(origin, 1)
  if (tab === undefined) throw new Error('no tab')
  return tab
}

/** What a page can read of the answer to a plain fetch. */
const readAnswer = (path: string) => `fetch('${sluice.gateway}${path}').then(
  ({ status, headers }) => [status, headers.get('ratelimit-policy'), headers.get('retry-after')],
  (error) => error.name)`

const COUNTS = `(({ sent, refused, waiting }) => ({ sent, refused, waiting }))(paced.stats())`

describe('a page of another origin', () => {
  test('reads the rate limit headers of an answer and of a refusal, if it is allowed', async () => {
    const tab = await openTab(allowed)
    const policy = '"per-path";q=1;w=3600'
    expect(await tab.evaluate(readAnswer('/read'))).toEqual([200, policy, null])
    expect(await tab.evaluate(readAnswer('/read'))).toEqual([
      429,
      policy,
      expect.stringMatching(/^\d+$/),
    ])
  })

  test('reads neither an answer nor a refusal if its origin is not allowed', async () => {
    const tab = await openTab(foreign)
    expect(await tab.evaluate(readAnswer('/foreign'))).toBe('TypeError')
    expect(await tab.evaluate(readAnswer('/foreign'))).toBe('TypeError')
  })

  test('holds back a call that the limit would refuse', async () => {
    const tab = await openTab(allowed)
    const url = `${sluice.gateway}/paced`
    expect(await tab.evaluate(`paced('${url}').then(({ status }) => status)`)).toBe(200)
    await tab.evaluate(`void paced('${url}')`)
    await eventually(() => tab.evaluate(COUNTS)).toEqual({ sent: 1, refused: 0, waiting: 1 })
  })

  test('holds back a call because of what another tab has learnt', async () => {
    const [first, second] = await openTabs(allowed, 2)
    const url = `${sluice.gateway}/shared`
    expect(await first?.evaluate(`paced('${url}').then(({ status }) => status)`)).toBe(200)
    await eventually(async () => second?.evaluate('messages')).toBeGreaterThan(0)
    await second?.evaluate(`void paced('${url}')`)
    await eventually(async () => second?.evaluate(COUNTS)).toEqual({
      sent: 0,
      refused: 0,
      waiting: 1,
    })
  })
})
