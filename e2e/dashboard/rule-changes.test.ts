/** Changes of rules on the dashboard, and their effect on live traffic. */
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
const traffic: TrafficSource[] = []
afterEach(async () => {
  for (const source of traffic.splice(0)) source.stop()
  await stopAll()
})

const RULES = (limit: string) => `
rules:
  - id: orders
    by: [user]
    limits: [${limit}]
`

interface Opened {
  readonly server: DashboardServer
  readonly rule: Page
  readonly overview: Page
  readonly ann: TrafficSource
}

/** Ann sends ten requests per second; one tab shows the rule, another the overview. */
async function openPages(limit: string): Promise<Opened> {
  const server = await startDashboardServer(RULES(limit))
  const ann = sendTraffic(server.api, { user: 'ann' }, 10)
  traffic.push(ann)
  const context = await chromium.open(server.admin)
  const overview = await context.newPage()
  await logIn(overview, server.admin, server.token)
  const rule = await context.newPage()
  await rule.goto(`${server.admin}/rules/orders`)
  await rule.getByRole('heading', { level: 1, name: 'orders' }).waitFor()
  return { server, rule, overview, ann }
}

const textOf = (page: Page) => page.getByRole('textbox', { name: 'Rule', exact: true })
const saveOf = (page: Page) => page.getByRole('button', { name: 'Save' })
const refusals = (page: Page) => eventually(() => figureOf(page, 'Refused'))
/** The value of a setting on the page of the rule. */
const setting = (page: Page, term: string) =>
  eventually(() =>
    page.locator('dl > div', { has: page.getByText(term, { exact: true }) }).innerText(),
  )

/** Replaces the limits in the text of the rule. */
async function typeLimit(page: Page, limit: string): Promise<void> {
  const text = await textOf(page).inputValue()
  await textOf(page).fill(text.replace(/^limits:.*$/m, `limits: [${limit}]`))
}

async function confirm(page: Page, name: string, why: string): Promise<void> {
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Reason').fill(why)
  await dialog.getByRole('button', { name, exact: true }).click()
  await dialog.waitFor({ state: 'hidden' })
}

describe('editing a rule', () => {
  test('an edit is validated while typing, shows the effect on counters, and is active at once', async () => {
    const { rule, overview } = await openPages('1000/second')
    await refusals(overview).toBe(0)
    await typeLimit(rule, '2/secnd')
    const problem = rule.getByRole('list', { name: 'Errors' }).getByRole('listitem')
    await problem.waitFor()
    expect(await problem.innerText()).toMatch(/3:\d+[\s\S]*limits/)
    expect(await saveOf(rule).isDisabled()).toBe(true)

    await typeLimit(rule, '2/second')
    const side = rule.getByRole('region', { name: 'Changes' })
    await side.getByText('kept', { exact: true }).waitFor()
    expect(await side.innerText()).toMatch(/1,?000\/s[\s\S]*2\/s/)
    await rule.getByLabel('Reason').fill('too much for the backend')
    await saveOf(rule).click()
    await setting(rule, 'Limits').toContain('2/second')
    await refusals(overview).toBeGreaterThan(3)

    await typeLimit(rule, '500/second')
    await saveOf(rule).click()
    await setting(rule, 'Limits').toContain('500/second')
    await refusals(overview).toBe(0)
  })

  test('an edit shows warnings about the whole rule set', async () => {
    const { server, rule } = await openPages('1000/second')
    const warnings = rule.getByRole('list', { name: 'Warnings' })
    await warnings.getByText(/a caller that leaves out "user" meets no rule here/).waitFor()
    const net = { id: 'net', match: { where: { user: null } }, by: ['ip'], limits: ['9/second'] }
    await server.client.createRule(net, { why: 'for calls without a user' })
    await rule.reload()
    await typeLimit(rule, '999/second')
    await rule.getByRole('region', { name: 'Changes' }).getByText('kept', { exact: true }).waitFor()
    expect(await warnings.count()).toBe(0)
  })

  test('a new rule is created in shadow, from a template', async () => {
    const { server, rule } = await openPages('1000/second')
    await rule.goto(`${server.admin}/rules?new=1`)
    const text = rule.getByRole('textbox', { name: 'Rule', exact: true })
    await text.fill((await text.inputValue()).replace('new-rule', 'things'))
    await rule.getByRole('button', { name: 'Create rule' }).click()
    await rule.getByRole('heading', { level: 1, name: 'things' }).waitFor()
    expect(await server.client.getRule('things')).toMatchObject({ mode: 'shadow' })
  })
})

