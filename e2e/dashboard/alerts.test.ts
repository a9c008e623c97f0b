/** What needs somebody: the worst first, never forgotten, and told as what it is. */
import type { AlertsView, AlertView } from '@sluice/client'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { stopAll } from '../process.test-helper.js'
import { logIn, useChromium } from './chromium.test-helper.js'
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
  - { id: orders, match: { path: /orders }, by: [user], limits: [2/second] }
  - { id: everybody, match: { path: /search }, by: [], limits: [1/second] }
`)
  for (const path of ['/orders', '/search']) {
    visitors.push(sendTraffic(shop.api, { user: 'ann', plan: 'pro', path }, 8))
  }
})
afterAll(() => {
  for (const visitor of visitors) visitor.stop()
  return stopAll()
})

const SINCE = '2026-03-01T07:20:00.000Z'

const atZero = (rule: string, caller: readonly string[]): AlertView => ({
  id: `caller-at-zero:${rule}`,
  alert: 'caller-at-zero',
  severity: 'ticket',
  subject: `${rule}/1f2e`,
  summary: `Caller 1f2e of rule "${rule}" has had nothing left for 9 minutes.`,
  details: { rule, hash: '1f2e', zeroSince: SINCE, caller },
  since: SINCE,
  resolvedAt: null,
  node: 'n1',
  runbook: 'docs/guides/runbook.md#caller-at-zero',
})

/** The last of them that began, after four tickets. */
const SILENT: AlertView = {
  ...atZero('', []),
  id: 'breaker-open:192.0.2.1',
  alert: 'breaker-open',
  severity: 'page',
  summary: 'Redis at 192.0.2.1:6379 does not answer in time; rules answer by their posture.',
  details: { store: '192.0.2.1:6379', opened: 1 },
  since: '2026-03-01T08:00:00.000Z',
}
const TICKETS = ['a', 'b', 'c', 'd'].map((rule) => atZero(rule, [`user=${rule}`]))

/** The page, whose server tells these alerts; undefined: it fails to. */
async function openWith(alerts: Partial<AlertsView> | undefined, path = '/'): Promise<Page> {
  const page = await (await chromium.open(shop.admin)).newPage()
  await page.route('**/alerts', async (route) => {
    const isAsked = route.request().resourceType() === 'fetch'
    if (!isAsked) await route.continue()
    else if (alerts === undefined) await route.fulfill({ status: 503, json: {} })
    else await route.fulfill({ json: { active: [], recent: [], ...alerts } })
  })
  await logIn(page, shop.admin, shop.token, path)
  return page
}

const toneOf = async (page: Page) =>
  /tone-\w+/.exec((await page.locator('.nav-count').getAttribute('class')) ?? '')?.[0]

describe('a page', () => {
  const active = [...TICKETS, SILENT]

  test('is the first of the banner, before tickets that are older, and in the colour of it', async () => {
    const page = await openWith({ active })
    await page.getByText('5 alerts are active, one of them a page').waitFor()
    const told = await page.locator('.health-alerts li').allInnerTexts()
    expect(told[0]).toContain('Redis at 192.0.2.1:6379 does not answer')
    expect(told).toHaveLength(4)
    expect(await toneOf(page)).toBe('tone-refused')
  })

  test('is the first of the list too, and without one the badge is calmer', async () => {
    const page = await openWith({ active }, '/alerts')
    await page.getByRole('article').first().waitFor()
    expect(await page.getByRole('article').first().innerText()).toContain('breaker-open')
    const calm = await openWith({ active: TICKETS }, '/alerts')
    await calm.getByRole('article').first().waitFor()
    expect(await toneOf(calm)).toBe('tone-degraded')
  })
})

describe('what an alert says', () => {
  test('is in local time, in words, and of everybody where nobody is counted apart', async () => {
    const page = await openWith({ active: [atZero('everybody', [])] }, '/alerts')
    const alert = page.getByRole('article')
    await alert.getByText('of rule "everybody" has had nothing left').waitFor()
    const text = await alert.innerText()
    expect(text).toContain('At zero since')
    expect(text).toContain('everybody together')
    expect(text).not.toContain(SINCE)
  })
})

describe('all is well', () => {
  test('is not said while nobody knows', async () => {
    const page = await openWith(undefined)
    await page.getByText('Alerts cannot be read').waitFor()
    expect(await page.getByText('All is well').count()).toBe(0)
  })

  test('is not said of a server that went away, and what was known of it stays', async () => {
    const page = await openWith({ active: [SILENT] })
    await page.getByText('One alert is active').waitFor()
    await page.route('**/alerts', (route) => route.abort())
    await page.getByRole('link', { name: 'Nodes', exact: true }).click()
    await page.getByRole('heading', { level: 1, name: 'Nodes' }).waitFor()
    await page.getByRole('link', { name: 'Overview', exact: true }).click()
    await page.getByText('One alert is active').waitFor()
  })

  test('is not said where there is no rule: that every call is allowed is', async () => {
    const empty = await startDashboardServer(
      'rules: [{ id: last, by: [user], limits: [2/second] }]',
    )
    await empty.client.deleteRule('last', { confirmLastRule: true })
    const page = await (await chromium.open(empty.admin)).newPage()
    await logIn(page, empty.admin, empty.token)
    await page.getByText('There is no rule: every call is allowed').waitFor()
    expect(await page.getByText('within their limits').count()).toBe(0)
  })
})

describe('figures of one process alone', () => {
  test.each([
    ['the overview', '/', '**/stats'],
    ['callers', '/callers', '**/top?*'],
  ])('say so: %s', async (_, path, asked) => {
    const page = await (await chromium.open(shop.admin)).newPage()
    await page.route(asked, async (route) => {
      const answer = await route.fetch()
      await route.fulfill({ json: { ...(await answer.json()), isWhole: false } })
    })
    await logIn(page, shop.admin, shop.token, path)
    await page.getByText('Of this process alone').waitFor()
  })
})

test('everybody together is no caller to give an override to, and has no plan', async () => {
  const page = await (await chromium.open(shop.admin)).newPage()
  await logIn(page, shop.admin, shop.token, '/callers')
  const ann = page.getByRole('row', { name: /ann/ })
  await ann.getByRole('link', { name: 'Override' }).waitFor()
  expect(await ann.innerText()).toContain('pro plan')
  const everybody = page.getByRole('row', { name: /everybody together/ })
  await everybody.waitFor()
  expect(await everybody.getByRole('link', { name: 'Override' }).count()).toBe(0)
  expect(await everybody.innerText()).not.toContain('plan')
})
