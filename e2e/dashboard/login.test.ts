/** The door of the dashboard: who is let in, with what, and what others can do with it. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { stopAll } from '../process.test-helper.js'
import { eventually, logIn, useChromium } from './chromium.test-helper.js'
import {
  addToken,
  startDashboardServer,
  type DashboardServer,
} from './dashboard-server.test-helper.js'

const chromium = useChromium()
let shop: DashboardServer

beforeAll(async () => {
  shop = await startDashboardServer('rules: [{ id: orders, by: [user], limits: [5/minute] }]')
})
afterAll(stopAll)

const open = async () => (await chromium.open(shop.admin)).newPage()
const titleOf = (page: Page) => page.getByRole('heading', { level: 1 })

/** As a script in the page would send it: the browser adds the cookie by itself. */
const send = (page: Page, path: string, headers: Readonly<Record<string, string>> = {}) =>
  page.evaluate(
    async ([to, more]) => {
      const body = '{"id":"mine","by":["user"],"limits":["1/minute"]}'
      return (await fetch(to, { method: 'POST', body, headers: more })).status
    },
    [`/admin/v1${path}`, { 'Content-Type': 'application/json', ...headers }] as const,
  )

describe('logging in', () => {
  test('a wrong token is told so, and the right one opens the page that was asked for', async () => {
    const page = await open()
    await page.goto(`${shop.admin}/rules/orders`)
    await page.getByLabel('Admin token').fill('not-the-token')
    await page.getByRole('button', { name: 'Log in' }).click()
    await page.getByRole('alert').getByText('This token opens nothing here.').waitFor()
    await page.getByLabel('Admin token').fill(` ${shop.token} `)
    await page.getByRole('button', { name: 'Log in' }).click()
    await page.getByRole('heading', { level: 1, name: 'orders' }).waitFor()
    expect(page.url()).toBe(`${shop.admin}/rules/orders`)
  })

  test('the cookie stays on this site and no script can read it, nor does the page keep the token', async () => {
    const page = await open()
    await logIn(page, shop.admin, shop.token)
    const [cookie, ...others] = await page.context().cookies(`${shop.admin}/admin/v1/rules`)
    expect(cookie).toMatchObject({ name: 'sluice_session', httpOnly: true, sameSite: 'Strict' })
    expect(others).toEqual([])
    expect(cookie?.value).not.toContain(shop.token)
    const kept = 'JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }])'
    const text = await page.evaluate<string>(kept)
    expect(text).not.toContain('sluice_session')
    expect(text).not.toContain(shop.token)
  })

  test('an address to go to afterwards that is not of this site is not gone to', async () => {
    for (const back of ['//example.org', '/\\example.org', 'javascript:alert(1)']) {
      const page = await open()
      await logIn(page, shop.admin, shop.token, `/login?back=${encodeURIComponent(back)}`)
      await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
      expect(page.url()).toBe(`${shop.admin}/`)
    }
  })

  test('a token that may only read sees everything and can change nothing', async () => {
    const token = await addToken(shop, 'reader', 'read')
    const page = await open()
    await logIn(page, shop.admin, token, '/rules/orders')
    await page.getByText('Your token may read, and not change anything.').waitFor()
    await page.getByRole('tab', { name: 'Text' }).waitFor()
    expect(await page.getByRole('textbox', { name: 'Rule', exact: true }).isDisabled()).toBe(true)
    for (const name of ['Save', 'Shadow', 'Delete', 'Off']) {
      expect(await page.getByRole('button', { name, exact: true }).count()).toBe(0)
    }
  })

  test('logging out takes the cookie away, in every tab', async () => {
    const page = await open()
    await logIn(page, shop.admin, shop.token, '/nodes')
    const other = await page.context().newPage()
    await other.goto(`${shop.admin}/callers`)
    await titleOf(other).waitFor()
    await page.getByRole('button', { name: 'Log out' }).click()
    await page.getByLabel('Admin token').waitFor()
    await eventually(() => page.context().cookies(`${shop.admin}/admin/`)).toEqual([])
    await other.getByLabel('Admin token').waitFor()
    await page.goto(`${shop.admin}/rules`)
    await page.getByLabel('Admin token').waitFor()
  })
})