describe('shadow and candidate', () => {
  test('a shadow rule refuses nothing, is compared with a candidate, promoted and enforced', async () => {
    const { server, rule, overview, ann } = await openPages('2/second')
    await refusals(overview).toBeGreaterThan(3)
    await rule.getByRole('button', { name: 'Shadow', exact: true }).click()
    await confirm(rule, 'Shadow', 'who would be hit?')
    await refusals(overview).toBe(0)
    await overview.getByText(/[1-9][\d.]*\/s in shadow/).waitFor()
    await eventually(async () => ann.recentCalls()).toMatchObject({ refused: 0, answered: 20 })

    await rule.getByRole('tab', { name: 'Candidate' }).click()
    await rule.getByLabel('Candidate limits').fill('5/second')
    await rule.getByRole('button', { name: 'Add candidate' }).click()
    await confirm(rule, 'Add candidate', 'perhaps five')
    const comparison = rule.getByRole('table', { name: /^Active limits and candidate/ })
    const candidate = comparison.getByRole('row', { name: /^Candidate/ })
    await eventually(() => candidate.innerText()).toMatch(/5\/second\s+[1-9]/)
    expect(await comparison.getByRole('row', { name: /^Active/ }).innerText()).toContain('2/second')
    await overview.goto(`${server.admin}/rules`)
    await overview
      .getByRole('row', { name: /orders/ })
      .getByText('5/second')
      .waitFor()

    await rule.getByRole('button', { name: 'Promote', exact: true }).click()
    await confirm(rule, 'Promote', 'five it is')
    await setting(rule, 'Limits').toContain('5/second')
    await rule.getByRole('button', { name: 'Enforce', exact: true }).click()
    await confirm(rule, 'Enforce', 'from now on')
    await eventually(async () => ann.recentCalls().refused).toBeGreaterThan(5)
    expect(await server.client.getRule('orders')).toMatchObject({ limits: ['5/second'] })
  })
})

/** Adds a candidate and opens the dialog that promotes it. */
async function addCandidate({ server, rule }: Opened, limit: string): Promise<Locator> {
  await server.client.putCandidate('orders', { limits: [limit] }, { why: 'would it do?' })
  await rule.getByRole('button', { name: 'Promote candidate' }).click()
  return rule.getByRole('dialog')
}

describe('the outlook of a promotion', () => {
  test('tighter limits show their additional refusals', async () => {
    const opened = await openPages('5/second')
    const dialog = await addCandidate(opened, '1/second')
    await eventually(() => dialog.innerText()).toMatch(
      /In the last \d+ s it would have refused \d+ more requests, in addition to the \d+ that were refused/,
    )
    const { rule } = opened
    await rule.keyboard.press('Escape')
    await dialog.waitFor({ state: 'hidden' })
    await rule.getByRole('tab', { name: /^Candidate/ }).click()
    await rule.getByText(/Both over the last \d+ s\./).waitFor()
    await rule.getByRole('cell', { name: /^\d+ more$/ }).waitFor()
  })

  test('looser limits show that their effect is unknown', async () => {
    const dialog = await addCandidate(await openPages('5/second'), '900/second')
    await eventually(() => dialog.innerText()).toMatch(
      /refused no more requests, in addition to the [1-9]\d* .* unknown how many refused requests/,
    )
  })
})

describe('rollback and overrides', () => {
  test('a rollback from the history shows its changes and becomes active', async () => {
    const { server, rule, overview } = await openPages('900/second')
    await server.client.patchRule('orders', { limits: ['1/second'] }, { why: 'a slip of the key' })
    await refusals(overview).toBeGreaterThan(3)
    await rule.getByRole('tab', { name: 'History' }).click()
    const versions = rule.getByRole('list', { name: /^Versions of orders/ }).locator('> li')
    await versions.first().getByText('a slip of the key').waitFor()
    await versions.first().getByText('Changes').click()
    await versions.first().getByText('+ limits: [1/second]').waitFor()
    await versions
      .nth(1)
      .getByRole('button', { name: /^Roll back/ })
      .click()
    const dialog = rule.getByRole('dialog')
    await dialog.getByText('kept', { exact: true }).waitFor()
    expect(await dialog.innerText()).toMatch(/limits[\s\S]*1\/s[\s\S]*900\/s/)
    await confirm(rule, 'Roll back', 'as it was')
    await setting(rule, 'Limits').toContain('900/second')
    await refusals(overview).toBeLessThan(3)
    await versions.first().getByText('as it was').waitFor()
  })

  test('an override is added from the list of callers', async () => {
    const { server, rule: page, overview, ann } = await openPages('1/second')
    traffic.push(sendTraffic(server.api, { user: 'bob' }, 5))
    await overview.goto(`${server.admin}/callers`)
    const row = overview.getByRole('row', { name: /\bann\b/ })
    await row.getByRole('link', { name: 'Override' }).click()
    const form = overview.getByRole('form', { name: 'Add an override' })
    expect(await form.getByLabel('user').inputValue()).toBe('ann')
    await form.getByLabel(/^Limits/).fill('700/second')
    await form.getByRole('button', { name: 'Add override' }).click()
    await confirm(overview, 'Add override', 'a good customer')
    await overview
      .getByRole('table', { name: /^Overrides/ })
      .getByText('700/second')
      .waitFor()
    await eventually(async () => ann.recentCalls()).toMatchObject({ refused: 0, answered: 20 })
    // Other callers keep the limits of the rule, and the other tab shows the override.
    await page.getByRole('tab', { name: 'Overrides 1' }).waitFor()
    expect(await server.client.peek({ attributes: { user: 'bob' } })).toMatchObject({ limit: 1 })
  })
})
