/** Live traffic on the pages: limited callers, their rules, and explanations. */
import type { Locator } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { stopAll } from '../process.test-helper.js'
import { eventually, figureOf, logIn, useChromium } from './chromium.test-helper.js'
import {
  startDashboardServer,
  type DashboardServer,
  type TrafficSource,
  sendTraffic,
} from './dashboard-server.test-helper.js'

const chromium = useChromium()
const traffic: TrafficSource[] = []
let server: DashboardServer

beforeAll(async () => {
  server = await startDashboardServer(`
rules:
  - id: per-user
    by: [user]
    limits: [1000/second]
  - id: exports
    description: Exports are expensive.
    match: { path: /exports }
    by: [user]
    limits: [{ algorithm: sliding-window-log, max: 3, window: 10m, name: few }]
    tiers:
      plan:
        gold: [{ algorithm: sliding-window-log, max: 4, window: 10m, name: few }]
  - id: search-total
    match: { method: [GET, HEAD], path: /search/:what/*, where: { user: null, kind: [deep, wide] } }
    by: []
    limits: [2/hour]
`)
  traffic.push(sendTraffic(server.api, { user: 'greedy', path: '/exports' }, 8))
  traffic.push(sendTraffic(server.api, { user: 'modest', path: '/orders' }, 4))
  traffic.push(sendTraffic(server.api, { user: 'golden', plan: 'gold', path: '/exports' }, 4))
  traffic.push(sendTraffic(server.api, { method: 'GET', path: '/search/a/b', kind: 'wide' }, 4))
})
afterAll(() => {
  for (const source of traffic) source.stop()
  return stopAll()
})

const openAt = async (path: string) => {
  const page = await (await chromium.open(server.admin)).newPage()
  await logIn(page, server.admin, server.token, path)
  return page
}

describe('the overview', () => {
  test('the overview shows requests and refusals per second, and updates without a reload', async () => {
    const page = await openAt('/')
    await page.evaluate('window.isSamePage = true')
    await eventually(() => figureOf(page, 'Requests')).toBeGreaterThan(6)
    await eventually(() => figureOf(page, 'Refused')).toBeGreaterThan(4)
    const more = sendTraffic(server.api, { user: 'modest', path: '/orders' }, 40)
    await eventually(() => figureOf(page, 'Requests')).toBeGreaterThan(25)
    more.stop()
    expect(await page.evaluate('window.isSamePage')).toBe(true)
  })

  test('the traffic chart has a summary and a table', async () => {
    const page = await openAt('/')
    const chart = page.getByRole('img', {
      name: /^Requests per second\. In the last .* on average/,
    })
    await chart.waitFor()
    expect(await chart.locator('canvas').count()).toBe(1)
    await eventually(() => isDrawn(chart.locator('canvas').first())).toBe(true)
    await page.getByText('View as table: Requests per second').click()
    const table = page.getByRole('table', { name: 'Requests per second' })
    await eventually(() => table.getByRole('row').count()).toBeGreaterThan(2)
    expect(await table.innerText()).toMatch(/\d\d:\d\d:\d\d\s+[\d.]+ \/s\s+[\d.]+ \/s/)
  })
})

interface Canvas {
  readonly width: number
  readonly height: number
  getContext(kind: '2d'): {
    getImageData(...box: readonly number[]): { readonly data: Uint8ClampedArray }
  }
}

/** Whether the canvas has more than one colour. */
const isDrawn = (canvas: Locator) =>
  canvas.evaluate((element) => {
    const drawn = element as unknown as Canvas
    const { data } = drawn.getContext('2d').getImageData(0, 0, drawn.width, drawn.height)
    return data.some((value) => value !== data[0])
  })

