/** A server that dies and comes back: the page says so, and goes on by itself. */
import { afterAll, expect, test } from 'vitest'
import { freePorts, stopAll } from '../process.test-helper.js'
import { start } from '../serve.test-helper.js'
import { eventually, figureOf, logIn, useChromium } from './chromium.test-helper.js'
import { startDashboardServer, sendTraffic } from './dashboard-server.test-helper.js'

const chromium = useChromium()
afterAll(stopAll)

test('a page outlives its server: it says so, and goes on without a login when it is back', async () => {
  const ports = await freePorts('admin', 'api')
  const env = {
    SLUICE_ADMIN_LISTEN: `127.0.0.1:${ports.admin}`,
    SLUICE_API_LISTEN: `127.0.0.1:${ports.api}`,
  }
  const shop = await startDashboardServer(
    'rules: [{ id: orders, by: [user], limits: [2/second] }]',
    env,
  )
  const visitor = sendTraffic(shop.api, { user: 'ann' }, 10)
  const page = await (await chromium.open(shop.admin)).newPage()
  await logIn(page, shop.admin, shop.token)
  await page.evaluate('window.isTheSame = true')
  await eventually(() => figureOf(page, 'Refusals')).toBeGreaterThan(3)

  shop.program.signal('SIGKILL')
  await shop.program.code()
  const banner = page.getByText(/^Reconnecting…/)
  await banner.waitFor()
  // What is shown is old, and says so.
  await banner.getByText(/The figures below are \d+ s old/).waitFor()
  expect(await figureOf(page, 'Refusals')).toBeGreaterThan(3)

  await start(env, shop.folder)
  await banner.waitFor({ state: 'detached' })
  expect(await page.getByLabel('Admin token').count()).toBe(0)
  await eventually(() => figureOf(page, 'Decisions')).toBeGreaterThan(5)
  await shop.client.patchRule('orders', { limits: ['900/second'] }, { why: 'after the restart' })
  await eventually(() => figureOf(page, 'Refusals')).toBeLessThan(3)
  expect(await page.evaluate('window.isTheSame')).toBe(true)
  visitor.stop()
})
