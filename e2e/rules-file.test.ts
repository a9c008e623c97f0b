/**
 * A server with a rules file, which is the only source of rules and is read again whenever it
 * changes.
 */
import { mkdirSync, renameSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { requestDecision, metricOf, type Operator, operatorOf } from './operator.test-helper.js'
import { makeFolder, stopAll } from './process.test-helper.js'
import { type RunningServer, start } from './serve.test-helper.js'

const SOON = { timeout: 20_000, interval: 50 }

const rulesOf = (max: number) =>
  `rules: [{ id: mine, by: [user], limits: ["${max}/hour"], overrides: ` +
  `[{ caller: { user: vip }, limits: ["500/hour"] }] }]\n`

const limitOf = async ({ api }: RunningServer, user = 'u1') =>
  (await requestDecision(api, 'peek', { user })).limits['mine']

const becomes = (server: RunningServer, limit: number) =>
  vi.waitFor(async () => expect(await limitOf(server)).toBe(limit), SOON)

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>>
}

/** A valid body for each changing route, by the name of the operation. */
const BODIES: Readonly<Record<string, string>> = {
  'POST /rules': '{"id":"another","by":["user"],"limits":["1/hour"]}',
  'PUT /rules': '{"rules":[{"id":"another","by":["user"],"limits":["1/hour"]}]}',
  'PUT /rules/{id}': '{"id":"mine","by":["user"],"limits":["1/hour"],"version":1}',
  'PATCH /rules/{id}': '{"mode":"shadow"}',
  'DELETE /rules/{id}': '',
  'POST /rules/{id}/rollback': '{"version":1}',
  'POST /rules/{id}/overrides': '{"caller":{"user":"u1"},"limits":["9/hour"]}',
  'PUT /rules/{id}/overrides/{caller}': '{"limits":["9/hour"]}',
  'DELETE /rules/{id}/overrides/{caller}': '',
  'PUT /rules/{id}/candidate': '{"limits":["9/hour"]}',
  'DELETE /rules/{id}/candidate': '',
  'POST /rules/{id}/promote': '',
  'POST /rollback': '{"version":1}',
  'POST /keys': '{"user":"u1"}',
  'PATCH /keys/{id}': '{"state":"disabled"}',
  'DELETE /keys/{id}': '',
  'POST /tokens': '{"name":"ci","role":"read"}',
  'DELETE /tokens/{id}': '',
  'POST /adopt': '',
  'POST /shadow': '{"for":"15m"}',
  'DELETE /shadow': '',
}

/** These routes take a body and change nothing. */
const HARMLESS = [
  'POST /validate',
  'POST /validate/rule',
  'POST /check',
  'POST /peek',
  'POST /inspect',
  'POST /simulate',
  'POST /session',
  'DELETE /session',
]

