/** Alerts on the pages: order, wording, and what is shown when they cannot be loaded. */
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
const traffic: TrafficSource[] = []
let server: DashboardServer

beforeAll(async () => {
  server = await startDashboardServer(`
rules:
  - { id: orders, match: { path: /orders }, by: [user], limits: [2/second] }
  - { id: search-total, match: { path: /search }, by: [], limits: [1/second] }
`)
  for (const path of ['/orders', '/search']) {
    traffic.push(sendTraffic(server.api, { user: 'ann', plan: 'pro', path }, 8))
  }
})
afterAll(() => {
  for (const source of traffic) source.stop()
  return stopAll()
})

const SINCE = '2026-03-01T07:20:00.000Z'

const EXHAUSTED: AlertView['alert'] = 'caller-exhausted'

const exhausted = (rule: string, caller: readonly string[]): AlertView => ({
  id: `${EXHAUSTED}:${rule}`,
  alert: EXHAUSTED,
  severity: 'ticket',
  subject: `${rule}/1f2e`,
  summary: `Caller 1f2e of rule "${rule}" has had nothing left for 9 minutes.`,
  details: { rule, hash: '1f2e', zeroSince: SINCE, caller },
  since: SINCE,
  resolvedAt: null,
  node: 'n1',
  runbook: `docs/guides/runbook.md#${EXHAUSTED}`,
})

/** A page that started after the four tickets. */
const BREAKER_OPEN: AlertView = {
  ...exhausted('', []),
  id: 'breaker-open:192.0.2.1',
  alert: 'breaker-open',
  severity: 'page',
  summary: 'Redis at 192.0.2.1:6379 does not answer in time; rules decide on store failure.',
  details: { store: '192.0.2.1:6379', opened: 1 },
  since: '2026-03-01T08:00:00.000Z',
}
const TICKETS = ['a', 'b', 'c', 'd'].map((rule) => exhausted(rule, [`user=${rule}`]))

/** Opens a page whose server responds with these alerts; undefined: it responds with an error. */
async function openWith(alerts: Partial<AlertsView> | undefined, path = '/'): Promise<Page> {
  const page = await (await chromium.open(server.admin)).newPage()
  await page.route('**/alerts', async (route) => {
    const isApiRequest = route.request().resourceType() === 'fetch'
    if (!isApiRequest) await route.continue()
    else if (alerts === undefined) await route.fulfill({ status: 503, json: {} })
    else await route.fulfill({ json: { active: [], recent: [], ...alerts } })
  })
  await logIn(page, server.admin, server.token, path)
  return page
}

const toneOf = async (page: Page) =>
  /tone-\w+/.exec((await page.locator('.nav-count').getAttribute('class')) ?? '')?.[0]

describe('an alert of severity page', () => {
  const active = [...TICKETS, BREAKER_OPEN]

  test('a page comes before older tickets in the health note, and colours the badge', async () => {
    const page = await openWith({ active })
    await page.getByText('5 alerts are active, 1 of them a page').waitFor()
    const items = await page.locator('.health-alerts li').allInnerTexts()
    expect(items[0]).toContain('Redis at 192.0.2.1:6379 does not answer')
    expect(items).toHaveLength(4)
    expect(await toneOf(page)).toBe('tone-refused')
  })

  test('a page comes first in the list, and tickets alone colour the badge as a warning', async () => {
    const page = await openWith({ active }, '/alerts')
    await page.getByRole('article').first().waitFor()
    expect(await page.getByRole('article').first().innerText()).toContain('breaker-open')
    const ticketsOnly = await openWith({ active: TICKETS }, '/alerts')
    await ticketsOnly.getByRole('article').first().waitFor()
    expect(await toneOf(ticketsOnly)).toBe('tone-degraded')
  })
})

describe('the details of an alert', () => {
  test('details have local times and labels, and name all callers of a shared counter', async () => {
    const page = await openWith({ active: [exhausted('search-total', [])] }, '/alerts')
    const alert = page.getByRole('article')
    await alert.getByText('of rule "search-total" has had nothing left').waitFor()
    const text = await alert.innerText()
    expect(text).toContain('Exhausted since')
    expect(text).toContain('all callers')
    expect(text).not.toContain(SINCE)
  })
})

describe('the healthy state', () => {
  test('the page is not healthy while alerts are unavailable', async () => {
    const page = await openWith(undefined)
    await page.getByText('Alerts are unavailable').waitFor()
    expect(await page.getByText('Healthy', { exact: true }).count()).toBe(0)
  })

  test('known alerts stay visible when the server is gone', async () => {
    const page = await openWith({ active: [BREAKER_OPEN] })
    await page.getByText('1 alert is active').waitFor()
    await page.route('**/alerts', (route) => route.abort())
    await page.getByRole('link', { name: 'Nodes', exact: true }).click()
    await page.getByRole('heading', { level: 1, name: 'Nodes' }).waitFor()
    await page.getByRole('link', { name: 'Overview', exact: true }).click()
    await page.getByText('1 alert is active').waitFor()
  })

  test('a server without rules says that every request is allowed', async () => {
    const empty = await startDashboardServer(
      'rules: [{ id: last, by: [user], limits: [2/second] }]',
    )
    await empty.client.deleteRule('last', { confirmLastRule: true })
    const page = await (await chromium.open(empty.admin)).newPage()
    await logIn(page, empty.admin, empty.token)
    await page.getByText('No rules: every request is allowed').waitFor()
    expect(await page.getByText('within their limits').count()).toBe(0)
  })
})

describe('statistics of one process', () => {
  test.each([
    ['the overview', '/', '**/stats'],
    ['callers', '/callers', '**/top?*'],
  ])('statistics of one process are marked as such: %s', async (_, path, asked) => {
    const page = await (await chromium.open(server.admin)).newPage()
    await page.route(asked, async (route) => {
      const answer = await route.fetch()
      await route.fulfill({ json: { ...(await answer.json()), isWhole: false } })
    })
    await logIn(page, server.admin, server.token, path)
    await page.getByText('Statistics of one process only').waitFor()
  })
})

test('a counter shared by all callers has neither an override nor a plan', async () => {
  const page = await (await chromium.open(server.admin)).newPage()
  await logIn(page, server.admin, server.token, '/callers')
  const ann = page.getByRole('row', { name: /ann/ })
  await ann.getByRole('link', { name: 'Override' }).waitFor()
  expect(await ann.innerText()).toContain('pro plan')
  const allCallers = page.getByRole('row', { name: /all callers/ })
  await allCallers.waitFor()
  expect(await allCallers.getByRole('link', { name: 'Override' }).count()).toBe(0)
  expect(await allCallers.innerText()).not.toContain('plan')
})
