/** Everything that an operator has set survives a restart, however the server ended. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseData } from '@sluice/core'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { requestDecision, limitsIn, type Operator, operatorOf } from './operator.test-helper.js'
import { stopAll } from './process.test-helper.js'
import { waitForExit, type RunningServer, start } from './serve.test-helper.js'

afterEach(stopAll)

const RULE = { id: 'mine', match: { path: '/mine' }, by: ['user'], limits: ['2/hour'] }
const CANDIDATE = { limits: ['1/hour'] }
const OVERRIDE = { caller: { user: 'vip' }, limits: ['50/hour'] }

/** Creates a rule with all its records, a key and a token; returns the key and the token. */
async function setUp({ curl, json }: Operator): Promise<readonly [string, string]> {
  const send = async (path: string, body: object, method = 'POST') =>
    expect((await curl(path, { method, body: JSON.stringify(body) })).status).toBeLessThan(300)
  await send('/rules?why=the%20first', RULE)
  await send('/rules/mine/overrides', OVERRIDE)
  await send('/rules/mine/candidate', CANDIDATE, 'PUT')
  const { key } = await json<{ readonly key: string }>('keys add --user vip')
  const { token } = await json<{ readonly token: string }>('tokens add ci --role read')
  return [key, token]
}

/** Everything that the admin API returns, except when nodes were last seen. */
async function readAll({ curl }: Operator): Promise<readonly unknown[]> {
  const paths = ['/rules', '/rules/mine/overrides', '/keys', '/tokens', '/versions', '/export']
  return Promise.all(paths.map(async (path) => (await curl(path)).body))
}

async function expectInForce({ gateway, api }: RunningServer, key: string): Promise<void> {
  const headers = { 'x-api-key': key }
  const response = await fetch(`${gateway}/mine`, { headers })
  expect([response.status, limitsIn(response)['mine']]).toEqual([200, 50])
  const attributes = { user: 'somebody', path: '/mine' }
  expect((await requestDecision(api, 'peek', attributes)).limits['mine']).toBe(2)
}

describe.each(['SIGTERM', 'SIGKILL'] as const)('after %s', (signal) => {
  test('rules, candidate, override, key, tokens and history are stored and active', async () => {
    const first = await start()
    const operator = operatorOf(first)
    const [key, token] = await setUp(operator)
    const before = await readAll(operator)
    await expectInForce(first, key)

    first.program.signal(signal)
    expect(await waitForExit(first.program)).toMatchObject({
      code: signal === 'SIGTERM' ? 0 : null,
    })
    const second = await start({}, first.folder)
    const again = operatorOf(second)
    expect(again.token).toBe(operator.token)
    expect(await readAll(again)).toEqual(before)
    await expectInForce(second, key)
    expect((await again.curl('/rules/mine', { token })).json).toMatchObject({
      ...RULE,
      candidate: CANDIDATE,
      overrideCount: 1,
    })
    expect((await again.curl('/tokens', { token })).status).toBe(403)

    // Version numbers continue.
    const { version } = (await again.curl('/rules')).json as { readonly version: number }
    const patched = await again.curl('/rules/mine', { method: 'PATCH', body: '{"mode":"shadow"}' })
    expect((patched.json as { readonly version: number }).version).toBeGreaterThan(version)
    const attributes = { user: 'somebody', path: '/mine' }
    for (let i = 0; i < 3; i++) {
      expect((await requestDecision(second.api, 'check', attributes)).allowed).toBe(true)
    }

    // Back to the example that every new store begins with; keys and tokens are not rules.
    const back = await again.sluice('rules rollback 2 --yes')
    expect(back).toMatchObject({ code: 0, err: '' })
    expect((await again.curl('/rules/mine')).status).toBe(404)
    expect((await again.curl('/rules/per-user', { token })).status).toBe(200)
    expect((await again.sluice('keys list --user vip')).out).toContain('active')
  })
})

test('rules.yaml in the data directory has the current rules and is a valid rules file', async () => {
  const server = await start()
  const operator = operatorOf(server)
  await setUp(operator)
  const file = join('.sluice', 'rules', 'rules.yaml')
  const rulesThere = () => {
    const { value } = parseData(readFileSync(join(server.folder, file), 'utf8'))
    return (value as { readonly rules: readonly { readonly id: string }[] }).rules
  }
  // It is written shortly after the change is confirmed.
  const mine = { ...RULE, candidate: CANDIDATE, overrides: [OVERRIDE] }
  await vi.waitFor(() => expect(rulesThere().at(-1)).toEqual(mine), { timeout: 60_000 })
  expect(rulesThere().map(({ id }) => id)).toContain('per-user')
  expect(await operator.sluice(`rules validate -f ${file}`)).toMatchObject({ code: 0 })
  expect(await operator.sluice(`rules diff -f ${file}`)).toMatchObject({ code: 0 })
})
