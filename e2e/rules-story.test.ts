/** Rules as a new user meets them: a fresh folder and one server. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  requestDecision,
  metricOf,
  type Operator,
  operatorOf,
  runCommand,
  runSluice,
  statusesOf,
} from './operator.test-helper.js'
import { stopAll, waitFor } from './process.test-helper.js'
import { run, type RunningServer, start } from './serve.test-helper.js'

let server: RunningServer
let operator: Operator

beforeAll(async () => {
  server = await start()
  operator = operatorOf(server)
})
afterAll(stopAll)

/** A rule for each test, on its own path: two calls per hour for each address. */
async function makeRule(id: string, fields: object = {}): Promise<void> {
  const body = JSON.stringify({
    id,
    match: { path: `/${id}` },
    by: ['ip'],
    limits: ['2/hour'],
    ...fields,
  })
  expect((await operator.curl('/rules', { body })).status).toBe(201)
}

const statusOf = (id: string, count: number) => statusesOf(`${server.gateway}/${id}`, count)
const check = (id: string, ip: string) =>
  requestDecision(server.api, 'check', { ip, path: `/${id}` })
const allowed = async (id: string, ip: string, count: number) => {
  const all: boolean[] = []
  for (let i = 0; i < count; i++) all.push((await check(id, ip)).allowed)
  return all
}
const sluice = (line: string) => operator.sluice(line)

describe('a new rule', () => {
  test('is created by a line that the server prints at start, and deleted by the next', async () => {
    const program = run(['serve'])
    await waitFor(program, () => program.output().includes('Ctrl-C'))
    const output = program.output()
    const line = /^ +(curl .*\/admin\/v1\/rules -d .*)$/m.exec(output)?.[1] ?? ''
    expect(await runCommand('sh', ['-c', line], { cwd: server.folder })).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^\{"id":"mine",/) as string,
    })
    const gateway = /gateway +(\S+)/.exec(output)?.[1] ?? ''
    expect(await statusesOf(gateway, 4)).toEqual([200, 200, 200, 429])
    const [, file = ''] = /admin token +in (\S+)/.exec(output) ?? []
    const [, remove = ''] = /npx sluice (rules delete mine.*)$/m.exec(output) ?? []
    const words = [...remove.split(' '), '--yes', '--token-file', file]
    expect(await runSluice(words, { cwd: server.folder })).toMatchObject({ code: 0, err: '' })
    expect(await statusesOf(gateway, 1)).toEqual([200])
  })

  test('created with curl takes effect immediately, at the gateway and at the decision API', async () => {
    const rule = { id: 'by-curl', match: { path: '/by-curl' }, by: ['ip'], limits: ['2/hour'] }
    const made = await operator.curl('/rules?why=a%20try', { body: JSON.stringify(rule) })
    expect(made).toMatchObject({ status: 201, json: { ...rule, overrideCount: 0 } })
    expect(await statusOf('by-curl', 3)).toEqual([200, 200, 429])
    expect(await allowed('by-curl', '203.0.113.7', 3)).toEqual([true, true, false])
  })

  test('in a set that was exported, edited and applied with the command takes effect as well', async () => {
    const file = join(server.folder, 'mine.yaml')
    expect((await sluice('rules export -o mine.yaml')).code).toBe(0)
    const text = readFileSync(file, 'utf8')
    const rule = '  - { id: by-file, match: { path: /by-file }, by: [ip], limits: [1/hour] }\n'
    writeFileSync(file, `${text}${rule}`)
    const applied = await sluice('rules apply -f mine.yaml --yes')
    expect(applied).toMatchObject({ code: 0, err: '' })
    expect(applied.out).toMatch(/^\+ by-file {2}added\n( {4}.*\n)+Rules: 1 added\.\nApplied as/)
    expect(await statusOf('by-file', 2)).toEqual([200, 429])
    expect(await allowed('by-file', '203.0.113.7', 2)).toEqual([true, false])
    expect(await sluice('rules diff -f mine.yaml')).toMatchObject({ code: 0 })
  })

  test('changes nothing if it is invalid, and every problem is reported', async () => {
    const before = (await operator.curl('/rules')).json
    const bad = JSON.stringify({ id: 'Bad', limits: ['ten'] })
    const answer = await operator.curl('/rules', { body: bad })
    expect(answer).toMatchObject({ status: 400, json: { error: 'rules_invalid' } })
    expect(answer.body).toContain('bad id \\"Bad\\"')
    expect(answer.body).toContain('cannot read the limit \\"ten\\"')
    expect((await operator.curl('/rules')).json).toEqual(before)
  })
})

