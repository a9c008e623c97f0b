/** What the person on call sees: traffic as it happens, who is limited, by what, since when. */
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
const visitors: TrafficSource[] = []
let shop: DashboardServer

beforeAll(async () => {
  shop = await startDashboardServer(`
rules:
  - id: per-user
    by: [user]
    limits: [1000/second]
  - id: exports
    description: Exports are dear.
    match: { path: /exports }
    by: [user]
    limits: [{ algorithm: sliding-window-log, max: 3, window: 10m, name: few }]
    tiers:
      plan:
        gold: [{ algorithm: sliding-window-log, max: 4, window: 10m, name: few }]
  - id: search-together
    match: { method: [GET, HEAD], path: /search/:what/*, where: { user: null, kind: [deep, wide] } }
    by: []
    limits: [2/hour]
`)
  visitors.push(sendTraffic(shop.api, { user: 'greedy', path: '/exports' }, 8))
  visitors.push(sendTraffic(shop.api, { user: 'modest', path: '/orders' }, 4))
  visitors.push(sendTraffic(shop.api, { user: 'golden', plan: 'gold', path: '/exports' }, 4))
  visitors.push(sendTraffic(shop.api, { method: 'GET', path: '/search/a/b', kind: 'wide' }, 4))
})
afterAll(() => {
  for (const visitor of visitors) visitor.stop()
  return stopAll()
})

const openAt = async (path: string) => {
  const page = await (await chromium.open(shop.admin)).newPage()
  await logIn(page, shop.admin, shop.token, path)
  return page
}

