/** Two people at the same rule: neither overwrites the other, and nothing typed is lost. */
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { stopAll } from '../process.test-helper.js'
import { eventually, logIn, useChromium } from './chromium.test-helper.js'
import { startDashboardServer, type DashboardServer } from './dashboard-server.test-helper.js'

const chromium = useChromium()
let shop: DashboardServer

beforeAll(async () => {
  shop = await startDashboardServer('rules: [{ id: orders, by: [user], limits: [10/second] }]')
})
afterAll(stopAll)

const textOf = (page: Page) => page.getByRole('textbox', { name: 'Rule', exact: true })
const saveOf = (page: Page) => page.getByRole('button', { name: 'Save' })

async function openRule({ isDeaf = false } = {}): Promise<Page> {
  const page = await (await chromium.open(shop.admin)).newPage()
  if (isDeaf) await page.route('**/admin/v1/events', (route) => route.abort())
  await logIn(page, shop.admin, shop.token, '/rules/orders')
  await textOf(page).waitFor()
  return page
}

async function type(page: Page, limit: string): Promise<void> {
  const text = await textOf(page).inputValue()
  await textOf(page).fill(text.replace(/^limits:.*$/m, `limits: [${limit}]`))
}

describe('two tabs at one rule', () => {
  test('an edit in one is in the other a moment later', async () => {
    const [one, other] = [await openRule(), await openRule()]
    await type(one, '20/second')
    await saveOf(one).click()
    await eventually(() => textOf(other).inputValue()).toContain('20/second')
  })

  test('an edit elsewhere while one types is told, and what was typed stays', async () => {
    const [one, other] = [await openRule(), await openRule()]
    await type(other, '31/second')
    await type(one, '30/second')
    await saveOf(one).click()
    await other.getByText('admin was faster').waitFor()
    expect(await textOf(other).inputValue()).toContain('31/second')
    expect(await saveOf(other).isDisabled()).toBe(true)
    await other.getByRole('button', { name: 'Take theirs' }).click()
    await eventually(() => textOf(other).inputValue()).toContain('30/second')
    await eventually(() => other.getByText('was faster').count()).toBe(0)
  })

  test('a save over what was not seen is refused, and can be made over it knowingly', async () => {
    const deaf = await openRule({ isDeaf: true })
    await shop.client.patchRule('orders', { limits: ['40/second'] }, { why: 'behind its back' })
    await type(deaf, '41/second')
    const refused = deaf.waitForResponse((response) => response.status() >= 400)
    await saveOf(deaf).click()
    expect((await refused).status()).toBe(409)
    await deaf.getByText('admin was faster').waitFor()
    await deaf.getByText('behind its back').waitFor()
    await deaf.getByText('+ limits: [40/second]').first().waitFor()
    expect(await textOf(deaf).inputValue()).toContain('41/second')
    expect(await shop.client.getRule('orders')).toMatchObject({ limits: ['40/second'] })
    await deaf.getByRole('button', { name: 'Go on with mine, over theirs' }).click()
    await saveOf(deaf).click()
    await eventually(() => shop.client.getRule('orders')).toMatchObject({ limits: ['41/second'] })
  })
})
