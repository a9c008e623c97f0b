/** Rules changed in the page, and what becomes of the calls, seen as it happens. */
import type { Locator, Page } from 'playwright-core'
import { afterEach, describe, expect, test } from 'vitest'
import { stopAll } from '../process.test-helper.js'
import { eventually, figureOf, logIn, useChromium } from './chromium.test-helper.js'
import {
  startDashboardServer,
  type DashboardServer,
  type TrafficSource,
  sendTraffic,
} from './dashboard-server.test-helper.js'

const chromium = useChromium()
const visitors: TrafficSource[] = []
afterEach(async () => {
  for (const visitor of visitors.splice(0)) visitor.stop()
  await stopAll()
})

const RULES = (limit: string) => `
rules:
  - id: orders
    by: [user]
    limits: [${limit}]
`

interface Looked {
  readonly shop: DashboardServer
  readonly rule: Page
  readonly overview: Page
  readonly ann: TrafficSource
}

/** Ann calls ten times a second; one tab shows the rule, another the overview. */
async function look(limit: string): Promise<Looked> {
  const shop = await startDashboardServer(RULES(limit))
  const ann = sendTraffic(shop.api, { user: 'ann' }, 10)
  visitors.push(ann)
  const context = await chromium.open(shop.admin)
  const overview = await context.newPage()
  await logIn(overview, shop.admin, shop.token)
  const rule = await context.newPage()
  await rule.goto(`${shop.admin}/rules/orders`)
  await rule.getByRole('heading', { level: 1, name: 'orders' }).waitFor()
  return { shop, rule, overview, ann }
}

const textOf = (page: Page) => page.getByRole('textbox', { name: 'Rule', exact: true })
const saveOf = (page: Page) => page.getByRole('button', { name: 'Save' })
const refusals = (page: Page) => eventually(() => figureOf(page, 'Refusals'))
/** What the rule's page says of the rule in force. */
const fact = (page: Page, term: string) =>
  eventually(() =>
    page.locator('dl > div', { has: page.getByText(term, { exact: true }) }).innerText(),
  )

/** Another limit, typed over the one that stands in the text. */
async function typeLimit(page: Page, limit: string): Promise<void> {
  const text = await textOf(page).inputValue()
  await textOf(page).fill(text.replace(/^limits:.*$/m, `limits: [${limit}]`))
}

async function confirm(page: Page, name: string, why: string): Promise<void> {
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Why').fill(why)
  await dialog.getByRole('button', { name, exact: true }).click()
  await dialog.waitFor({ state: 'hidden' })
}

describe('an edit', () => {
  test('is checked as it is typed, says what becomes of counters, and is felt at once', async () => {
    const { rule, overview } = await look('1000/second')
    await refusals(overview).toBe(0)
    await typeLimit(rule, '2/secnd')
    const problem = rule.getByRole('list', { name: 'Errors' }).getByRole('listitem')
    await problem.waitFor()
    expect(await problem.innerText()).toMatch(/3:\d+[\s\S]*limits/)
    expect(await saveOf(rule).isDisabled()).toBe(true)

    await typeLimit(rule, '2/second')
    const side = rule.getByRole('region', { name: 'What it would change' })
    await side.getByText('go on', { exact: true }).waitFor()
    expect(await side.innerText()).toMatch(/1,?000\/s[\s\S]*2\/s/)
    await rule.getByLabel('Why').fill('too much for the kitchen')
    await saveOf(rule).click()
    await fact(rule, 'Limits').toContain('2/second')
    await refusals(overview).toBeGreaterThan(3)

    await typeLimit(rule, '500/second')
    await saveOf(rule).click()
    await fact(rule, 'Limits').toContain('500/second')
    await refusals(overview).toBe(0)
  })

  test('is warned of what the whole set lets happen, and of nothing else', async () => {
    const { shop, rule } = await look('1000/second')
    const warnings = rule.getByRole('list', { name: 'Warnings' })
    await warnings.getByText(/a caller that leaves out "user" meets no rule here/).waitFor()
    const net = { id: 'net', match: { where: { user: null } }, by: ['ip'], limits: ['9/second'] }
    await shop.client.createRule(net, { why: 'for calls without a user' })
    await rule.reload()
    await typeLimit(rule, '999/second')
    await rule
      .getByRole('region', { name: 'What it would change' })
      .getByText('go on', { exact: true })
      .waitFor()
    expect(await warnings.count()).toBe(0)
  })

  test('of a new rule begins in shadow, from a template', async () => {
    const { shop, rule } = await look('1000/second')
    await rule.goto(`${shop.admin}/rules?new=1`)
    const text = rule.getByRole('textbox', { name: 'Rule', exact: true })
    await text.fill((await text.inputValue()).replace('new-rule', 'things'))
    await rule.getByRole('button', { name: 'Create rule' }).click()
    await rule.getByRole('heading', { level: 1, name: 'things' }).waitFor()
    expect(await shop.client.getRule('things')).toMatchObject({ mode: 'shadow' })
  })
})

