/** The playground: a burst that is drawn, and what real limiters make of the same calls. */
import { createLimiter, memoryStore } from '@sluice/limiter'
import type { Page, Response } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { stopAll } from '../process.test-helper.js'
import { eventually, logIn, useChromium } from './chromium.test-helper.js'
import { startDashboardServer, type DashboardServer } from './dashboard-server.test-helper.js'

const chromium = useChromium()
let shop: DashboardServer

beforeAll(async () => {
  shop = await startDashboardServer('rules: [{ id: orders, by: [user], limits: [5/minute] }]')
})
afterAll(stopAll)

const openPlayground = async () => {
  const page = await (await chromium.open(shop.admin)).newPage()
  await logIn(page, shop.admin, shop.token, '/playground?max=20&window=5&burst=10')
  await laneOf(page, 'Token bucket').getByText('admitted').waitFor()
  return page
}

const laneOf = (page: Page, name: string) => page.getByRole('region', { name, exact: true })
const totalsOf = (page: Page, name: string) =>
  laneOf(page, name).locator('.result-totals').innerText()

interface Asked {
  readonly limits: readonly object[]
  readonly calls: readonly { readonly atMs: number }[]
}

/** What the next change of the drawing asks the server, once it has answered. */
async function nextTrial(page: Page, change: () => Promise<void>): Promise<Asked> {
  const isTrial = (response: Response) => response.url().endsWith('/admin/v1/trial')
  const answered = page.waitForResponse(isTrial)
  await change()
  return (await answered).request().postDataJSON() as Asked
}

/** How many of the calls a limiter of the library admits, with nothing but its own clock. */
async function admittedBy(limit: object, calls: Asked['calls']): Promise<number> {
  // On an edge of windows, as the drawing begins.
  const startMs = 1_800_000_000_000
  let nowMs = startMs
  const clock = { now: () => nowMs * 1000 }
  const rules = [{ id: 'tried', by: [], limits: [limit] }]
  const limiter = createLimiter({ rules, store: memoryStore({ clock }), clock })
  let admitted = 0
  for (const { atMs } of calls) {
    nowMs = startMs + atMs
    const { allowed, delayMs } = limiter.checkSync({ attributes: {} })
    if (allowed && delayMs === 0) admitted++
  }
  await limiter.close()
  return admitted
}

const LANES = [
  'Token bucket',
  'GCRA',
  'Leaky bucket',
  'Fixed window',
  'Sliding window counter',
  'Sliding window log',
]

describe('the playground', () => {
  test('draws what is dragged: more calls, other lanes', async () => {
    const page = await openPlayground()
    const before = await totalsOf(page, 'Token bucket')
    const box = await page.getByRole('group', { name: /^Calls a second/ }).boundingBox()
    if (box === null) throw new Error('There is nothing to drag.')
    const at = (x: number, y: number) => [box.x + box.width * x, box.y + box.height * y] as const
    await nextTrial(page, async () => {
      await page.mouse.move(...at(0.1, 0.9))
      await page.mouse.down()
      await page.mouse.move(...at(0.3, 0.2), { steps: 12 })
      await page.mouse.up()
    })
    await eventually(() => totalsOf(page, 'Token bucket')).not.toBe(before)
    await page.getByText('As you drew it.').waitFor()
    const drawn = page.getByRole('slider', { name: 'From second 5.0' })
    expect(Number(await drawn.getAttribute('aria-valuenow'))).toBeGreaterThan(20)
  })

  test('is played with the keys alone, and says each value', async () => {
    const page = await openPlayground()
    const before = await totalsOf(page, 'Fixed window')
    const slider = page.getByRole('slider', { name: 'From second 2.0' })
    await slider.focus()
    await nextTrial(page, () => page.keyboard.press('ArrowUp'))
    expect(await slider.getAttribute('aria-valuetext')).toBe('1 calls a second')
    await nextTrial(page, () => page.keyboard.press('End'))
    expect(await slider.getAttribute('aria-valuenow')).toBe(
      await slider.getAttribute('aria-valuemax'),
    )
    await eventually(() => totalsOf(page, 'Fixed window')).not.toBe(before)
    await nextTrial(page, () => page.keyboard.press('Home'))
    await eventually(() => totalsOf(page, 'Fixed window')).toBe(before)
  })

  test.each(['Steady', 'Burst', 'Scraper', 'Retry storm'])(
    '%s: every algorithm admits as many as a real limiter does',
    async (name) => {
      const page = await openPlayground()
      const { limits, calls } = await nextTrial(page, () =>
        page.getByRole('button', { name }).click(),
      )
      expect(calls.length).toBeGreaterThan(10)
      await page.getByText(`${calls.length} calls tried`).waitFor({ state: 'attached' })
      for (const [index, lane] of LANES.entries()) {
        const admitted = await admittedBy(limits[index] ?? {}, calls)
        expect(await totalsOf(page, lane)).toMatch(new RegExp(`^${admitted} admitted`))
      }
    },
  )
})
