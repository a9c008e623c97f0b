/** Which token may do what to the rules of a real server. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { call, newCaller } from './http-call.test-helper.js'
import { type Operator, operatorOf, runSluice } from './operator.test-helper.js'
import { makeFolder, stopAll } from './process.test-helper.js'
import { waitForExit, run, type RunningServer, start } from './serve.test-helper.js'

let server: RunningServer
let operator: Operator

beforeAll(async () => {
  server = await start()
  operator = operatorOf(server)
})
afterAll(stopAll)

interface Made {
  readonly id: string
  readonly token: string
}

let made = 0
/** Token names must be unique. */
const makeToken = (role: string) =>
  operator.json<Made>(`tokens add ${role}-${++made} --role ${role}`)

/** Runs a command as a user with a token on another machine. */
async function runWith(token: string, line: string) {
  const cwd = makeFolder()
  const env = { SLUICE_ADMIN_URL: server.admin, SLUICE_ADMIN_TOKEN: token }
  const { code, err } = await runSluice(line.split(' '), { cwd, env })
  return { code, err }
}

const OK = { code: 0, err: '' }
const lacks = (role: string) => ({
  code: 1,
  err: expect.stringContaining(`needs the role ${role}`) as string,
})

describe('token roles:', () => {
  test('read returns everything but tokens, and changes nothing', async () => {
    const { token } = await makeToken('read')
    for (const line of ['rules list', 'rules export', 'peek user=u1', 'nodes']) {
      expect(await runWith(token, line)).toEqual(OK)
    }
    expect(await runWith(token, 'rules shadow per-user')).toEqual(lacks('edit'))
    expect(await runWith(token, 'check user=u1')).toEqual(lacks('edit'))
    expect(await runWith(token, 'tokens list')).toEqual(lacks('admin'))
    const { status, json } = await operator.curl('/rules/per-user', { method: 'DELETE', token })
    expect([status, json]).toMatchObject([403, { error: 'forbidden' }])
    expect((await operator.curl('/rules/per-user', { token })).status).toBe(200)
  })

  test('edit changes rules and keys, and creates no tokens', async () => {
    const { token } = await makeToken('edit')
    expect(await runWith(token, 'rules shadow per-user --why a-try')).toEqual(OK)
    expect(await runWith(token, 'rules enforce per-user')).toEqual(OK)
    expect(await runWith(token, 'tokens add another --role read')).toEqual(lacks('admin'))
    expect((await operator.curl('/tokens', { token })).status).toBe(403)
    expect((await operator.curl('/adopt', { method: 'POST', token })).status).toBe(403)
    expect((await operator.sluice('rules history per-user')).out).toMatch(
      /edit-\d +rule per-user changed +a-try/,
    )
  })

  test('admin creates tokens, and a revoked token is rejected immediately', async () => {
    const { token } = await makeToken('admin')
    const body = '{"name":"third","role":"read"}'
    const third = (await operator.curl('/tokens', { body, token })).json as Made
    const asked = async () => (await operator.curl('/rules', { token: third.token })).status
    expect(await asked()).toBe(200)
    expect(await runWith(token, `tokens remove ${third.id}`)).toEqual(OK)
    expect(await asked()).toBe(401)
    expect(await runWith(third.token, 'rules list')).toEqual({
      code: 2,
      err: expect.stringContaining('a token that is not accepted there') as string,
    })
  })

  test('a token is shown once, and is in no answer or file after that', async () => {
    const { token } = await makeToken('read')
    expect((await operator.curl('/tokens')).body).not.toContain(token)
    expect((await operator.curl('/versions')).body).not.toContain(token)
    expect(server.program.output()).not.toContain(token)
    const kept = join(server.folder, '.sluice', 'rules')
    const texts = readdirSync(kept).map((name) => readFileSync(join(kept, name), 'utf8'))
    expect(texts.join('\n')).toContain(`"read-${made}"`)
    expect(texts.join('\n')).not.toContain(token)
  })

  test('a token may come from a file, and without any token the command fails', async () => {
    const { token } = await makeToken('read')
    const cwd = makeFolder()
    const env = { SLUICE_ADMIN_URL: server.admin }
    writeFileSync(join(cwd, 'token'), `${token}\n`)
    const named = await runSluice(['rules', 'list', '--token-file', 'token'], { cwd, env })
    expect(named.code).toBe(0)
    const none = await runSluice(['rules', 'list'], { cwd, env })
    expect(none.code).toBe(2)
    expect(none.err).toMatch(/found no token \(SLUICE_ADMIN_TOKEN is not set, and .*admin-token/)
  })
})

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>>
}

describe('without a token', () => {
  test('every documented route but the login is refused, and so is every other path', async () => {
    const { paths } = (await operator.curl('/openapi.json')).json as Document
    const all = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => ({ method: method.toUpperCase(), path })),
    )
    const routes = all.filter(
      ({ method, path }) => `${method} ${path}` !== 'POST /admin/v1/session',
    )
    expect(routes.length).toBeGreaterThan(30)
    const others = ['/admin', '/admin/v1', '/admin/v1/nothing', '/metrics/'].map((path) => ({
      method: 'GET',
      path,
    }))
    const port = Number(new URL(server.admin).port)
    for (const { method, path } of [...routes, ...others]) {
      const target = path.replaceAll(/\{\w+\}/g, 'x')
      // An address may fail 20 times per minute.
      const none = await call(port, target, { method, from: newCaller() })
      const headers = { authorization: `Bearer ${'0'.repeat(64)}` }
      const wrong = await call(port, target, { method, headers, from: newCaller() })
      expect([method, path, none.status, wrong.status]).toEqual([method, path, 401, 401])
      expect(wrong.body).toBe(none.body)
    }
    expect((await call(port, '/metrics', { from: newCaller() })).status).toBe(200)
  })

  test('an address that guesses tokens is blocked, and other addresses are not', async () => {
    const port = Number(new URL(server.admin).port)
    const [from, other] = [newCaller(), newCaller()]
    const headers = { authorization: 'Bearer a-guess' }
    const guess = async () => (await call(port, '/admin/v1/rules', { headers, from })).status
    const statuses: number[] = []
    for (let i = 0; i < 25; i++) statuses.push(await guess())
    expect(statuses.slice(0, 20)).not.toContain(429)
    expect(statuses.at(-1)).toBe(429)
    const good = { authorization: `Bearer ${operator.token}` }
    const answer = await call(port, '/admin/v1/rules', { headers: good, from: other })
    expect(answer.status).toBe(200)
  })
})

describe('the admin listener on a public address', () => {
  const env = { SLUICE_ADMIN_LISTEN: '0.0.0.0:0' }

  test('does not start without a configured token', async () => {
    const { code, output } = await waitForExit(run(['serve'], env))
    expect(code).toBe(2)
    expect(output).toMatch(/SLUICE_ADMIN_LISTEN.*SLUICE_ADMIN_TOKEN/s)
  })

  test('starts with a configured token and requires it', async () => {
    const token = 'a-token-that-an-operator-chose-0123456789'
    const { admin } = await start({ ...env, SLUICE_ADMIN_TOKEN: token })
    const port = Number(new URL(admin).port)
    const status = async (headers = {}) =>
      (await call(port, '/admin/v1/rules', { headers, from: newCaller() })).status
    expect(await status()).toBe(401)
    expect(await status({ authorization: `Bearer ${token}` })).toBe(200)
  })
})
