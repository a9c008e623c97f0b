/** Concurrent edits of one rule: nothing is overwritten, and nothing typed is lost. */
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { stopAll } from '../process.test-helper.js'
import { eventually, logIn, useChromium } from './chromium.test-helper.js'
import { startDashboardServer, type DashboardServer } from './dashboard-server.test-helper.js'

const chromium = useChromium()
let server: DashboardServer

beforeAll(async () => {
  server = await startDashboardServer('rules: [{ id: orders, by: [user], limits: [10/second] }]')
})
afterAll(stopAll)

const textOf = (page: Page) => page.getByRole('textbox', { name: 'Rule', exact: true })
const saveOf = (page: Page) => page.getByRole('button', { name: 'Save' })

async function openRule({ isOffline = false } = {}): Promise<Page> {
  const page = await (await chromium.open(server.admin)).newPage()
  if (isOffline) await page.route('**/admin/v1/events', (route) => route.abort())
  await logIn(page, server.admin, server.token, '/rules/orders')
  await textOf(page).waitFor()
  return page
}

async function type(page: Page, limit: string): Promise<void> {
  const text = await textOf(page).inputValue()
  await textOf(page).fill(text.replace(/^limits:.*$/m, `limits: [${limit}]`))
}

describe('two tabs with one rule', () => {
  test('an edit in one tab appears in the other', async () => {
    const [one, other] = [await openRule(), await openRule()]
    await type(one, '20/second')
    await saveOf(one).click()
    await eventually(() => textOf(other).inputValue()).toContain('20/second')
  })

  test('an edit by someone else is shown, and the typed text stays', async () => {
    const [one, other] = [await openRule(), await openRule()]
    await type(other, '31/second')
    await type(one, '30/second')
    await saveOf(one).click()
    await other.getByText('admin saved first').waitFor()
    expect(await textOf(other).inputValue()).toContain('31/second')
    expect(await saveOf(other).isDisabled()).toBe(true)
    await other.getByRole('button', { name: 'Use theirs' }).click()
    await eventually(() => textOf(other).inputValue()).toContain('30/second')
    await eventually(() => other.getByText('saved first').count()).toBe(0)
  })

  test('a save over an unseen version is refused, and can be repeated after the conflict', async () => {
    const offline = await openRule({ isOffline: true })
    await server.client.patchRule('orders', { limits: ['40/second'] }, { why: 'an unseen change' })
    await type(offline, '41/second')
    const refused = offline.waitForResponse((response) => response.status() >= 400)
    await saveOf(offline).click()
    expect((await refused).status()).toBe(409)
    await offline.getByText('admin saved first').waitFor()
    await offline.getByText('an unseen change').waitFor()
    await offline.getByText('+ limits: [40/second]').first().waitFor()
    expect(await textOf(offline).inputValue()).toContain('41/second')
    expect(await server.client.getRule('orders')).toMatchObject({ limits: ['40/second'] })
    await offline.getByRole('button', { name: 'Keep mine' }).click()
    await saveOf(offline).click()
    await eventually(() => server.client.getRule('orders')).toMatchObject({ limits: ['41/second'] })
  })
})
