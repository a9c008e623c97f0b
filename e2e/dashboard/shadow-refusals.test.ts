/** Shadow refusals by caller: in the log, in the CLI and on the page of the rule. */
import type { TopView } from '@sluice/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Operator, operatorOf } from '../operator.test-helper.js'
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
let operator: Operator

beforeAll(async () => {
  server = await startDashboardServer(`
rules:
  - id: orders
    match: { path: /orders }
    by: [user]
    limits: [1000/second]
    candidate: { limits: [{ algorithm: sliding-window-log, max: 2, window: 10m, name: few }] }
  - id: exports
    match: { path: /exports }
    by: [user]
    limits: [3/hour]
    mode: shadow
  - id: login
    match: { path: /login }
    by: [ip]
    limits: [2/hour]
    candidate: { limits: [1/hour] }
`)
  operator = operatorOf(server)
  traffic.push(sendTraffic(server.api, { user: 'hasty', path: '/orders' }, 8))
  traffic.push(sendTraffic(server.api, { user: 'greedy', path: '/exports' }, 4))
  traffic.push(sendTraffic(server.api, { ip: '203.0.113.66', path: '/login' }, 4))
})
afterAll(() => {
  for (const source of traffic) source.stop()
  return stopAll()
})

type Line = Readonly<Record<string, unknown>>

/** Log lines with this message. */
const linesOf = (msg: string): readonly Line[] =>
  server.program
    .output()
    .split('\n')
    .filter((line) => line.startsWith('{') && line.includes(`"msg":"${msg}"`))
    .map((line) => JSON.parse(line) as Line)

const topOf = (line: string) => operator.json<TopView>(`top${line}`)

describe('a candidate with shadow refusals', () => {
  test('a shadow refusal of a candidate is logged by caller, and not as a refusal', async () => {
    const isOrders = ({ rule }: Line) => rule === 'orders'
    await eventually(async () => linesOf('would have been refused').some(isOrders)).toBe(true)
    const [caller] = (await topOf(' --by shadow --rule orders')).callers
    expect(linesOf('would have been refused').find(isOrders)).toMatchObject({
      mode: 'candidate',
      limit: 'few',
      caller: caller?.hash,
      reason: 'over',
      way: 'api',
      path: '/orders',
    })
    expect(linesOf('refused').some(isOrders)).toBe(false)
    const seconds = linesOf('would have been refused')
      .filter(isOrders)
      .map(({ time }) => String(time).slice(0, 19))
    expect(new Set(seconds).size).toBe(seconds.length)
  })

  test('sluice top lists shadow refusals after refusals', async () => {
    await eventually(async () => (await topOf('')).callers.length).toBe(3)
    const { callers } = await topOf('')
    const [first, ...others] = callers
    expect(first).toMatchObject({ rule: 'login', caller: { ip: '203.0.113.66' } })
    expect(first?.refusals).toBeGreaterThan(0)
    // The candidate of `login` evaluates only the two allowed calls, and would refuse one.
    expect(first?.candidateRefusals).toBe(1)
    const rest = others.map(({ rule, refusals }) => [rule, refusals])
    expect(new Map(rest as [string, number][])).toEqual(
      new Map([
        ['orders', 0],
        ['exports', 0],
      ]),
    )
    const { out } = await operator.sluice('top --by shadow')
    expect(out).toMatch(/orders +user=hasty .* [1-9]\d* by candidate/)
    expect(out).toMatch(/exports +user=greedy .* [1-9]\d* in shadow/)
  })

  test('the page of the rule and the promote dialog show the shadow refusals of a candidate', async () => {
    const page = await openAt(chromium, server, '/rules/orders')
    const table = page.getByRole('table', { name: 'Shadow refusals by caller: orders' })
    const row = table.getByRole('row', { name: /hasty/ })
    await eventually(() => row.innerText()).toMatch(/[1-9]/)
    await page.getByRole('heading', { name: 'Shadow refusals' }).waitFor()
    await page.getByText('Allowed requests that the candidate would have refused').waitFor()
    await page.getByRole('button', { name: 'Promote candidate' }).click()
    await page.getByRole('dialog').getByRole('link', { name: 'View callers' }).click()
    await page.getByRole('heading', { level: 1, name: 'Callers' }).waitFor()
    const callers = page.getByRole('table', { name: 'Callers' })
    await callers.getByRole('row', { name: /hasty/ }).waitFor()
    expect(await callers.getByText('greedy').count()).toBe(0)
  })
})

test('the page of a shadow rule lists shadow refusals instead of refused callers', async () => {
  const page = await openAt(chromium, server, '/rules/exports')
  const table = page.getByRole('table', { name: 'Shadow refusals by caller: exports' })
  await eventually(() => table.getByRole('row', { name: /greedy/ }).innerText()).toMatch(/[1-9]/)
  expect(await page.getByText('Most refused callers').count()).toBe(0)
  await page.getByRole('button', { name: 'Enforce', exact: true }).click()
  await page.getByRole('dialog').getByText('it would have refused').waitFor()
  await page.getByRole('dialog').getByRole('link', { name: 'View callers' }).waitFor()
})

test('callers with shadow refusals only are not among the refused callers', async () => {
  const page = await openAt(chromium, server, '/callers')
  await page.getByRole('row', { name: /203\.0\.113\.66/ }).waitFor()
  expect(await page.getByText('hasty').count()).toBe(0)
  await page.getByRole('tab', { name: 'Would be refused' }).click()
  await page.getByRole('row', { name: /hasty/ }).waitFor()
  await page.getByRole('row', { name: /greedy/ }).waitFor()
})

test('the metric of a candidate counts only the calls that it evaluated', async () => {
  const text = await (await fetch(`${server.admin}/metrics`)).text()
  const count = (rule: string, outcome: string) =>
    Number(
      new RegExp(
        `^sluice_decisions_total\\{rule="${rule}",outcome="${outcome}",source="store"\\} (\\d+)$`,
        'm',
      ).exec(text)?.[1] ?? 0,
    )
  expect(count('login', 'refused')).toBeGreaterThan(2)
  expect([count('login', 'allowed'), count('login:candidate', 'allowed')]).toEqual([2, 1])
  expect(count('login:candidate', 'shadow_refused')).toBe(1)
})
