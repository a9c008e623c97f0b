/** Priorities in the dashboard: what is shed of each, and why a request is. */
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { operatorOf } from '../operator.test-helper.js'
import { stopAll } from '../process.test-helper.js'
import { eventually, openAt, useChromium } from './chromium.test-helper.js'
import {
  startDashboardServer,
  type DashboardServer,
  type TrafficSource,
  sendTraffic,
} from './dashboard-server.test-helper.js'

const chromium = useChromium()
const traffic: TrafficSource[] = []
let server: DashboardServer

/** Answers when the test ends. */
const upstream = createServer((_request, response) => void held.push(response))
const held: ServerResponse[] = []

beforeAll(async () => {
  upstream.listen(0, '127.0.0.1')
  await once(upstream, 'listening')
  const { port } = upstream.address() as AddressInfo
  const rules = `
priorities: [critical, writes, reads]
classify:
  - { match: { path: /pay }, as: critical }
  - { match: { method: GET }, as: reads }
  - { as: writes }
rules:
  - id: fleet
    by: []
    limits: [{ algorithm: fixed-window, max: 10, window: 1h }]
    headroom: { critical: 20%, writes: 0.1 }
    protects: capacity
    match: { path: /list }
  - id: backend
    match: { path: /slow }
    by: []
    limits: [{ algorithm: concurrency, max: 20 }]
    headroom: { critical: 10%, writes: 10% }
    coordination: node
`
  server = await startDashboardServer(rules, { SLUICE_UPSTREAM: `http://127.0.0.1:${port}` })
  traffic.push(sendTraffic(server.api, { method: 'GET', path: '/list' }, 8))
})
afterAll(() => {
  for (const source of traffic) source.stop()
  for (const response of held) response.end()
  upstream.close()
  return stopAll()
})

test('the overview shows what was admitted and shed of each priority, the most important first', async () => {
  const page = await openAt(chromium, server, '/')
  const table = page.getByRole('table', { name: 'Requests by priority' })
  const row = table.getByRole('row', { name: /^reads/ })
  await eventually(async () => (await row.innerText()).replaceAll(/\s+/g, ' ')).toMatch(/100 %$/)
  const names = await table.getByRole('rowheader').allInnerTexts()
  expect(names).toEqual(['critical', 'writes', 'reads'])
  expect(await table.getByRole('row', { name: /^critical/ }).innerText()).toMatch(/0 %$/)
})

test('the overview shows the calls in flight against the ceilings', async () => {
  const calls = Array.from({ length: 3 }, () => fetch(`${server.gateway}/slow`))
  const page = await openAt(chromium, server, '/')
  const table = page.getByRole('table', { name: /^Requests in flight/ })
  const row = table.getByRole('row', { name: /^backend/ })
  await row
    .getByRole('img', { name: 'In flight of backend: 3 of 20; ceilings at 18, 16' })
    .waitFor()
  expect((await row.innerText()).replaceAll(/\s+/g, ' ')).toBe(
    'backend busiest node writes up to 18, reads up to 16 3 3 20',
  )
  for (const response of held) response.end()
  await Promise.all(calls)
  await row.getByRole('img', { name: /^In flight of backend: 0 of 20/ }).waitFor()
})

test('the page of a rule shows its headroom, the ceilings and what it protects', async () => {
  const page = await openAt(chromium, server, '/rules/fleet')
  await page.getByText('critical 20%, writes 10%').waitFor()
  await page.getByText('critical 100 %, writes 80 %, reads 70 %').waitFor()
  await page.getByText('capacity: refused requests are shed').waitFor()
})

test('the explanation of a shed request names its priority and the ceiling', async () => {
  const page = await openAt(chromium, server, '/why?method=GET&path=/list')
  await page.getByText(/^Shed by fleet\/.* 0 of 7 left for priority reads/).waitFor()
  await page.getByText('Priority reads.').waitFor()
  await page.getByText('under the ceiling, 10 in all').waitFor()
})

test('sluice top and sluice check say what is shed', async () => {
  const { sluice } = operatorOf(server)
  await eventually(async () => (await sluice('top')).out).toMatch(
    /^shed in the last 10 s: reads 100 % \(.*\/s\)$/m,
  )
  const { out, code } = await sluice('check method=GET path=/list')
  expect(code).toBe(1)
  expect(out).toMatch(/^refused +shed\npriority +reads\n/)
  expect((await sluice('peek method=GET path=/list')).out).toContain('(ceiling 7 of 10)')
})
