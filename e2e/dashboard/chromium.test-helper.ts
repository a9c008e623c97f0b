/** The dashboard in Chromium, watched for requests, errors and dialogs that no page may cause. */
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, vi } from 'vitest'
import { chromiumOptions } from '../../tools/chromium.mjs'

/** Long, because other tests keep the machine busy. */
const WAIT_MS_MAX = 60_000
const TEST_MS_MAX = 180_000
const START_MS_MAX = 60_000

interface OpenOptions {
  readonly width?: number
  readonly height?: number
  readonly colours?: 'light' | 'dark'
  /** Runs in every page before its own scripts, outside its content security policy. */
  readonly script?: string
}

export interface Chromium {
  /** A new browser context, without cookies of other tests. */
  readonly open: (origin: string, options?: OpenOptions) => Promise<BrowserContext>
  /** A context without the checks, for pages of other sites. */
  readonly openUnwatched: () => Promise<BrowserContext>
}

/** One browser for the tests of a file. A test fails if one of its pages violates a check. */
export function useChromium(): Chromium {
  vi.setConfig({ testTimeout: TEST_MS_MAX })
  let browser: Browser | undefined
  const contexts: BrowserContext[] = []
  const violations: string[] = []
  beforeAll(async () => {
    browser = await chromium.launch({ ...chromiumOptions(), timeout: START_MS_MAX })
  })
  afterAll(() => browser?.close())
  afterEach(async () => {
    for (const context of contexts.splice(0)) await context.close()
    expect(violations.splice(0)).toEqual([])
  })
  const newContext = async ({
    width = 1280,
    height = 900,
    colours = 'light',
  }: OpenOptions = {}) => {
    if (browser === undefined) throw new Error('The browser has not started.')
    const context = await browser.newContext({ viewport: { width, height }, colorScheme: colours })
    context.setDefaultTimeout(WAIT_MS_MAX)
    contexts.push(context)
    return context
  }
  return {
    openUnwatched: () => newContext(),
    async open(origin, options = {}) {
      const context = await newContext(options)
      if (options.script !== undefined) await context.addInitScript(options.script)
      await context.addInitScript(LOG_VIOLATIONS)
      context.on('page', (page) => watch(page, origin, (what) => violations.push(what)))
      return context
    },
  }
}

/** Logs violations of the content security policy as errors. */
const LOG_VIOLATIONS = `document.addEventListener('securitypolicyviolation', (event) =>
  console.error('forbidden by ' + event.effectiveDirective + ': ' + event.blockedURI))`

function watch(page: Page, origin: string, onViolation: (what: string) => void): void {
  page.on('request', (request) => {
    const url = request.url()
    if (!url.startsWith(`${origin}/`) && !url.startsWith('data:')) onViolation(`requested ${url}`)
  })
  page.on('console', (message) => {
    // Browsers log every failed response, also that of a refused login.
    const isAnswer = message.text().startsWith('Failed to load resource')
    if (message.type() === 'error' && !isAnswer) onViolation(`logged ${message.text()}`)
  })
  page.on('pageerror', (error) => onViolation(`threw ${error.message}`))
  page.on('dialog', (dialog) => {
    onViolation(`opened a dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
}

export async function logIn(page: Page, admin: string, token: string, path = '/'): Promise<void> {
  await page.goto(`${admin}${path}`)
  await page.getByLabel('Admin token').fill(token)
  await page.getByRole('button', { name: 'Log in' }).click()
  await page.getByRole('navigation', { name: 'Pages' }).waitFor()
}

/** A page of the dashboard, logged in, in a browser context of its own. */
export async function openAt(
  browser: Chromium,
  { admin, token }: { readonly admin: string; readonly token: string },
  path: string,
): Promise<Page> {
  const page = await (await browser.open(admin)).newPage()
  await logIn(page, admin, token, path)
  return page
}

/** A headline figure of the overview, such as `Refused`, without its unit. */
export async function figureOf(page: Page, label: string): Promise<number> {
  const figure = page.locator('.stat', { has: page.getByText(label, { exact: true }) })
  const text = await figure.locator('.stat-value').innerText()
  return Number.parseFloat(text.replaceAll(',', ''))
}

/** Polls until the expectation holds, or the time is up. */
export function eventually<Value>(read: () => Promise<Value>) {
  return expect.poll(read, { timeout: WAIT_MS_MAX, interval: 100 })
}
