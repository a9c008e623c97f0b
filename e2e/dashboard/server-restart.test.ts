/** A server that crashes and restarts: the page shows a banner and recovers. */
import { afterAll, expect, test } from 'vitest'
import { freePorts, stopAll } from '../process.test-helper.js'
import { start } from '../serve.test-helper.js'
import { eventually, figureOf, logIn, useChromium } from './chromium.test-helper.js'
import { startDashboardServer, sendTraffic } from './dashboard-server.test-helper.js'

const chromium = useChromium()
afterAll(stopAll)

test('a page shows that its server is gone, and recovers without a login after the restart', async () => {
  const ports = await freePorts('admin', 'api')
  const env = {
    SLUICE_ADMIN_LISTEN: `127.0.0.1:${ports.admin}`,
    SLUICE_API_LISTEN: `127.0.0.1:${ports.api}`,
    SLUICE_GRPC_LISTEN: '127.0.0.1:0',
  }
  const server = await startDashboardServer(
    'rules: [{ id: orders, by: [user], limits: [2/second] }]',
    env,
  )
  const source = sendTraffic(server.api, { user: 'ann' }, 10)
  const page = await (await chromium.open(server.admin)).newPage()
  await logIn(page, server.admin, server.token)
  await page.evaluate('window.isSamePage = true')
  await eventually(() => figureOf(page, 'Refused')).toBeGreaterThan(3)

  server.program.signal('SIGKILL')
  await server.program.code()
  const banner = page.getByText(/^Reconnecting…/)
  await banner.waitFor()
  // The banner says how old the statistics are.
  await banner.getByText(/The figures below are \d+ s old/).waitFor()
  expect(await figureOf(page, 'Refused')).toBeGreaterThan(3)

  await start(env, server.folder)
  await banner.waitFor({ state: 'detached' })
  expect(await page.getByLabel('Admin token').count()).toBe(0)
  await eventually(() => figureOf(page, 'Requests')).toBeGreaterThan(5)
  await server.client.patchRule('orders', { limits: ['900/second'] }, { why: 'after the restart' })
  await eventually(() => figureOf(page, 'Refused')).toBeLessThan(3)
  expect(await page.evaluate('window.isSamePage')).toBe(true)
  source.stop()
})