describe('a limited caller', () => {
  test('a refused caller is explained from the overview with one click', async () => {
    const page = await openAt('/')
    const rules = page.getByRole('table', { name: /^Refusing rules/ })
    await rules.getByRole('row', { name: /exports/ }).waitFor()
    const callers = page.getByRole('table', { name: /^Refused callers/ })
    const greedy = callers.getByRole('row', { name: /greedy/ })
    await greedy.waitFor()
    expect(await greedy.innerText()).toContain('by exports')
    expect(await callers.getByRole('row', { name: /modest/ }).count()).toBe(0)
    await greedy.getByRole('link', { name: 'Why?' }).click()
    await page.getByRole('heading', { level: 1, name: 'Why?' }).waitFor()
    // Only the caller is known: the rest of the request is derived from the rule.
    const decision = page.getByRole('region', { name: 'Decision' })
    await decision
      .getByText(/^Refused by exports\/few: 0 of 3 left, retry in \d+ (s|min)/)
      .waitFor()
    await page.getByText('This request matches exports, which refuses it.').waitFor()
    expect(await page.getByLabel(/^Attributes/).inputValue()).toBe('user=greedy\npath=/exports')
    await page.getByText(/Only the caller is known; path was filled in to match/).waitFor()
  })

  test.each([
    ['golden', 'exports', /^Refused by exports\/few: 0 of 4 left/],
    ['all callers', 'search-total', /^Refused by search-total\/.*: 0 of 2 left/],
  ])('the caller "%s" is explained from every list of callers', async (name, rule, summary) => {
    for (const path of [`/callers?rule=${rule}`, `/rules/${rule}`]) {
      const page = await openAt(path)
      const row = page.getByRole('row', { name: new RegExp(name) })
      await row.getByRole('link', { name: /^Why/ }).click()
      await page.getByText(`This request matches ${rule}, which refuses it.`).waitFor()
      await page.getByRole('region', { name: 'Decision' }).getByText(summary).waitFor()
    }
  })

  test('a request that does not match the rule in question is reported first', async () => {
    const page = await openAt('/why?user=greedy&path=/orders&rule=exports')
    const unmet =
      'This request does not match exports, so it does not explain why that rule refused.'
    await page.getByText(unmet).waitFor()
    const answers = await page.locator('.why-result').innerText()
    expect(answers.indexOf(unmet)).toBeLessThan(answers.indexOf('Allowed'))
    await page.getByRole('link', { name: 'Explain without this rule' }).click()
    await eventually(() => page.getByText(unmet).count()).toBe(0)
    expect(page.url()).toMatch(/\/why\?user=greedy&path=%2Forders$/)
  })

  test('an exhausted caller is listed with its duration', async () => {
    // A new caller, because durations above a minute have no seconds.
    const late = sendTraffic(server.api, { user: 'latecomer', path: '/exports' }, 8)
    traffic.push(late)
    const page = await openAt('/callers?by=zero')
    await page.getByRole('row', { name: /greedy/ }).waitFor()
    const latecomer = page.getByRole('row', { name: /latecomer/ })
    await latecomer.waitFor()
    const since = async () => Number(/(\d+) s\b/.exec(await latecomer.innerText())?.[1])
    const before = await since()
    await eventually(since).toBeGreaterThan(before)
    expect(await page.getByRole('row', { name: /modest/ }).count()).toBe(0)
    await page.getByRole('tab', { name: 'Highest usage' }).click()
    await page.getByRole('row', { name: /modest/ }).waitFor()
    await page.getByLabel('Rule').selectOption('exports')
    await eventually(() => page.getByRole('row', { name: /modest/ }).count()).toBe(0)
  })

  test('a pasted curl command is explained', async () => {
    const page = await openAt('/why')
    const command = `curl -X POST 'https://shop.example/exports' -H 'X-Nothing: 1'`
    await page.getByLabel(/^Attributes/).fill(command)
    await page.getByRole('button', { name: 'Explain' }).click()
    await page
      .getByRole('region', { name: 'Decision' })
      .getByText(/^Allowed/)
      .waitFor()
  })
})

describe('the list of rules', () => {
  test('the list mentions the limits of a plan, and the page of the rule shows them', async () => {
    const page = await openAt('/rules')
    const row = page.getByRole('row', { name: /^exports/ })
    await row.getByText('3/10m sliding-window-log few, custom limits for plan gold').waitFor()
    await row.getByRole('link', { name: 'exports' }).click()
    await page
      .getByText('3/10m sliding-window-log few; plan gold: 4/10m sliding-window-log few', {
        exact: true,
      })
      .waitFor()
  })
})

describe('nodes and alerts', () => {
  test('the nodes page shows the rules version, and the alerts page that none is active', async () => {
    const page = await openAt('/nodes')
    const { version } = await server.client.listRules()
    await page.getByRole('row').getByText(`version ${version}`).waitFor()
    await page.getByRole('link', { name: /^Alerts/ }).click()
    await page.getByRole('heading', { level: 1, name: 'Alerts' }).waitFor()
    const active = page.getByText('No active alerts.')
    await active.or(page.getByText(/refuses .* (calls|requests) (a|per) second/).first()).waitFor()
  })
})