describe('what others can do with a session', () => {
  test('a change without the word that only our page knows is refused', async () => {
    const page = await open()
    await logIn(page, shop.admin, shop.token)
    expect(await send(page, '/rules')).toBe(403)
    expect(await send(page, '/rules', { 'X-Sluice-Csrf': 'guessed' })).toBe(403)
    const { csrf } = await page.evaluate(
      async () => (await (await fetch('/admin/v1/session')).json()) as { readonly csrf: string },
    )
    expect(await send(page, '/validate/rule', { 'X-Sluice-Csrf': csrf })).toBe(200)
  })

  test('a page of another site reads nothing and changes nothing', async () => {
    const elsewhere = createServer((_, response) => {
      response.setHeader('Content-Type', 'text/html').end(attack(shop.admin))
    })
    await new Promise<void>((resolve) => elsewhere.listen(0, '127.0.0.1', resolve))
    const { port } = elsewhere.address() as AddressInfo
    const before = await shop.client.listRules()
    const context = await chromium.openUnwatched()
    const page = await context.newPage()
    await logIn(page, shop.admin, shop.token)
    await page.goto('about:blank')
    const answers: string[] = []
    page.on('response', (response) => {
      if (!response.url().startsWith(`${shop.admin}/admin/`)) return
      answers.push(`${response.status()} to ${response.request().method()}`)
    })
    // Another name of this machine is another site; another port only another origin.
    for (const host of ['localhost', '127.0.0.1']) {
      await page.goto(`http://${host}:${port}/`)
      await eventually(() => page.title()).toBe('read nothing')
    }
    await page.getByRole('button').click()
    await page.waitForURL(`${shop.admin}/**`)
    expect(answers.length).toBeGreaterThanOrEqual(3)
    expect(answers.filter((answer) => !/^40[13] /.test(answer))).toEqual([])
    expect(await shop.client.listRules()).toEqual(before)
    elsewhere.close()
  })
})

/** Sends by script and by form what a browser lets any page send, and tries to read an answer. */
const attack = (admin: string) => `<!doctype html><title>trying</title>
<form method="post" action="${admin}/admin/v1/rules" enctype="text/plain">
<input name='{"id":"mine","by":["user"],"limits":["1/minute"],"description":"' value='"}'>
<button>go</button></form><script>
const body = '{"id":"mine","by":["user"],"limits":["1/minute"]}'
const way = { credentials: 'include' }
fetch('${admin}/admin/v1/rules', { ...way, method: 'POST', mode: 'no-cors', body })
  .then(() => fetch('${admin}/admin/v1/rules', way))
  .then((read) => read.text())
  .then((text) => { document.title = 'read ' + text }, () => { document.title = 'read nothing' })
</script>`

const PAGES = [
  '/',
  '/rules',
  '/rules/orders',
  '/callers',
  '/nodes',
  '/alerts',
  '/why',
  '/playground',
]

describe('every page', () => {
  test('asks only this server, and does nothing that its strict policy forbids', async () => {
    const page = await open()
    await logIn(page, shop.admin, shop.token)
    for (const path of [...PAGES, '/rules?new=1', '/nowhere']) {
      const response = await page.goto(`${shop.admin}${path}`)
      const policy = response?.headers()['content-security-policy'] ?? ''
      expect(policy).toContain("default-src 'none'")
      expect(policy).not.toContain('unsafe')
      await titleOf(page).waitFor()
      await eventually(() => page.title()).not.toBe('Sluice')
    }
    // The watch over the page tells the rest when the test ends.
  })

  test('has its name, its place in the navigation, and the way back', async () => {
    const page = await open()
    await logIn(page, shop.admin, shop.token)
    const places = page.getByRole('navigation', { name: 'Pages' })
    for (const name of ['Rules', 'Callers', 'Nodes', 'Alerts', 'Why?', 'Playground']) {
      await places.getByRole('link', { name }).click()
      await page.getByRole('heading', { level: 1, name }).waitFor()
      expect(await places.locator('[aria-current=page]').innerText()).toContain(name)
    }
    await page.goBack()
    await page.getByRole('heading', { level: 1, name: 'Why?' }).waitFor()
  })
})