describe('a trial', () => {
  test('in shadow refuses nobody, shows a candidate beside it, and is promoted and enforced', async () => {
    const { shop, rule, overview, ann } = await look('2/second')
    await refusals(overview).toBeGreaterThan(3)
    await rule.getByRole('button', { name: 'Shadow', exact: true }).click()
    await confirm(rule, 'Shadow', 'who would be hit?')
    await refusals(overview).toBe(0)
    await overview.getByText(/[1-9][\d.]*\/s in shadow/).waitFor()
    await eventually(async () => ann.recentCalls()).toMatchObject({ refused: 0, answered: 20 })

    await rule.getByRole('tab', { name: 'Candidate' }).click()
    await rule.getByLabel('Limits to try').fill('5/second')
    await rule.getByRole('button', { name: 'Try these limits' }).click()
    await confirm(rule, 'Try them', 'perhaps five')
    const compared = rule.getByRole('table', { name: /^The limits in force and the candidate/ })
    const candidate = compared.getByRole('row', { name: /^Candidate/ })
    await eventually(() => candidate.innerText()).toMatch(/5\/second\s+[1-9]/)
    expect(await compared.getByRole('row', { name: /^In force/ }).innerText()).toContain('2/second')
    await overview.goto(`${shop.admin}/rules`)
    await overview
      .getByRole('row', { name: /orders/ })
      .getByText('5/second')
      .waitFor()

    await rule.getByRole('button', { name: 'Promote', exact: true }).click()
    await confirm(rule, 'Promote', 'five it is')
    await fact(rule, 'Limits').toContain('5/second')
    await rule.getByRole('button', { name: 'Enforce', exact: true }).click()
    await confirm(rule, 'Enforce', 'from now on')
    await eventually(async () => ann.recentCalls().refused).toBeGreaterThan(5)
    expect(await shop.client.getRule('orders')).toMatchObject({ limits: ['5/second'] })
  })
})

/** Opens the dialog once limits are on trial: it goes on saying what is seen of them. */
async function tryLimit({ shop, rule }: Looked, limit: string): Promise<Locator> {
  await shop.client.putCandidate('orders', { limits: [limit] }, { why: 'would it do?' })
  await rule.getByRole('button', { name: 'Promote candidate' }).click()
  return rule.getByRole('dialog')
}

describe('the outlook of a trial', () => {
  test('of tighter limits is what they would refuse beside what is refused', async () => {
    const looked = await look('5/second')
    const dialog = await tryLimit(looked, '1/second')
    await eventually(() => dialog.innerText()).toMatch(
      /In the last \d+ s it would have refused \d+ more calls, beside the \d+ that were refused/,
    )
    const { rule } = looked
    await rule.keyboard.press('Escape')
    await dialog.waitFor({ state: 'hidden' })
    await rule.getByRole('tab', { name: /^Candidate/ }).click()
    await rule.getByText(/Both over the last \d+ s\./).waitFor()
    await rule.getByRole('cell', { name: /^\d+ more would be$/ }).waitFor()
  })

  test('of looser limits is not known, and that is said', async () => {
    const dialog = await tryLimit(await look('5/second'), '900/second')
    await eventually(() => dialog.innerText()).toMatch(
      /refused no more calls, beside the [1-9]\d* .* it would let pass cannot be told from a trial/,
    )
  })
})

describe('the way back', () => {
  test('goes through the history, with what would change, and changes what is in force', async () => {
    const { shop, rule, overview } = await look('900/second')
    await shop.client.patchRule('orders', { limits: ['1/second'] }, { why: 'a slip of the key' })
    await refusals(overview).toBeGreaterThan(3)
    await rule.getByRole('tab', { name: 'History' }).click()
    const versions = rule.getByRole('list', { name: /^Versions of orders/ }).locator('> li')
    await versions.first().getByText('a slip of the key').waitFor()
    await versions.first().getByText('What changed').click()
    await versions.first().getByText('+ limits: [1/second]').waitFor()
    await versions
      .nth(1)
      .getByRole('button', { name: /^Roll back to here/ })
      .click()
    const dialog = rule.getByRole('dialog')
    await dialog.getByText('go on', { exact: true }).waitFor()
    expect(await dialog.innerText()).toMatch(/limits[\s\S]*1\/s[\s\S]*900\/s/)
    await confirm(rule, 'Roll back', 'as it was')
    await fact(rule, 'Limits').toContain('900/second')
    await refusals(overview).toBeLessThan(3)
    await versions.first().getByText('as it was').waitFor()
  })

  test('is for one caller an override, given from the list of callers', async () => {
    const { shop, rule: page, overview, ann } = await look('1/second')
    visitors.push(sendTraffic(shop.api, { user: 'bob' }, 5))
    await overview.goto(`${shop.admin}/callers`)
    const row = overview.getByRole('row', { name: /\bann\b/ })
    await row.getByRole('link', { name: 'Override' }).click()
    const form = overview.getByRole('form', { name: 'Add an override' })
    expect(await form.getByLabel('user').inputValue()).toBe('ann')
    await form.getByLabel(/^Limits/).fill('700/second')
    await form.getByRole('button', { name: 'Give override' }).click()
    await confirm(overview, 'Give override', 'a good customer')
    await overview
      .getByRole('table', { name: /^Overrides/ })
      .getByText('700/second')
      .waitFor()
    await eventually(async () => ann.recentCalls()).toMatchObject({ refused: 0, answered: 20 })
    // The others have what the rule says; the other tab has heard of it.
    await page.getByRole('tab', { name: 'Overrides 1' }).waitFor()
    expect(await shop.client.peek({ attributes: { user: 'bob' } })).toMatchObject({ limit: 1 })
  })
})