describe('a rule in shadow', () => {
  test('refuses no call and counts would-be refusals; enforced again, it continues to refuse', async () => {
    await makeRule('shy')
    expect(await statusOf('shy', 3)).toEqual([200, 200, 429])
    expect(await sluice('rules shadow shy --why too-tight')).toMatchObject({ code: 0, err: '' })
    expect(await statusOf('shy', 4)).toEqual([200, 200, 200, 200])
    const wouldRefuse = 'sluice_decisions_total{rule="shy",outcome="shadow_refused"'
    expect(await metricOf(server.admin, wouldRefuse)).toBe(4)
    expect(await sluice('rules enforce shy')).toMatchObject({ code: 0 })
    expect(await statusOf('shy', 1)).toEqual([429])
    expect(await metricOf(server.admin, wouldRefuse)).toBe(4)
  })
})

describe('an override', () => {
  test('changes the limits of one caller only, until it is removed', async () => {
    await makeRule('dear')
    await check('dear', '203.0.113.1')
    const until = '2100-01-01T00:00:00Z'
    const given = await sluice(`rules override dear ip=203.0.113.1 4/hour --until ${until}`)
    expect(given).toMatchObject({ code: 0, err: '' })
    // One of its four was used before.
    expect(await allowed('dear', '203.0.113.1', 4)).toEqual([true, true, true, false])
    expect(await allowed('dear', '203.0.113.2', 3)).toEqual([true, true, false])
    expect((await sluice('rules override dear --list')).out).toMatch(/ip=203\.0\.113\.1 +4\/hour/)
    await sluice('rules override dear ip=203.0.113.3 none')
    expect(await allowed('dear', '203.0.113.3', 5)).not.toContain(false)
    await sluice('rules override dear ip=203.0.113.3 --remove')
    expect(await allowed('dear', '203.0.113.3', 3)).toEqual([true, true, false])
  })

  test('has no effect once its end has passed', async () => {
    await makeRule('brief')
    const path = '/rules/brief/overrides/ip=203.0.113.1'
    const put = (until: string) =>
      operator.curl(path, { method: 'PUT', body: JSON.stringify({ limits: ['9/hour'], until }) })
    expect((await put('2020-01-01T00:00:00Z')).status).toBe(201)
    const limit = async () =>
      (await requestDecision(server.api, 'peek', { ip: '203.0.113.1', path: '/brief' })).limits[
        'brief'
      ]
    expect(await limit()).toBe(2)
    expect((await put('2100-01-01T00:00:00Z')).status).toBe(200)
    expect(await limit()).toBe(9)
    const untilMs = Date.now() + 3000
    expect((await put(new Date(untilMs).toISOString())).status).toBe(200)
    const before = await limit()
    // Unless a busy machine took all of its time for this.
    expect(before).toBe(Date.now() < untilMs ? 9 : before)
    await vi.waitFor(async () => expect(await limit()).toBe(2), { timeout: 20_000 })
    expect(Date.now()).toBeGreaterThanOrEqual(untilMs)
  })
})

interface Key {
  readonly id: string
  readonly key: string
}

describe('an API key', () => {
  test('gives a call its user and plan, until it is disabled', async () => {
    const tiers = { plan: { pro: ['3/hour'] } }
    await makeRule('keyed', { by: ['user'], tiers })
    const { id, key } = await operator.json<Key>('keys add --user zoe --plan pro')
    const limits = async () => {
      const { headers } = await fetch(`${server.gateway}/keyed`, { headers: { 'x-api-key': key } })
      return [headers.get('x-ratelimit-limit'), headers.get('x-ratelimit-remaining')]
    }
    expect(await limits()).toEqual(['3', '2'])
    // The same user by another entry point: one counter.
    const attributes = { user: 'zoe', plan: 'pro', path: '/keyed' }
    expect(await requestDecision(server.api, 'check', attributes)).toMatchObject({
      limit: 3,
      remaining: 1,
    })
    await sluice(`keys set ${id} --plan free`)
    expect(await limits()).toEqual(['2', '0'])
    expect(await sluice(`keys disable ${id}`)).toMatchObject({ code: 0 })
    // Without a user this rule does not match, and the rule by address does.
    const unknown = await fetch(`${server.gateway}/keyed`, { headers: { 'x-api-key': key } })
    expect(unknown.headers.get('ratelimit')).not.toContain('"keyed"')
    expect(unknown.headers.get('ratelimit')).toContain('"address-net"')
    await sluice(`keys enable ${id}`)
    const response = await fetch(`${server.gateway}/keyed`, { headers: { 'x-api-key': key } })
    expect(response.status).toBe(429)
  })
})

