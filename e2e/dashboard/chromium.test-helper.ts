/** The dashboard in a real Chromium, watched for what no page of it may ever do. */
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, vi } from 'vitest'
import { findService } from '../../tools/services.setup.js'

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]
/** On a machine that is busy with other tests. */
const WAIT_MS_MAX = 60_000
const TEST_MS_MAX = 180_000
const START_MS_MAX = 60_000

interface OpenOptions {
  readonly width?: number
  readonly height?: number
  readonly colours?: 'light' | 'dark'
  /** Runs in every page before its own scripts; the policy of the page does not hold for it. */
  readonly script?: string
}

export interface Chromium {
  /** A browser of somebody else's: no cookie of another test. */
  readonly open: (origin: string, options?: OpenOptions) => Promise<BrowserContext>
  /** Somewhere else on the web, where everything is allowed. */
  readonly openUnwatched: () => Promise<BrowserContext>
}

/** One browser for the tests of a file. What a page did that none may do fails its test. */
export function useChromium(): Chromium {
  vi.setConfig({ testTimeout: TEST_MS_MAX })
  let browser: Browser | undefined
  const contexts: BrowserContext[] = []
  const violations: string[] = []
  beforeAll(async () => {
    browser = await chromium.launch({
      executablePath: findService('chromium'),
      args: FLAGS,
      timeout: START_MS_MAX,
    })
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
    if (browser === undefined) throw new Error('There is no browser yet.')
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

/** What the policy of a page forbids is told where errors are. */
const LOG_VIOLATIONS = `document.addEventListener('securitypolicyviolation', (event) =>
  console.error('forbidden by ' + event.effectiveDirective + ': ' + event.blockedURI))`

function watch(page: Page, origin: string, onViolation: (what: string) => void): void {
  page.on('request', (request) => {
    const url = request.url()
    if (!url.startsWith(`${origin}/`) && !url.startsWith('data:')) onViolation(`asked for ${url}`)
  })
  page.on('console', (message) => {
    // A browser tells every answer that is no success so, a login that fails too.
    const isAnswer = message.text().startsWith('Failed to load resource')
    if (message.type() === 'error' && !isAnswer) onViolation(`said ${message.text()}`)
  })
  page.on('pageerror', (error) => onViolation(`threw ${error.message}`))
  page.on('dialog', (dialog) => {
    onViolation(`asked with a dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
}

export async function logIn(page: Page, admin: string, token: string, path = '/'): Promise<void> {
  await page.goto(`${admin}${path}`)
  await page.getByLabel('Admin token').fill(token)
  await page.getByRole('button', { name: 'Log in' }).click()
  await page.getByRole('navigation', { name: 'Pages' }).waitFor()
}

/** A figure at the head of the overview, such as `Refusals`: the number before its unit. */
export async function figureOf(page: Page, label: string): Promise<number> {
  const figure = page.locator('.stat', { has: page.getByText(label, { exact: true }) })
  const text = await figure.locator('.stat-value').innerText()
  return Number.parseFloat(text.replaceAll(',', ''))
}

/** Asked again until it is so, or late. */
export function eventually<Value>(read: () => Promise<Value>) {
  return expect.poll(read, { timeout: WAIT_MS_MAX, interval: 100 })
}