describe('the overview', () => {
  test('shows what is decided and refused a second, and moves without being loaded again', async () => {
    const page = await openAt('/')
    await page.evaluate('window.isTheSame = true')
    await eventually(() => figureOf(page, 'Decisions')).toBeGreaterThan(6)
    await eventually(() => figureOf(page, 'Refusals')).toBeGreaterThan(4)
    const more = sendTraffic(shop.api, { user: 'modest', path: '/orders' }, 40)
    await eventually(() => figureOf(page, 'Decisions')).toBeGreaterThan(25)
    more.stop()
    expect(await page.evaluate('window.isTheSame')).toBe(true)
  })

  test('draws it, says it in a sentence, and lists it as a table', async () => {
    const page = await openAt('/')
    const chart = page.getByRole('img', { name: /^Decisions a second\. In the last .* on average/ })
    await chart.waitFor()
    expect(await chart.locator('canvas').count()).toBe(1)
    await eventually(() => isDrawn(chart.locator('canvas').first())).toBe(true)
    await page.getByText('as a table of Decisions a second').click()
    const table = page.getByRole('table', { name: 'Decisions a second' })
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

/** Whether anything but one colour is on it. */
const isDrawn = (canvas: Locator) =>
  canvas.evaluate((element) => {
    const drawn = element as unknown as Canvas
    const { data } = drawn.getContext('2d').getImageData(0, 0, drawn.width, drawn.height)
    return data.some((value) => value !== data[0])
  })

describe('the caller that is limited', () => {
  test('is found from the overview with one click, with the rule, the limit and the wait', async () => {
    const page = await openAt('/')
    const rules = page.getByRole('table', { name: /^Rules that refuse/ })
    await rules.getByRole('row', { name: /exports/ }).waitFor()
    const callers = page.getByRole('table', { name: /^Callers that are refused/ })
    const greedy = callers.getByRole('row', { name: /greedy/ })
    await greedy.waitFor()
    expect(await greedy.innerText()).toContain('by exports')
    expect(await callers.getByRole('row', { name: /modest/ }).count()).toBe(0)
    await greedy.getByRole('link', { name: 'Why?' }).click()
    await page.getByRole('heading', { level: 1, name: 'Why?' }).waitFor()
    // The caller is known, the call is not: the rule says which it may have been.
    const answer = page.getByRole('region', { name: 'The answer' })
    await answer.getByText(/^Refused by exports\/few: 0 of 3 left, retry in \d+ (s|min)/).waitFor()
    await page.getByText('This call meets exports, which refuses it.').waitFor()
    expect(await page.getByLabel(/^Attributes/).inputValue()).toBe('user=greedy\npath=/exports')
    await page.getByText(/only the caller is known, and path is such that it meets/).waitFor()
  })

  test.each([
    ['golden', 'exports', /^Refused by exports\/few: 0 of 4 left/],
    ['everybody', 'search-together', /^Refused by search-together\/.*: 0 of 2 left/],
  ])('is explained as %s from every list of callers', async (name, rule, said) => {
    for (const path of [`/callers?rule=${rule}`, `/rules/${rule}`]) {
      const page = await openAt(path)
      const row = page.getByRole('row', { name: new RegExp(name) })
      await row.getByRole('link', { name: /^Why/ }).click()
      await page.getByText(`This call meets ${rule}, which refuses it.`).waitFor()
      await page.getByRole('region', { name: 'The answer' }).getByText(said).waitFor()
    }
  })

  test('is not explained by a call that does not meet the rule, and that is said first', async () => {
    const page = await openAt('/why?user=greedy&path=/orders&rule=exports')
    const unmet = 'This call does not meet exports, so it does not say why that rule refused.'
    await page.getByText(unmet).waitFor()
    const answers = await page.locator('.why-result').innerText()
    expect(answers.indexOf(unmet)).toBeLessThan(answers.indexOf('Allowed'))
    await page.getByRole('link', { name: 'Ask about the call alone' }).click()
    await eventually(() => page.getByText(unmet).count()).toBe(0)
    expect(page.url()).toMatch(/\/why\?user=greedy&path=%2Forders$/)
  })

  test('stands among the callers at zero with the time since when', async () => {
    // From now on, or it might be minutes by now, in which seconds are not told.
    const late = sendTraffic(shop.api, { user: 'latecomer', path: '/exports' }, 8)
    visitors.push(late)
    const page = await openAt('/callers?by=zero')
    await page.getByRole('row', { name: /greedy/ }).waitFor()
    const latecomer = page.getByRole('row', { name: /latecomer/ })
    await latecomer.waitFor()
    const since = async () => Number(/(\d+) s\b/.exec(await latecomer.innerText())?.[1])
    const before = await since()
    await eventually(since).toBeGreaterThan(before)
    expect(await page.getByRole('row', { name: /modest/ }).count()).toBe(0)
    await page.getByRole('tab', { name: 'Most use' }).click()
    await page.getByRole('row', { name: /modest/ }).waitFor()
    await page.getByLabel('Rule').selectOption('exports')
    await eventually(() => page.getByRole('row', { name: /modest/ }).count()).toBe(0)
  })

  test('is answered for from a pasted curl command', async () => {
    const page = await openAt('/why')
    const command = `curl -X POST 'https://shop.example/exports' -H 'X-Nothing: 1'`
    await page.getByLabel(/^Attributes/).fill(command)
    await page.getByRole('button', { name: 'Explain' }).click()
    await page
      .getByRole('region', { name: 'The answer' })
      .getByText(/^Allowed/)
      .waitFor()
  })
})

describe('the rules', () => {
  test('say that a plan has limits of its own, and the page of one says which', async () => {
    const page = await openAt('/rules')
    const row = page.getByRole('row', { name: /^exports/ })
    await row.getByText('3/10m sliding-window-log, plan gold has its own').waitFor()
    await row.getByRole('link', { name: 'exports' }).click()
    await page
      .getByText('3/10m sliding-window-log; plan gold: 4/10m sliding-window-log', { exact: true })
      .waitFor()
  })
})

describe('nodes and alerts', () => {
  test('say which rules each node runs, and that nothing is wrong', async () => {
    const page = await openAt('/nodes')
    const { version } = await shop.client.listRules()
    await page.getByRole('row').getByText(`version ${version}`).waitFor()
    await page.getByRole('link', { name: /^Alerts/ }).click()
    await page.getByRole('heading', { level: 1, name: 'Alerts' }).waitFor()
    const active = page.getByText('No alert is active on any node.')
    await active.or(page.getByText(/refuses .* calls a second/).first()).waitFor()
  })
})
