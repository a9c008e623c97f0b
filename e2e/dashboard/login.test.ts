/** The login: tokens, sessions, and protection from other sites. */
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
let server: DashboardServer

beforeAll(async () => {
  server = await startDashboardServer('rules: [{ id: orders, by: [user], limits: [5/minute] }]')
})
afterAll(stopAll)

const open = async () => (await chromium.open(server.admin)).newPage()
const titleOf = (page: Page) => page.getByRole('heading', { level: 1 })

/** Sends a request from a script in the page, with the session cookie. */
const send = (page: Page, path: string, headers: Readonly<Record<string, string>> = {}) =>
  page.evaluate(
    async ([to, more]) => {
      const body = '{"id":"mine","by":["user"],"limits":["1/minute"]}'
      return (await fetch(to, { method: 'POST', body, headers: more })).status
    },
    [`/admin/v1${path}`, { 'Content-Type': 'application/json', ...headers }] as const,
  )

describe('logging in', () => {
  test('a wrong token is refused, and the right one opens the requested page', async () => {
    const page = await open()
    await page.goto(`${server.admin}/rules/orders`)
    await page.getByLabel('Admin token').fill('not-the-token')
    await page.getByRole('button', { name: 'Log in' }).click()
    await page.getByRole('alert').getByText('Invalid token').waitFor()
    await page.getByLabel('Admin token').fill(` ${server.token} `)
    await page.getByRole('button', { name: 'Log in' }).click()
    await page.getByRole('heading', { level: 1, name: 'orders' }).waitFor()
    expect(page.url()).toBe(`${server.admin}/rules/orders`)
  })

  test('the session cookie is HttpOnly and SameSite, and the page does not store the token', async () => {
    const page = await open()
    await logIn(page, server.admin, server.token)
    const [cookie, ...others] = await page.context().cookies(`${server.admin}/admin/v1/rules`)
    expect(cookie).toMatchObject({ name: 'sluice_session', httpOnly: true, sameSite: 'Strict' })
    expect(others).toEqual([])
    expect(cookie?.value).not.toContain(server.token)
    const storage = 'JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }])'
    const text = await page.evaluate<string>(storage)
    expect(text).not.toContain('sluice_session')
    expect(text).not.toContain(server.token)
  })

  test('the login does not redirect to another site', async () => {
    for (const back of ['//example.org', '/\\example.org', 'javascript:alert(1)']) {
      const page = await open()
      await logIn(page, server.admin, server.token, `/login?back=${encodeURIComponent(back)}`)
      await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
      expect(page.url()).toBe(`${server.admin}/`)
    }
  })

  test('a read-only token sees everything and can change nothing', async () => {
    const token = await addToken(server, 'reader', 'read')
    const page = await open()
    await logIn(page, server.admin, token, '/rules/orders')
    await page.getByText('Your token is read-only.').waitFor()
    await page.getByRole('tab', { name: 'YAML' }).waitFor()
    expect(await page.getByRole('textbox', { name: 'Rule', exact: true }).isDisabled()).toBe(true)
    for (const name of ['Save', 'Shadow', 'Delete', 'Off']) {
      expect(await page.getByRole('button', { name, exact: true }).count()).toBe(0)
    }
  })

  test('logging out deletes the cookie in every tab', async () => {
    const page = await open()
    await logIn(page, server.admin, server.token, '/nodes')
    const other = await page.context().newPage()
    await other.goto(`${server.admin}/callers`)
    await titleOf(other).waitFor()
    await page.getByRole('button', { name: 'Log out' }).click()
    await page.getByLabel('Admin token').waitFor()
    await eventually(() => page.context().cookies(`${server.admin}/admin/`)).toEqual([])
    await other.getByLabel('Admin token').waitFor()
    await page.goto(`${server.admin}/rules`)
    await page.getByLabel('Admin token').waitFor()
  })
})

describe('cross-site requests', () => {
  test('a change without the CSRF token is refused', async () => {
    const page = await open()
    await logIn(page, server.admin, server.token)
    expect(await send(page, '/rules')).toBe(403)
    expect(await send(page, '/rules', { 'X-Sluice-Csrf': 'guessed' })).toBe(403)
    const { csrf } = await page.evaluate(
      async () => (await (await fetch('/admin/v1/session')).json()) as { readonly csrf: string },
    )
    expect(await send(page, '/validate/rule', { 'X-Sluice-Csrf': csrf })).toBe(200)
  })

  test('another site can neither read nor change anything', async () => {
    const elsewhere = createServer((_, response) => {
      response.setHeader('Content-Type', 'text/html').end(attack(server.admin))
    })
    await new Promise<void>((resolve) => elsewhere.listen(0, '127.0.0.1', resolve))
    const { port } = elsewhere.address() as AddressInfo
    const before = await server.client.listRules()
    const context = await chromium.openUnwatched()
    const page = await context.newPage()
    await logIn(page, server.admin, server.token)
    await page.goto('about:blank')
    const answers: string[] = []
    page.on('response', (response) => {
      if (!response.url().startsWith(`${server.admin}/admin/`)) return
      answers.push(`${response.status()} to ${response.request().method()}`)
    })
    // Another host name is another site; another port is only another origin.
    for (const host of ['localhost', '127.0.0.1']) {
      await page.goto(`http://${host}:${port}/`)
      await eventually(() => page.title()).toBe('read nothing')
    }
    await page.getByRole('button').click()
    await page.waitForURL(`${server.admin}/**`)
    expect(answers.length).toBeGreaterThanOrEqual(3)
    expect(answers.filter((answer) => !/^40[13] /.test(answer))).toEqual([])
    expect(await server.client.listRules()).toEqual(before)
    elsewhere.close()
  })
})

/** Sends every request that a browser lets other sites send, and tries to read a response. */
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
  test('every page calls only this server and follows its content security policy', async () => {
    const page = await open()
    await logIn(page, server.admin, server.token)
    for (const path of [...PAGES, '/rules?new=1', '/nowhere']) {
      const response = await page.goto(`${server.admin}${path}`)
      const policy = response?.headers()['content-security-policy'] ?? ''
      expect(policy).toContain("default-src 'none'")
      expect(policy).not.toContain('unsafe')
      await titleOf(page).waitFor()
      await eventually(() => page.title()).not.toBe('Sluice')
    }
    // Violations fail the test when it ends: see useChromium.
  })

  test('every page has a title, an entry in the navigation, and works with the back button', async () => {
    const page = await open()
    await logIn(page, server.admin, server.token)
    const navigation = page.getByRole('navigation', { name: 'Pages' })
    for (const name of ['Rules', 'Callers', 'Nodes', 'Alerts', 'Why?', 'Playground']) {
      await navigation.getByRole('link', { name }).click()
      await page.getByRole('heading', { level: 1, name }).waitFor()
      expect(await navigation.locator('[aria-current=page]').innerText()).toContain(name)
    }
    await page.goBack()
    await page.getByRole('heading', { level: 1, name: 'Why?' }).waitFor()
  })
})
