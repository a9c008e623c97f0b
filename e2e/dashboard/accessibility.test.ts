/** Accessibility: axe on every page, the keyboard, narrow screens and both themes. */
import axe from 'axe-core'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { stopAll } from '../process.test-helper.js'
import { eventually, logIn, useChromium } from './chromium.test-helper.js'
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
  - id: orders
    description: Orders of one user, a little at a time.
    by: [user]
    limits: [2/second]
    candidate: { limits: [1/second] }
  - id: all-callers-on-the-longest-path-there-is
    match: { path: /a/rather/long/path/* }
    by: []
    limits: [{ algorithm: leaky-bucket, max: 60, window: 1s, queue: 30 }]
    mode: shadow
`)
  const override = { caller: { user: 'bob' }, limits: ['50/second'] }
  await server.client.addOverride('orders', override)
  traffic.push(
    sendTraffic(server.api, { user: 'ann' }, 8),
    sendTraffic(server.api, { user: 'bob' }, 2),
  )
})
afterAll(() => {
  for (const source of traffic) source.stop()
  return stopAll()
})

interface Violation {
  readonly id: string
  readonly impact: string | null
  readonly nodes: readonly { readonly html: string }[]
}

/** Serious and critical violations that axe finds. */
async function violationsOn(page: Page): Promise<readonly string[]> {
  const found = await page.evaluate<readonly Violation[]>(
    `axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations
      .map(({ id, impact, nodes }) => ({ id, impact, nodes: nodes.map(({ html }) => ({ html })) })))`,
  )
  return found
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`))
}

const VIEWPORTS = [
  [1280, 'light'],
  [1280, 'dark'],
  [768, 'light'],
  [360, 'dark'],
  [360, 'light'],
] as const

/** Waits for colour transitions: intermediate colours are not part of the theme. */
const SETTLED = `new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))
  .then(() => Promise.allSettled(document.getAnimations()
    .filter((each) => each instanceof CSSTransition).map(({ finished }) => finished)))
  .then(() => undefined)`

/** Checks a page at every width and in both themes, without a reload. */
async function expectGood(page: Page): Promise<void> {
  for (const [width, colorScheme] of VIEWPORTS) {
    await page.setViewportSize({ width, height: 900 })
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
    await eventually(() => page.evaluate('document.documentElement.dataset.theme')).toBe(
      colorScheme,
    )
    await page.evaluate(SETTLED)
    const needed = await page.evaluate<number>('document.documentElement.scrollWidth')
    expect(needed, `its width at ${width} px`).toBeLessThanOrEqual(width)
    await eventually(() => page.evaluate(CUT)).toEqual([])
    expect(await violationsOn(page), `${colorScheme} at ${width} px`).toEqual([])
  }
}

/** Tables with columns that are cut off. */
const CUT = `[...document.querySelectorAll('.scroll-area:not(.chart-table)')]
  .filter((room) => room.scrollWidth > room.clientWidth)
  .map((room) => room.querySelector('caption')?.textContent)`

const open = async (path: string) => {
  const page = await (await chromium.open(server.admin, { script: axe.source })).newPage()
  await logIn(page, server.admin, server.token, path)
  return page
}

describe('axe finds nothing serious in both themes at 1280, 768 and 360 px, and nothing is cut off', () => {
  test('the login page with an error is accessible', async () => {
    const page = await (await chromium.open(server.admin, { script: axe.source })).newPage()
    await page.goto(`${server.admin}/`)
    await page.getByLabel('Admin token').fill('wrong')
    await page.getByRole('button', { name: 'Log in' }).click()
    await page.getByRole('alert').waitFor()
    await expectGood(page)
  })

  test('the runbook, which has no script, is accessible', async () => {
    const page = await (await chromium.open(server.admin, { script: axe.source })).newPage()
    await page.goto(`${server.admin}/runbook.html#breaker-open`)
    await page.getByRole('heading', { name: /breaker.open/i }).waitFor()
    for (const [width, colorScheme] of VIEWPORTS) {
      await page.setViewportSize({ width, height: 900 })
      await page.emulateMedia({ colorScheme })
      await page.evaluate(SETTLED)
      const needed = await page.evaluate<number>('document.documentElement.scrollWidth')
      expect(needed, `its width at ${width} px`).toBeLessThanOrEqual(width)
      expect(await violationsOn(page), `${colorScheme} at ${width} px`).toEqual([])
    }
  })

  test.each([
    ['overview', '/', 'Refused callers'],
    ['rules', '/rules', 'all-callers-on'],
    ['a new rule', '/rules?new=1', 'Rule (YAML)'],
    ['callers', '/callers', 'ann'],
    ['exhausted callers', '/callers?by=zero', 'Exhausted for'],
    ['nodes', '/nodes', '1 node'],
    ['alerts', '/alerts', 'Most recent first'],
    ['explanation', '/why?user=ann', 'Non-matching rules'],
    ['playground', '/playground', 'Sliding window log'],
    ['unknown address', '/nowhere', 'There is no page at this address.'],
  ])('the page "%s" is accessible', async (_, path, shown) => {
    const page = await open(path)
    await page.getByText(shown).first().waitFor()
    await expectGood(page)
  })

  test('the page of a rule is accessible, with each tab and a dialog', async () => {
    const page = await open('/rules/orders')
    for (const [tab, shown] of [
      ['Edit', 'Active version'],
      ['Overrides 1', 'Add override'],
      ['Candidate 1', 'Remove candidate'],
      ['History', 'Changes in version'],
    ] as const) {
      await page.getByRole('tab', { name: tab }).click()
      await page.getByText(shown).first().waitFor()
      await expectGood(page)
    }
    await page.getByText('Changes in version').first().click()
    await page.getByRole('button', { name: 'Shadow', exact: true }).click()
    await page.getByRole('dialog').waitFor()
    await expectGood(page)
  })
})