describe('the admin API with a rules file', () => {
  let server: RunningServer
  let operator: Operator

  beforeAll(async () => {
    const folder = makeFolder()
    writeFileSync(join(folder, 'mine.yaml'), rulesOf(7))
    server = await start({ SLUICE_RULES: 'mine.yaml' }, folder)
    operator = operatorOf(server)
  })
  afterAll(stopAll)

  test('answers every read', async () => {
    const { curl } = operator
    expect((await curl('/rules')).json).toMatchObject({
      rules: [{ id: 'mine', limits: ['7/hour'], overrideCount: 1 }],
    })
    expect((await curl('/rules/mine/overrides/user=vip')).json).toMatchObject({
      limits: ['500/hour'],
    })
    expect((await curl('/export')).body).toContain('id: mine')
    const attributes = '{"attributes":{"user":"vip"}}'
    expect((await curl('/peek', { body: attributes })).json).toMatchObject({ limit: 500 })
    const inspected = await curl('/inspect', {
      body: '{"rule":"mine","attributes":{"user":"u2"}}',
    })
    expect(inspected.json).toMatchObject({ rule: 'mine', counters: [{ remaining: 7 }] })
    expect((await curl('/nodes')).json).toMatchObject({
      source: `the file ${join(server.folder, 'mine.yaml')}`,
      readOnly: expect.stringContaining('mine.yaml') as string,
      nodes: [{ rulesVersion: 1 }],
    })
    expect((await curl('/versions')).status).toBe(200)
  })

  test('answers every change with 403 and names the file to change instead', async () => {
    const { paths } = (await operator.curl('/openapi.json')).json as Document
    const changes = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods)
        .map((method) => `${method.toUpperCase()} ${path.replace('/admin/v1', '')}`)
        .filter((name) => /^(POST|PUT|PATCH|DELETE) /.test(name) && !HARMLESS.includes(name)),
    )
    expect(changes.toSorted()).toEqual(Object.keys(BODIES).toSorted())
    for (const change of changes) {
      const [method = '', template = ''] = change.split(' ')
      const path = template.replace('{id}', 'mine').replace('{caller}', 'user=vip')
      const body = BODIES[change] ?? ''
      const answer = await operator.curl(path, body === '' ? { method } : { method, body })
      expect([change, answer.status, answer.json]).toMatchObject([
        change,
        403,
        { error: 'read_only', detail: expect.stringContaining('mine.yaml') as string },
      ])
    }
    expect(await limitOf(server)).toBe(7)
  })

  test.each([
    'rules apply -f other.yaml --yes',
    'rules shadow mine',
    'rules shadow --all --for 15m',
    'rules override mine user=u1 9/hour',
    'rules delete mine --yes --confirm-last',
    'keys add --user u1',
    'tokens add ci --role read',
  ])('refuses sluice %s with that message and exit code 1', async (line) => {
    writeFileSync(join(server.folder, 'other.yaml'), rulesOf(9))
    const { code, out, err } = await operator.sluice(line)
    expect(code).toBe(1)
    expect(out).not.toContain('version')
    expect(err).toMatch(/mine\.yaml.*\(read_only\)/)
  })
})

describe('a rules file', () => {
  afterEach(stopAll)

  test('is followed when a symbolic link to it is switched, as Kubernetes does', async () => {
    const folder = makeFolder()
    const publish = (name: string, text: string) => {
      mkdirSync(join(folder, name))
      writeFileSync(join(folder, name, 'rules.yaml'), text)
      symlinkSync(name, join(folder, '..data_tmp'))
      renameSync(join(folder, '..data_tmp'), join(folder, '..data'))
    }
    publish('..2026_01', rulesOf(5))
    symlinkSync(join('..data', 'rules.yaml'), join(folder, 'rules.yaml'))
    const server = await start({ SLUICE_RULES: 'rules.yaml' }, folder)
    expect(await limitOf(server)).toBe(5)
    publish('..2026_02', rulesOf(6))
    await becomes(server, 6)
    publish('..2026_03', rulesOf(8))
    await becomes(server, 8)
    expect((await operatorOf(server).curl('/rules/mine')).json).toMatchObject({
      limits: ['8/hour'],
    })
  })

  test('replaces nothing while it is invalid or missing, and metrics and nodes report that', async () => {
    const folder = makeFolder()
    const file = join(folder, 'rules.yaml')
    // In one step, or a server may read a truncated file.
    const put = (text: string) => {
      writeFileSync(`${file}.new`, text)
      renameSync(`${file}.new`, file)
    }
    put(rulesOf(5))
    const server = await start({ SLUICE_RULES: 'rules.yaml' }, folder)
    const { curl } = operatorOf(server)
    const failures = () => metricOf(server.admin, 'sluice_rules_failures_total ')
    const age = () => metricOf(server.admin, 'sluice_rules_age_seconds ')
    expect([await failures(), await age()]).toEqual([0, 0])

    put(rulesOf(6).replace('/hour', '/fortnight'))
    await vi.waitFor(async () => expect(await failures()).toBe(1), SOON)
    expect(await age()).toBeGreaterThan(0)
    expect((await curl('/nodes')).json).toMatchObject({
      problem: expect.stringMatching(/rules\.yaml:1:\d+: .*"6\/fortnight"/) as string,
    })
    expect((await curl('/rules/mine')).json).toMatchObject({ limits: ['5/hour'] })
    expect([await limitOf(server), await limitOf(server, 'vip')]).toEqual([5, 500])

    unlinkSync(file)
    await vi.waitFor(async () => expect(await failures()).toBe(2), SOON)
    expect(await limitOf(server)).toBe(5)
    put(rulesOf(6))
    await becomes(server, 6)
    expect(await age()).toBe(0)
    expect((await curl('/nodes')).json).toMatchObject({ problem: null })
  })
})
