/** Tests the bounds of requests, and the admin listener on a socket. */
import { Agent, request } from 'node:http'
import { describe, expect, test } from 'vitest'
import { closeAfterTests, PER_USER, ROOT_TOKEN, startAdmin } from './admin.test-helper.js'

closeAfterTests()

const JSON_TYPE = { 'content-type': 'application/json' }
const AUTHORIZED = { authorization: `Bearer ${ROOT_TOKEN}` }

describe('a request', () => {
  test.each([
    ['POST', '/rules', 'text/plain'],
    ['POST', '/keys', 'application/yaml'],
    ['POST', '/keys', 'multipart/form-data'],
    ['PUT', '/rules', 'multipart/form-data'],
    ['POST', '/check', 'application/merge-patch+json'],
  ])('%s %s as %s is refused with 415', async (method, path, type) => {
    const admin = await startAdmin()
    const sent = { text: '{}', headers: { 'content-type': type } }
    const answer = await admin.request(method, path, undefined, sent)
    expect(answer).toMatchObject({ status: 415, body: { error: 'unsupported_type' } })
    expect((answer.body as { readonly detail: string }).detail).toContain('application/json')
  })

  test('with a compressed body is refused with 415', async () => {
    const admin = await startAdmin()
    const headers = { ...JSON_TYPE, 'content-encoding': 'gzip' }
    const answer = await admin.request('POST', '/rules', undefined, { text: 'x', headers })
    expect(answer).toMatchObject({ status: 415, body: { error: 'unsupported_encoding' } })
  })

  test('may have a body of 256 KB, or of 16 MB for a set; more is 413', async () => {
    const admin = await startAdmin()
    const padded = (bytes: number) => JSON.stringify(PER_USER).padEnd(bytes)
    const ask = async (method: string, path: string, text: string) =>
      (await admin.request(method, path, undefined, { text, headers: JSON_TYPE })).status
    expect(await ask('POST', '/rules', padded(256 * 1024))).toBe(409)
    expect(await ask('POST', '/rules', padded(256 * 1024 + 1))).toBe(413)
    expect(await ask('PUT', '/rules', `[${padded(16 * 1024 * 1024 - 2)}]`)).toBe(200)
    expect(await ask('PUT', '/rules', `[${padded(16 * 1024 * 1024 - 1)}]`)).toBe(413)
  })

  test('with a body that is nested too deeply, or not JSON or UTF-8, is refused with 400', async () => {
    const admin = await startAdmin()
    const ask = async (text: string | Uint8Array<ArrayBuffer>) =>
      (await admin.request('POST', '/validate', undefined, { text, headers: JSON_TYPE })).status
    expect(await ask('['.repeat(100_000) + ']'.repeat(100_000))).toBe(400)
    expect(await ask('{"a":1')).toBe(400)
    expect(await ask('')).toBe(400)
    expect(await ask(Uint8Array.of(0x22, 0xff, 0x22))).toBe(400)
  })

  test('with a large set as JSON is treated like one with a small set, including the version', async () => {
    const admin = await startAdmin()
    const headers = JSON_TYPE
    const rules = Array.from({ length: 100 }, (_, index) => ({
      id: `r${index}`,
      match: { path: `/p${index}` },
      limits: ['10/second'],
      description: 'd'.repeat(700),
      version: 1,
      overrideCount: 0,
    }))
    const put = (set: object) =>
      admin.request('PUT', '/rules', undefined, { text: JSON.stringify(set), headers })
    expect(await put({ version: 0, rules })).toMatchObject({
      status: 409,
      body: { error: 'version_conflict' },
    })
    expect(await put({ rules, next: 'r99' })).toMatchObject({ status: 400 })
    expect(await put({ rules })).toMatchObject({ status: 200 })
    expect(admin.deps.ruleFollower.catalog.rules()).toHaveLength(100)
    const text = `[${'{"a":1},'.repeat(10_000)}`
    expect(await admin.request('PUT', '/rules', undefined, { text, headers })).toMatchObject({
      status: 400,
      body: { error: 'invalid_request', detail: expect.stringContaining('no JSON') as string },
    })
  })

  test('with an unknown parameter is refused with the nearest known one', async () => {
    const admin = await startAdmin()
    const answer = await admin.request('PUT', '/rules?dryrun=true', [PER_USER])
    expect(answer.status).toBe(400)
    expect((answer.body as { readonly detail: string }).detail).toBe(
      'query: found unknown parameter "dryrun", did you mean "dryRun"?; accepted: file, shadow, dryRun, strict, confirm, why',
    )
    expect((await admin.request('GET', '/rules?why=x')).status).toBe(400)
    expect((await admin.request('PUT', '/rules?dryRun=1', [PER_USER])).status).toBe(400)
  })
})