/** The accessible name of the focused element. */
const focused = (page: Page) =>
  page.evaluate<string>(`(() => {
    const at = document.activeElement
    return at.getAttribute('aria-label') || at.textContent.trim() || at.tagName
  })()`)

async function tabTo(page: Page, name: string): Promise<void> {
  for (let i = 0; i < 60; i++) {
    if ((await focused(page)) === name) return
    await page.keyboard.press('Tab')
  }
  throw new Error(`${name}: not reached with Tab; the focus is at ${await focused(page)}`)
}

test('the keyboard alone can log in, open a rule, use a dialog and switch tabs', async () => {
  const page = await (await chromium.open(server.admin)).newPage()
  await page.goto(`${server.admin}/`)
  await page.getByLabel('Admin token').waitFor()
  await page.keyboard.press('Tab')
  await page.keyboard.type(server.token)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()

  await tabTo(page, 'Rules')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'Rules' }).waitFor()
  // The heading takes the focus, so that screen readers announce the page.
  await eventually(() => focused(page)).toBe('Rules')
  await page.getByRole('link', { name: 'orders', exact: true }).waitFor()
  await tabTo(page, 'orders')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'orders' }).waitFor()
  await page.getByRole('button', { name: 'Shadow', exact: true }).waitFor()

  await tabTo(page, 'Shadow')
  await page.keyboard.press('Enter')
  const dialog = page.getByRole('dialog')
  await dialog.waitFor()
  for (let i = 0; i < 8; i++) {
    await page.keyboard.press('Tab')
    const isOutside = await page.evaluate(
      `!document.activeElement.closest('dialog') && document.activeElement !== document.body`,
    )
    expect(isOutside).toBe(false)
  }
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'hidden' })
  await eventually(() => focused(page)).toBe('Shadow')

  await tabTo(page, 'Edit')
  await page.keyboard.press('ArrowRight')
  await page.getByRole('form', { name: 'Add an override' }).waitFor()
  await page.keyboard.press('End')
  await page.getByRole('list', { name: /^Versions of orders/ }).waitFor()
})
