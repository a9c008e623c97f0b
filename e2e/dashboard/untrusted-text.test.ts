/** Names that strangers chose are shown as text, whatever they are made of. */
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { stopAll } from '../process.test-helper.js'
import { logIn, useChromium } from './chromium.test-helper.js'
import {
  addToken,
  startDashboardServer,
  type DashboardServer,
} from './dashboard-server.test-helper.js'

const chromium = useChromium()
let shop: DashboardServer

const IMAGE = '<img src=x onerror="window.hacked=1;alert(1)">'
const SCRIPT = '"><script>window.hacked=2;alert(2)</script>'
const LINK = 'javascript:window.hacked=3;alert(3)'
const TURNED = 'invoice\u202Egnp.exe'
const UNSEEN = 'a\u0000b\u200Bc\u001b[31m\nd'
const NAMES = [
  IMAGE,
  SCRIPT,
  LINK,
  TURNED,
  UNSEEN,
  "'; DROP TABLE rules; --",
  '{{7*7}}${7*7}',
  '🦊'.repeat(60),
]

beforeAll(async () => {
  const description = `${IMAGE} ${SCRIPT} ${TURNED}`
  const rule = { id: 'orders', description, by: ['user'], limits: ['1/hour'] }
  shop = await startDashboardServer(JSON.stringify({ rules: [rule] }))
  for (const user of NAMES) for (let i = 0; i < 3; i++) await check(user)
  // The overview lists a few, and of those that are refused as often it may be any.
  for (let i = 0; i < 3; i++) await check(IMAGE)
  await shop.client.patchRule('orders', { limits: ['2/hour'] }, { why: `${IMAGE}${SCRIPT}` })
  const override = { caller: { user: SCRIPT }, limits: ['3/hour'] }
  await shop.client.addOverride('orders', override, { why: LINK })
})
afterAll(stopAll)

/** The status of a call by this user, with every attribute that a page may show. */
async function check(user: string): Promise<number> {
  const attributes = { user, plan: user.slice(0, 60), path: `/${user}` }
  const body = JSON.stringify({ attributes })
  const response = await fetch(`${shop.api}/v1/check`, { method: 'POST', body })
  await response.arrayBuffer()
  return response.status
}

/** Nothing of it ran, and no element was made of it. */
async function expectText(page: Page): Promise<void> {
  expect(await page.evaluate('window.hacked')).toBeUndefined()
  expect(await page.locator('img[src="x"], script:not([src])').count()).toBe(0)
  const links = await page
    .locator('a')
    .evaluateAll((all) => all.map((link) => (link as unknown as { readonly href: string }).href))
  expect(links.filter((href) => !href.startsWith(`${shop.admin}/`))).toEqual([])
  const [needs, has] = await page.evaluate<readonly [number, number]>(
    '[document.documentElement.scrollWidth, document.documentElement.clientWidth]',
  )
  expect(needs).toBeLessThanOrEqual(has)
}

test('on every page that shows them', async () => {
  const token = await addToken(shop, '<b onclick=alert(4)>ann</b>', 'edit')
  const page = await (await chromium.open(shop.admin)).newPage()
  await logIn(page, shop.admin, token)
  const visit = async (path: string, shown: string | RegExp) => {
    await page.goto(`${shop.admin}${path}`)
    await page.getByText(shown).first().waitFor()
    await expectText(page)
  }
  await visit('/', IMAGE)
  expect(await page.locator('.session-user').innerText()).toContain('<b onclick=alert(4)>ann</b>')
  await visit('/rules', /<script>/)
  for (const by of ['refusals', 'use', 'zero', 'hours']) {
    // Whoever is silent for a minute is at zero no more, and a busy machine may have taken one.
    if (by === 'zero') for (let i = 0; i < 3; i++) await check(IMAGE)
    await visit(`/callers?by=${by}`, by === 'hours' ? /Who came to the limit/ : IMAGE)
  }
  // What turns the text around it is shown by name, and nothing unseen stays so.
  await visit('/callers', 'invoice')
  const text = await page.getByRole('table').innerText()
  for (const unseen of ['\u0000', '\u001b', '\u200B', '\u202E']) expect(text).not.toContain(unseen)
  await visit('/rules/orders', /<script>/)
  for (const tab of ['Overrides', 'Candidate', 'History']) {
    await page.getByRole('tab', { name: tab }).click()
    if (tab === 'History') await page.getByText(LINK).first().waitFor()
    if (tab === 'History') await page.getByText('What changed').last().click()
    await expectText(page)
  }
  for (const user of NAMES) {
    await visit(`/why?user=${encodeURIComponent(user)}`, /^(Refused|Allowed)/)
    await visit(`/rules/orders?override.user=${encodeURIComponent(user)}`, 'Give override')
  }
  await visit(`/rules/${encodeURIComponent(IMAGE)}`, 'There is no such rule now.')
  await visit(`/${encodeURIComponent(SCRIPT)}`, 'There is nothing at this address.')
})

test('and long ones are cut: as long as the doors let in', async () => {
  const taken: string[] = []
  for (const length of [1_000_000, 60_000, 8192, 4096, 2048, 1024, 500]) {
    const name = `long-${length}-`.padEnd(length, 'w')
    if ((await check(name)) !== 200) continue
    for (let i = 0; i < 4; i++) await check(name)
    taken.push(name)
  }
  expect(taken.length).toBeGreaterThan(0)
  const page = await (await chromium.open(shop.admin, { width: 360 })).newPage()
  await logIn(page, shop.admin, shop.token, '/callers')
  for (const name of taken) {
    const row = page.getByRole('row', { name: new RegExp(name.slice(0, 10)) })
    await row.waitFor()
    expect((await row.innerText()).length).toBeLessThan(400)
    await expectText(page)
  }
  await page.goto(`${shop.admin}/`)
  await page.getByText(/long-/).first().waitFor()
  await expectText(page)
})