describe('the admin listener on a socket', () => {
  test('serves metrics and the page without a token, and nothing of the API', async () => {
    const { url } = await (await startAdmin()).listen()
    const metrics = await fetch(`${url}/metrics`)
    expect([metrics.status, await metrics.text()]).toEqual([200, 'sluice_up 1\n'])
    expect((await fetch(`${url}/metrics?x=1`, { method: 'HEAD' })).status).toBe(200)
    expect((await fetch(`${url}/metrics`, { method: 'POST' })).status).toBe(405)
    for (const path of ['/metrics/', '/metrics/x', '/admin', '/admin/v1/rules']) {
      expect([path, (await fetch(`${url}${path}`)).status]).toEqual([path, 401])
    }
  })

  test('reads and changes rules', async () => {
    const { url } = await (await startAdmin()).listen()
    const made = await fetch(`${url}/admin/v1/rules`, {
      method: 'POST',
      headers: { ...AUTHORIZED, ...JSON_TYPE },
      body: JSON.stringify({ id: 'a', limits: ['1/day'] }),
    })
    expect(made.status).toBe(201)
    expect(made.headers.get('content-type')).toBe('application/json')
    const read = await fetch(`${url}/admin/v1/rules/a`, { headers: AUTHORIZED })
    expect(await read.json()).toMatchObject({ id: 'a' })
    const head = await fetch(`${url}/admin/v1/rules/a`, { headers: AUTHORIZED, method: 'HEAD' })
    expect([head.status, head.headers.get('etag')]).toEqual([200, read.headers.get('etag')])
  })

  test('decodes callers in paths exactly as they were sent', async () => {
    const { url } = await (await startAdmin()).listen()
    for (const user of ['a/b', '100%', 'größe', '..', 'a b+c']) {
      const id = `user=${encodeURIComponent(user)}`
      for (const segment of [id, encodeURIComponent(id)]) {
        const put = await fetch(`${url}/admin/v1/rules/per-user/overrides/${segment}`, {
          method: 'PUT',
          headers: { ...AUTHORIZED, ...JSON_TYPE },
          body: '{"limits":[]}',
        })
        expect([segment, await put.json()]).toMatchObject([segment, { caller: { user } }])
      }
    }
  })

  test('limits wrong tokens of one address over all its connections', async () => {
    const { url } = await (await startAdmin()).listen()
    const ask = async () => (await fetch(`${url}/admin/v1/rules`, { headers: WRONG })).status
    const statuses: number[] = []
    for (let i = 0; i < 21; i++) statuses.push(await ask())
    expect(statuses).toEqual([...Array.from({ length: 20 }, () => 401), 429])
    expect((await fetch(`${url}/metrics`)).status).toBe(200)
  })

  const WRONG = { authorization: 'Bearer wrong' }

  test('sends 100 Continue only for a good token', async () => {
    const { raw } = await (await startAdmin()).listen()
    const ask = (token: string) =>
      raw(
        `PUT /admin/v1/rules HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${token}\r\ncontent-type: application/json\r\ncontent-length: 2\r\nexpect: 100-continue\r\nconnection: close\r\n\r\n[]`,
      )
    expect(await ask('wrong')).toMatch(/^HTTP\/1\.1 401 /)
    expect(await ask(ROOT_TOKEN)).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 409 /)
  })

  test('refuses a body that is too long before it arrived whole', async () => {
    const { raw } = await (await startAdmin()).listen()
    const answer = await raw(
      `POST /admin/v1/rules HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${ROOT_TOKEN}\r\ncontent-type: application/json\r\ncontent-length: 99999999\r\nconnection: close\r\n\r\n{`,
    )
    expect(answer).toMatch(/^HTTP\/1\.1 413 /)
    expect(answer).toContain('"error":"too_large"')
  })

  test('closes the connection after a body that is too long', async () => {
    const { url } = await (await startAdmin()).listen()
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const send = (body: string, head: Readonly<Record<string, string | number>>) =>
      new Promise<number | undefined>((resolve, reject) => {
        const authorization = `Bearer ${ROOT_TOKEN}`
        const headers = { authorization, 'content-type': 'application/json', ...head }
        const sent = request(`${url}/admin/v1/simulate`, { method: 'POST', agent, headers })
        sent.on('error', reject)
        sent.on('response', (response) => {
          response.resume()
          response.on('end', () => resolve(response.statusCode))
        })
        sent.end(body)
      })
    const good = '{"limits":["1/day"],"calls":[]}'
    const long = good.padEnd(300_000)
    for (const head of [{ 'content-length': long.length }, { 'transfer-encoding': 'chunked' }]) {
      expect(await send(long, head)).toBe(413)
      expect(await send(good, {})).toBe(200)
    }
    agent.destroy()
  })

  test('refuses a token of a megabyte, and two tokens', async () => {
    const { raw } = await (await startAdmin()).listen()
    const ask = (headers: string) =>
      raw(`GET /admin/v1/rules HTTP/1.1\r\nhost: localhost\r\n${headers}connection: close\r\n\r\n`)
    const huge = await ask(`authorization: Bearer ${'x'.repeat(1024 * 1024)}\r\n`)
    expect(huge).toMatch(/^HTTP\/1\.1 4(01|31) /)
    const header = `authorization: Bearer ${ROOT_TOKEN}\r\n`
    expect(await ask(header + header)).toMatch(/^HTTP\/1\.1 401 /)
    expect(await ask(header)).toMatch(/^HTTP\/1\.1 200 /)
  })

  test.each([
    'GET /\\admin HTTP/1.1\r\nhost: localhost',
    'GET /admin/v1/rules HTTP/1.1\r\nhost: a b',
  ])('refuses %j, which is not a valid request', async (head) => {
    const { raw } = await (await startAdmin()).listen()
    const answer = await raw(`${head}\r\nconnection: close\r\n\r\n`)
    expect(answer).toMatch(/^HTTP\/1\.1 400 /)
    expect(answer).toContain('application/problem+json')
  })

  test('computes the metrics text once for all concurrent requests, and again afterwards', async () => {
    let made = 0
    const metricsText = () => `sluice_made ${++made}\n`
    const admin = await startAdmin({ deps: (parts) => ({ ...parts, metricsText }) })
    const { raw, url } = await admin.listen()
    const one = 'GET /metrics HTTP/1.1\r\nhost: a\r\n'
    const answers = await raw(`${`${one}\r\n`.repeat(9)}${one}connection: close\r\n\r\n`)
    expect(answers.match(/sluice_made 1\n/g)).toHaveLength(10)
    expect(await (await fetch(`${url}/metrics`)).text()).toBe('sluice_made 2\n')
  })

  test('serves HTTP/1.0 without a host', async () => {
    const { raw } = await (await startAdmin()).listen()
    const header = `authorization: Bearer ${ROOT_TOKEN}`
    expect(await raw(`GET /admin/v1/rules HTTP/1.0\r\n${header}\r\n\r\n`)).toMatch(/ 200 OK/)
  })
})
