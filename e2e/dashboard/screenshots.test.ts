/**
 * The demo on every page, and the screenshots of the documentation. With SLUICE_SCREENSHOTS=1 they
 * are written to docs/, from a demo that has run for a while; otherwise to a temporary folder.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { createAdminClient } from '@sluice/client'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { makeFolder, type Program, startProgram, waitFor } from '../process.test-helper.js'
import { logIn, useChromium } from './chromium.test-helper.js'
import { smallPng } from './small-png.test-helper.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const IS_KEPT = process.env['SLUICE_SCREENSHOTS'] === '1'
const FOLDER = IS_KEPT ? join(ROOT, 'docs/dashboard') : makeFolder()
/** Of the README. */
const README_FOLDER = IS_KEPT ? join(ROOT, 'docs/images') : FOLDER
/** Long enough to show an attack, its end, and two bursts. */
const WARM_MS = IS_KEPT ? 46_000 : 1000
const WIDTH = 1280
const WIDTH_PHONE = 360
const HEIGHT_MAX = 1400

const chromium = useChromium()
let demo: Program
let admin = ''
let token = ''

beforeAll(async () => {
  demo = startProgram(
    process.execPath,
    ['demo/main.mjs', '--port', '0', '--seconds', '300', '--quiet'],
    { cwd: ROOT },
  )
  const printedValue = (name: string) =>
    new RegExp(`^ +${name} +(\\S+)$`, 'm').exec(demo.output())?.[1]
  await waitFor(demo, () => printedValue('token') !== undefined)
  admin = (printedValue('dashboard') ?? '').replace(/\/$/, '')
  token = printedValue('token') ?? ''
})
// SIGTERM, so that the demo stops its server and removes its folder.
afterAll(async () => {
  demo.signal('SIGTERM')
  expect(await demo.code()).toBe(0)
})

const open = async (width: number, colours: 'light' | 'dark' = 'light') => {
  const page = await (await chromium.open(admin, { width, colours })).newPage()
  await logIn(page, admin, token)
  return page
}

/** Takes a screenshot as tall as the page, up to a maximum. */
async function shoot(
  page: Page,
  name: string,
  heightMax = HEIGHT_MAX,
  folder = FOLDER,
): Promise<void> {
  const width = page.viewportSize()?.width ?? WIDTH
  await page.setViewportSize({ width, height: 600 })
  const needed = await page.evaluate<number>('document.documentElement.scrollHeight')
  await page.setViewportSize({ width, height: Math.min(Math.max(needed, 600), heightMax) })
  // Toasts are not part of the page, and charts redraw after a resize.
  await page.evaluate(`document.querySelector('.toasts').style.display = 'none'`)
  await page.evaluate('document.activeElement.blur()')
  await page.mouse.move(0, 0)
  await sleep(300)
  const png = smallPng(await page.screenshot({ animations: 'disabled' }))
  expect(png.length).toBeGreaterThan(4000)
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, `${name}.png`), png)
}

async function goTo(page: Page, path: string, shown: string | RegExp): Promise<void> {
  await page.goto(`${admin}${path}`)
  await page.getByText(shown).first().waitFor()
}

test('the demo shows refusing rules and refused callers within seconds', async () => {
  const page = await open(WIDTH)
  const callers = page.getByRole('table', { name: /^Refused callers/ })
  for (const name of ['203.0.113.66', 'loop-logistics', '<img src=x onerror=alert(1)>']) {
    await callers.getByText(name).first().waitFor()
  }
  const rules = page.getByRole('table', { name: /^Refusing rules/ })
  for (const name of ['address-net', 'per-user', 'login-per-address']) {
    await rules.getByText(name).waitFor()
  }
})

test('every page has a screenshot', { timeout: 240_000 }, async () => {
  await sleep(WARM_MS)
  const page = await open(WIDTH)
  await goTo(page, '/', 'Refused callers')
  await page.getByText('203.0.113.66').first().waitFor()
  await shoot(page, 'overview', 1480)
  await shoot(page, 'dashboard', 920, README_FOLDER)
  await page.emulateMedia({ colorScheme: 'dark' })
  await shoot(page, 'overview-dark', 1480)
  await goTo(page, '/rules/address-net?tab=candidate', 'Remove candidate')
  // The second row is in the shadow refusals of the candidate.
  await page
    .getByRole('row', { name: /203\.0\.113\.66/ })
    .nth(1)
    .waitFor()
  await shoot(page, 'rule-candidate-dark')
  await page.emulateMedia({ colorScheme: 'light' })
  // While the alert of the attack is still listed.
  await goTo(page, '/alerts', 'Most recent first')
  await shoot(page, 'alerts', 1000)

  await goTo(page, '/rules', 'exports-per-user')
  await shoot(page, 'rules')
  await goTo(page, '/rules/per-user', 'loop-logistics')
  const text = page.getByRole('textbox', { name: 'Rule', exact: true })
  await text.fill((await text.inputValue()).replace('[10/second]', '[15/second]'))
  await page.getByText('kept', { exact: true }).first().waitFor()
  await shoot(page, 'rule')
  await goTo(page, '/callers', '203.0.113.66')
  await shoot(page, 'callers', 1000)
  await goTo(page, '/why?ip=198.51.100.18&method=POST&path=/v1/login', /^(Refused|Allowed)/)
  await shoot(page, 'why')
  await goTo(page, '/playground', /^Stores the time of every admitted request/)
  await shoot(page, 'playground')
  await goTo(page, '/nodes', '1 node')
  await shoot(page, 'nodes', 800)

  const client = createAdminClient({ url: admin, token })
  const change = (limits: readonly object[], why: string) =>
    client.patchRule('search-total', { limits }, { why })
  const limit = { algorithm: 'leaky-bucket', window: '1s', queue: 30, maxWait: '500ms' }
  await change([{ ...limit, max: 80 }], 'the new index is faster')
  await change([{ ...limit, max: 50 }], 'one of three indexes is down')
  await goTo(page, '/rules/search-total?tab=history', 'one of three indexes is down')
  await page.getByText('Changes in version').first().click()
  await shoot(page, 'rule-history')
  await page.getByRole('button', { name: 'Log out' }).click()
  await page.getByLabel('Admin token').waitFor()
  await shoot(page, 'login', 700)
})

test('the overview and a rule have screenshots on a phone', async () => {
  const page = await open(WIDTH_PHONE)
  await goTo(page, '/', 'Refused callers')
  await page.getByText('203.0.113.66').first().waitFor()
  await shoot(page, 'overview-phone', 1200)
  await goTo(page, '/rules/per-user', 'loop-logistics')
  await shoot(page, 'rule-phone', 1200)
})
