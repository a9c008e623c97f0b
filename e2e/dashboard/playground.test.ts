/** The playground: drawn traffic, compared with real limiters on the same calls. */
import { createLimiter, memoryStore } from '@sluice/limiter'
import type { Page, Response } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { stopAll } from '../process.test-helper.js'
import { eventually, logIn, useChromium } from './chromium.test-helper.js'
import { startDashboardServer, type DashboardServer } from './dashboard-server.test-helper.js'

const chromium = useChromium()
let server: DashboardServer

beforeAll(async () => {
  server = await startDashboardServer('rules: [{ id: orders, by: [user], limits: [5/minute] }]')
})
afterAll(stopAll)

const openPlayground = async () => {
  const page = await (await chromium.open(server.admin)).newPage()
  await logIn(page, server.admin, server.token, '/playground?max=20&window=5&burst=10')
  await resultOf(page, 'Token bucket').locator('.result-totals').waitFor()
  return page
}

const resultOf = (page: Page, name: string) => page.getByRole('region', { name, exact: true })
const totalsOf = (page: Page, name: string) =>
  resultOf(page, name).locator('.result-totals').innerText()

interface SimulationRequest {
  readonly limits: readonly object[]
  readonly calls: readonly { readonly atMs: number }[]
}

/** The request that the next change of the traffic sends, once it has a response. */
async function nextSimulation(page: Page, change: () => Promise<void>): Promise<SimulationRequest> {
  const isSimulation = (response: Response) => response.url().endsWith('/admin/v1/simulate')
  const response = page.waitForResponse(isSimulation)
  await change()
  return (await response).request().postDataJSON() as SimulationRequest
}

/** The number of calls that a limiter of the library admits, on a virtual clock. */
async function admittedBy(limit: object, calls: SimulationRequest['calls']): Promise<number> {
  // At the start of a window, as in the simulation.
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

const ALGORITHMS = [
  'Token bucket',
  'GCRA',
  'Leaky bucket',
  'Fixed window',
  'Sliding window counter',
  'Sliding window log',
]

describe('the playground', () => {
  test('dragging changes the traffic and the results', async () => {
    const page = await openPlayground()
    const before = await totalsOf(page, 'Token bucket')
    const box = await page.getByRole('group', { name: /^Requests per second/ }).boundingBox()
    if (box === null) throw new Error('The timeline is not visible.')
    const at = (x: number, y: number) => [box.x + box.width * x, box.y + box.height * y] as const
    await nextSimulation(page, async () => {
      await page.mouse.move(...at(0.1, 0.9))
      await page.mouse.down()
      await page.mouse.move(...at(0.3, 0.2), { steps: 12 })
      await page.mouse.up()
    })
    await eventually(() => totalsOf(page, 'Token bucket')).not.toBe(before)
    await page.getByText('Custom traffic.').waitFor()
    const drawn = page.getByRole('slider', { name: 'From second 5.0' })
    expect(Number(await drawn.getAttribute('aria-valuenow'))).toBeGreaterThan(20)
  })

  test('the keyboard changes the traffic, and each value is announced', async () => {
    const page = await openPlayground()
    const before = await totalsOf(page, 'Fixed window')
    const slider = page.getByRole('slider', { name: 'From second 2.0' })
    await slider.focus()
    await nextSimulation(page, () => page.keyboard.press('ArrowUp'))
    expect(await slider.getAttribute('aria-valuetext')).toBe('1 requests per second')
    await nextSimulation(page, () => page.keyboard.press('End'))
    expect(await slider.getAttribute('aria-valuenow')).toBe(
      await slider.getAttribute('aria-valuemax'),
    )
    await eventually(() => totalsOf(page, 'Fixed window')).not.toBe(before)
    await nextSimulation(page, () => page.keyboard.press('Home'))
    await eventually(() => totalsOf(page, 'Fixed window')).toBe(before)
  })

  test.each(['Steady', 'Burst', 'Scraper', 'Retry storm'])(
    'with the preset %s every algorithm admits as many calls as a real limiter',
    async (name) => {
      const page = await openPlayground()
      const { limits, calls } = await nextSimulation(page, () =>
        page.getByRole('button', { name }).click(),
      )
      expect(calls.length).toBeGreaterThan(10)
      await page.getByText(`${calls.length} requests simulated`).waitFor({ state: 'attached' })
      for (const [index, algorithm] of ALGORITHMS.entries()) {
        const admitted = await admittedBy(limits[index] ?? {}, calls)
        expect(await totalsOf(page, algorithm)).toMatch(new RegExp(`^${admitted} admitted`))
      }
    },
  )
})
