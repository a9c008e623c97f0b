/** For everybody: screen readers, keys alone, a phone, dark rooms. */
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
const visitors: TrafficSource[] = []
let shop: DashboardServer

beforeAll(async () => {
  shop = await startDashboardServer(`
rules:
  - id: orders
    description: Orders of one user, a little at a time.
    by: [user]
    limits: [2/second]
    candidate: { limits: [1/second] }
  - id: everybody-together-on-the-longest-path-there-is
    match: { path: /a/rather/long/path/* }
    by: []
    limits: [{ algorithm: leaky-bucket, max: 60, window: 1s, queue: 30 }]
    mode: shadow
`)
  const override = { caller: { user: 'bob' }, limits: ['50/second'] }
  await shop.client.addOverride('orders', override)
  visitors.push(
    sendTraffic(shop.api, { user: 'ann' }, 8),
    sendTraffic(shop.api, { user: 'bob' }, 2),
  )
})
afterAll(() => {
  for (const visitor of visitors) visitor.stop()
  return stopAll()
})

interface Violation {
  readonly id: string
  readonly impact: string | null
  readonly nodes: readonly { readonly html: string }[]
}

/** What axe finds that keeps somebody from using the page. */
async function violationsOn(page: Page): Promise<readonly string[]> {
  const found = await page.evaluate<readonly Violation[]>(
    `axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations
      .map(({ id, impact, nodes }) => ({ id, impact, nodes: nodes.map(({ html }) => ({ html })) })))`,
  )
  return found
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`))
}

const WAYS = [
  [1280, 'light'],
  [1280, 'dark'],
  [768, 'light'],
  [360, 'dark'],
  [360, 'light'],
] as const

/** Halfway from one colour to the other is none of ours. */
const SETTLED = `new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))
  .then(() => Promise.allSettled(document.getAnimations()
    .filter((each) => each instanceof CSSTransition).map(({ finished }) => finished)))
  .then(() => undefined)`

/** Every width and both colours, without loading it again. */
async function expectGood(page: Page): Promise<void> {
  for (const [width, colorScheme] of WAYS) {
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

/** Tables whose last columns nobody sees without knowing that they are there. */
const CUT = `[...document.querySelectorAll('.scroll-area:not(.chart-table)')]
  .filter((room) => room.scrollWidth > room.clientWidth)
  .map((room) => room.querySelector('caption')?.textContent)`

const open = async (path: string) => {
  const page = await (await chromium.open(shop.admin, { script: axe.source })).newPage()
  await logIn(page, shop.admin, shop.token, path)
  return page
}

describe('axe finds nothing serious, in light and dark, at 1280, 768 and 360 px, and nothing is wider than the page or cut', () => {
  test('at the door, right or wrong', async () => {
    const page = await (await chromium.open(shop.admin, { script: axe.source })).newPage()
    await page.goto(`${shop.admin}/`)
    await page.getByLabel('Admin token').fill('wrong')
    await page.getByRole('button', { name: 'Log in' }).click()
    await page.getByRole('alert').waitFor()
    await expectGood(page)
  })

  test('the runbook, which has no script to choose colours', async () => {
    const page = await (await chromium.open(shop.admin, { script: axe.source })).newPage()
    await page.goto(`${shop.admin}/runbook.html#breaker-open`)
    await page.getByRole('heading', { name: /breaker.open/i }).waitFor()
    for (const [width, colorScheme] of WAYS) {
      await page.setViewportSize({ width, height: 900 })
      await page.emulateMedia({ colorScheme })
      await page.evaluate(SETTLED)
      const needed = await page.evaluate<number>('document.documentElement.scrollWidth')
      expect(needed, `its width at ${width} px`).toBeLessThanOrEqual(width)
      expect(await violationsOn(page), `${colorScheme} at ${width} px`).toEqual([])
    }
  })

  test.each([
    ['the overview', '/', 'Callers that are refused'],
    ['rules', '/rules', 'everybody-together'],
    ['a new rule', '/rules?new=1', 'The rule as YAML'],
    ['callers', '/callers', 'ann'],
    ['callers at zero', '/callers?by=zero', 'At zero for'],
    ['nodes', '/nodes', 'One node'],
    ['alerts', '/alerts', 'The last ones that ended'],
    ['why, answered', '/why?user=ann', 'Rules that do not match'],
    ['the playground', '/playground', 'Sliding window log'],
    ['a page that is not there', '/nowhere', 'There is nothing at this address.'],
  ])('%s', async (_, path, shown) => {
    const page = await open(path)
    await page.getByText(shown).first().waitFor()
    await expectGood(page)
  })

  test('a rule, with each of its tabs and a dialog', async () => {
    const page = await open('/rules/orders')
    for (const [tab, shown] of [
      ['Edit', 'As it is in force'],
      ['Overrides 1', 'Give override'],
      ['Candidate 1', 'Remove candidate'],
      ['History', 'What changed'],
    ] as const) {
      await page.getByRole('tab', { name: tab }).click()
      await page.getByText(shown).first().waitFor()
      await expectGood(page)
    }
    await page.getByText('What changed').first().click()
    await page.getByRole('button', { name: 'Shadow', exact: true }).click()
    await page.getByRole('dialog').waitFor()
    await expectGood(page)
  })
})

/** What has the focus, as a screen reader would name it. */
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

test('with keys alone one logs in, finds a rule, opens a dialog, and is back where one was', async () => {
  const page = await (await chromium.open(shop.admin)).newPage()
  await page.goto(`${shop.admin}/`)
  await page.getByLabel('Admin token').waitFor()
  await page.keyboard.press('Tab')
  await page.keyboard.type(shop.token)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()

  await tabTo(page, 'Rules')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'Rules' }).waitFor()
  // The focus goes along, so that a reader says where it is.
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