describe('candidate limits', () => {
  test('count beside the active ones, and keep their usage when promoted', async () => {
    await makeRule('tried', { limits: ['7/hour'] })
    expect(await allowed('tried', '203.0.113.1', 3)).toEqual([true, true, true])
    await sluice('rules export -o tried.yaml')
    const file = join(server.folder, 'tried.yaml')
    writeFileSync(file, readFileSync(file, 'utf8').replace('7/hour', '1/hour'))
    const applied = await sluice('rules apply -f tried.yaml --shadow --yes')
    expect(applied).toMatchObject({ code: 0, err: '' })
    const candidate = { limits: ['1/hour'] }
    const path = '/rules/tried'
    expect((await operator.curl(path)).json).toMatchObject({ limits: ['7/hour'], candidate })
    // The active limits still decide, and the candidate has counters of its own.
    expect(await allowed('tried', '203.0.113.2', 2)).toEqual([true, true])
    const wouldRefuse = 'sluice_decisions_total{rule="tried:candidate",outcome="shadow_refused"'
    expect(await metricOf(server.admin, wouldRefuse)).toBe(1)
    expect((await sluice('rules promote tried --why fine')).out).toContain('1/hour')
    expect((await operator.curl(path)).json).not.toHaveProperty('candidate')
    expect(await allowed('tried', '203.0.113.1', 1)).toEqual([false])
    expect(await allowed('tried', '203.0.113.3', 2)).toEqual([true, false])
  })
})

interface History {
  readonly versions: readonly {
    readonly version: number
    readonly at: string
    readonly by: string
    readonly why: string | null
  }[]
}

describe('history', () => {
  test('lists who changed what, when and why; a rollback is a new version', async () => {
    const began = Date.now()
    const { token } = await operator.json<{ readonly token: string }>('tokens add ann --role edit')
    await makeRule('past')
    const tighten = (limit: string, why: string) =>
      operator.curl(`/rules/past?why=${why}`, {
        method: 'PATCH',
        body: JSON.stringify({ limits: [limit] }),
        token,
      })
    await tighten('1/hour', 'INC-7')
    await tighten('0/hour', 'INC-8')
    const { versions } = await operator.json<History>('rules history past')
    expect(versions.map(({ by, why }) => [by, why])).toEqual([
      ['ann', 'INC-8'],
      ['ann', 'INC-7'],
      ['admin', null],
    ])
    for (const { at } of versions) expect(Date.parse(at)).toBeGreaterThanOrEqual(began - 1000)
    const [newest, , first] = versions
    expect((await check('past', '203.0.113.1')).allowed).toBe(false)
    const back = await sluice(`rules rollback past ${first?.version} --yes --why enough`)
    expect(back).toMatchObject({ code: 0, err: '' })
    expect(await allowed('past', '203.0.113.1', 3)).toEqual([true, true, false])
    const after = await operator.json<History>('rules history past')
    expect(after.versions[0]).toMatchObject({ by: 'admin', why: 'enough' })
    expect(after.versions[0]?.version).toBeGreaterThan(newest?.version ?? Infinity)
    expect(after.versions.slice(1)).toEqual(versions)
    const text = (await sluice('rules history past')).out
    expect(text).toMatch(/ann +rule past changed +INC-7/)
  })
})

describe('check, peek and inspect', () => {
  test('answer with text, with JSON, and with their exit code', async () => {
    await makeRule('asked', { by: ['user'], limits: ['1/hour'] })
    const call = 'user=u1 method=GET path=/asked'
    expect(await sluice(`peek ${call}`)).toMatchObject({ code: 0, err: '' })
    const first = await sluice(`check ${call}`)
    expect(first).toMatchObject({ code: 0, err: '' })
    expect(first.out).toMatch(/^allowed/)
    const second = await sluice(`check ${call}`)
    expect(second).toMatchObject({ code: 1, err: '' })
    expect(second.out).toMatch(/^refused +over\nrule +asked/)
    const peeked = await sluice(`peek ${call} --json`)
    expect(peeked.code).toBe(1)
    const { callers } = JSON.parse(peeked.out) as {
      readonly callers: readonly { readonly rule: string; readonly hash: string }[]
    }
    const hash = callers.find(({ rule }) => rule === 'asked')?.hash
    const counters = [{ limit: 'token-bucket-1h', remaining: 0, node: null }]
    expect(await operator.json('inspect asked user=u1')).toMatchObject({ hash, counters })
    expect((await sluice('inspect asked user=u1')).out).toContain(`hash    ${hash}`)
    expect(await sluice('inspect no-such-rule user=u1')).toMatchObject({ code: 1, out: '' })
    expect(await sluice('check user')).toMatchObject({ code: 2, out: '' })
  })
})
