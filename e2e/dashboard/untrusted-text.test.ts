/** Untrusted names are shown as text, whatever they contain. */
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
let server: DashboardServer

const IMAGE = '<img src=x onerror="window.hacked=1;alert(1)">'
const SCRIPT = '"><script>window.hacked=2;alert(2)</script>'
const LINK = 'javascript:window.hacked=3;alert(3)'
const BIDI = 'invoice\u202Egnp.exe'
const INVISIBLE = 'a\u0000b\u200Bc\u001b[31m\nd'
const NAMES = [
  IMAGE,
  SCRIPT,
  LINK,
  BIDI,
  INVISIBLE,
  "'; DROP TABLE rules; --",
  '{{7*7}}${7*7}',
  '🦊'.repeat(60),
]

beforeAll(async () => {
  const description = `${IMAGE} ${SCRIPT} ${BIDI}`
  const rule = { id: 'orders', description, by: ['user'], limits: ['1/hour'] }
  server = await startDashboardServer(JSON.stringify({ rules: [rule] }))
  for (const user of NAMES) for (let i = 0; i < 3; i++) await check(user)
  // More refusals than the others, so that the overview lists this one.
  for (let i = 0; i < 3; i++) await check(IMAGE)
  await server.client.patchRule('orders', { limits: ['2/hour'] }, { why: `${IMAGE}${SCRIPT}` })
  const override = { caller: { user: SCRIPT }, limits: ['3/hour'] }
  await server.client.addOverride('orders', override, { why: LINK })
})
afterAll(stopAll)

/** Sends a request with every attribute that a page may show, and returns its status. */
async function check(user: string): Promise<number> {
  const attributes = { user, plan: user.slice(0, 60), path: `/${user}` }
  const body = JSON.stringify({ attributes })
  const response = await fetch(`${server.api}/v1/check`, { method: 'POST', body })
  await response.arrayBuffer()
  return response.status
}

/** Expects that no script ran and that no element was created from a name. */
async function expectText(page: Page): Promise<void> {
  expect(await page.evaluate('window.hacked')).toBeUndefined()
  expect(await page.locator('img[src="x"], script:not([src])').count()).toBe(0)
  const links = await page
    .locator('a')
    .evaluateAll((all) => all.map((link) => (link as unknown as { readonly href: string }).href))
  expect(links.filter((href) => !href.startsWith(`${server.admin}/`))).toEqual([])
  const [needs, has] = await page.evaluate<readonly [number, number]>(
    '[document.documentElement.scrollWidth, document.documentElement.clientWidth]',
  )
  expect(needs).toBeLessThanOrEqual(has)
}

test('untrusted names are text on every page', async () => {
  const token = await addToken(server, '<b onclick=alert(4)>ann</b>', 'edit')
  const page = await (await chromium.open(server.admin)).newPage()
  await logIn(page, server.admin, token)
  const visit = async (path: string, shown: string | RegExp) => {
    await page.goto(`${server.admin}${path}`)
    await page.getByText(shown).first().waitFor()
    await expectText(page)
  }
  await visit('/', IMAGE)
  expect(await page.locator('.session-user').innerText()).toContain('<b onclick=alert(4)>ann</b>')
  await visit('/rules', /<script>/)
  for (const by of ['refusals', 'use', 'zero', 'hours']) {
    // A caller silent for a minute is no longer exhausted, and a busy machine may take that long.
    if (by === 'zero') for (let i = 0; i < 3; i++) await check(IMAGE)
    await visit(`/callers?by=${by}`, by === 'hours' ? /Callers at their limit in most/ : IMAGE)
  }
  // Invisible and bidirectional control characters are shown by code point.
  await visit('/callers', 'invoice')
  const text = await page.getByRole('table').innerText()
  for (const character of ['\u0000', '\u001b', '\u200B', '\u202E'])
    expect(text).not.toContain(character)
  await visit('/rules/orders', /<script>/)
  for (const tab of ['Overrides', 'Candidate', 'History']) {
    await page.getByRole('tab', { name: tab }).click()
    if (tab === 'History') await page.getByText(LINK).first().waitFor()
    if (tab === 'History') await page.getByText('Changes in version').last().click()
    await expectText(page)
  }
  for (const user of NAMES) {
    await visit(`/why?user=${encodeURIComponent(user)}`, /^(Refused|Allowed)/)
    await visit(`/rules/orders?override.user=${encodeURIComponent(user)}`, 'Add override')
  }
  await visit(`/rules/${encodeURIComponent(IMAGE)}`, 'This rule does not exist.')
  await visit(`/${encodeURIComponent(SCRIPT)}`, 'There is no page at this address.')
})

test('names of any accepted length are truncated', async () => {
  const accepted: string[] = []
  for (const length of [1_000_000, 60_000, 8192, 4096, 2048, 1024, 500]) {
    const name = `long-${length}-`.padEnd(length, 'w')
    if ((await check(name)) !== 200) continue
    for (let i = 0; i < 4; i++) await check(name)
    accepted.push(name)
  }
  expect(accepted.length).toBeGreaterThan(0)
  const page = await (await chromium.open(server.admin, { width: 360 })).newPage()
  await logIn(page, server.admin, server.token, '/callers')
  for (const name of accepted) {
    const row = page.getByRole('row', { name: new RegExp(name.slice(0, 10)) })
    await row.waitFor()
    expect((await row.innerText()).length).toBeLessThan(400)
    await expectText(page)
  }
  await page.goto(`${server.admin}/`)
  await page.getByText(/long-/).first().waitFor()
  await expectText(page)
})
