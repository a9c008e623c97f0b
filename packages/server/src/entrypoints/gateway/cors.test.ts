import type { RequestListener } from 'node:http'
import { afterEach, describe, expect, test } from 'vitest'
import { startTestServer, type TestServer } from '../../serve.test-helper.js'
import { sendRequest } from './forward.test-helper.js'

const APP = 'https://app.example.com'
const RULES = [{ id: 'address', by: ['ip'], limits: ['2/hour'] }]
const NAMES =
  'RateLimit-Policy, RateLimit, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset'
const CORS = ['access-control-allow-origin', 'access-control-expose-headers', 'vary'] as const

let server: TestServer | undefined
afterEach(async () => {
  await server?.close()
  server = undefined
})

async function start(upstream: RequestListener, gateway: object = {}, rules: object = RULES) {
  server = await startTestServer({ rules, upstream, config: { gateway } })
  return server
}

/** An upstream that answers with these headers, which may have several lines of one name. */
const answerWith =
  (headers: Readonly<Record<string, string | string[]>>): RequestListener =>
  (_, response) => {
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value)
    response.end('ok')
  }

describe('responses of an upstream', () => {
  test('expose the rate limit headers if they allow another origin', async () => {
    const { gatewayPort } = await start(answerWith({ 'Access-Control-Allow-Origin': '*' }))
    const { headers } = await sendRequest(gatewayPort, { headers: { origin: APP } })
    expect(headers['access-control-allow-origin']).toBe('*')
    expect(headers['access-control-expose-headers']).toBe(NAMES)
  })

  test('keep what they expose themselves, in one line and without duplicates', async () => {
    const { gatewayPort } = await start(
      answerWith({
        'Access-Control-Allow-Origin': APP,
        'Access-Control-Expose-Headers': ['ETag, x-ratelimit-limit', 'Link'],
      }),
    )
    const { rawHeaders } = await sendRequest(gatewayPort, {})
    const lines = rawHeaders.filter((_, i) => {
      return rawHeaders[i - 1]?.toLowerCase() === 'access-control-expose-headers'
    })
    expect(lines).toEqual([
      'ETag, x-ratelimit-limit, Link, RateLimit-Policy, RateLimit, ' +
        'X-RateLimit-Remaining, X-RateLimit-Reset',
    ])
  })

  test('keep a * that exposes everything, unless they allow credentials', async () => {
    let credentials: Readonly<Record<string, string>> = {}
    const { gatewayPort } = await start((request, response) => {
      const all = { 'Access-Control-Allow-Origin': APP, 'Access-Control-Expose-Headers': '*' }
      answerWith({ ...all, ...credentials })(request, response)
    })
    const plain = await sendRequest(gatewayPort, {})
    expect(plain.headers['access-control-expose-headers']).toBe('*')
    credentials = { 'Access-Control-Allow-Credentials': 'true' }
    const allowed = await sendRequest(gatewayPort, {})
    expect(allowed.headers['access-control-expose-headers']).toBe(`*, ${NAMES}`)
  })

  test('are unchanged if they allow no other origin, whatever the configuration allows', async () => {
    const { gatewayPort } = await start(answerWith({}), { cors: { origins: [APP] } })
    const { status, headers } = await sendRequest(gatewayPort, { headers: { origin: APP } })
    expect(status).toBe(200)
    for (const name of CORS) expect(headers).not.toHaveProperty(name)
  })

  test('are unchanged if no rule matches, or the gateway sends no rate limit headers', async () => {
    const cors = { 'Access-Control-Allow-Origin': '*', 'Access-Control-Expose-Headers': 'ETag' }
    const without = await start(answerWith(cors), {}, [])
    const unmatched = await sendRequest(without.gatewayPort, {})
    expect(unmatched.headers['access-control-expose-headers']).toBe('ETag')
    await without.close()
    const { gatewayPort } = await start(answerWith(cors), { headers: false })
    const silent = await sendRequest(gatewayPort, {})
    expect(silent.headers['access-control-expose-headers']).toBe('ETag')
  })
})

describe('responses of the gateway itself', () => {
  async function refusalFor(cors: object | undefined, origin: string | undefined) {
    const own = await start(answerWith({}), cors && { cors }, [
      { id: 'none', by: ['ip'], limits: ['1/hour'] },
    ])
    await sendRequest(own.gatewayPort, {})
    const refused = await sendRequest(own.gatewayPort, { headers: origin ? { origin } : {} })
    await own.close()
    server = undefined
    expect(refused.status).toBe(429)
    const { headers } = refused
    return [...CORS, 'access-control-allow-credentials'].map((name) => headers[name])
  }

  test('allow no other origin by default', async () => {
    expect(await refusalFor(undefined, APP)).toEqual([undefined, undefined, undefined, undefined])
  })

  test('allow a listed origin to read a refusal, with credentials only if configured', async () => {
    const exposed = `Retry-After, ${NAMES}`
    const listed = { origins: ['https://other.example', APP] }
    expect(await refusalFor(listed, APP)).toEqual([APP, exposed, 'Origin', undefined])
    expect(await refusalFor({ ...listed, credentials: true }, APP)).toEqual([
      APP,
      exposed,
      'Origin',
      'true',
    ])
    expect(await refusalFor({ origins: '*' }, APP)).toEqual(['*', exposed, undefined, undefined])
  })

  test('allow nothing to an origin that is not listed, to null or to no origin', async () => {
    const listed = { origins: [APP], credentials: true }
    for (const origin of ['https://evil.example', `${APP}.evil.example`, 'null', undefined]) {
      expect(await refusalFor(listed, origin)).toEqual([undefined, undefined, 'Origin', undefined])
    }
    expect(await refusalFor({ origins: '*' }, undefined)).toEqual(Array(4).fill(undefined))
  })

  test('allow a listed origin to read that the upstream failed', async () => {
    const { gatewayPort } = await start((request) => request.socket.destroy(), {
      cors: { origins: [APP] },
    })
    const { status, headers } = await sendRequest(gatewayPort, { headers: { origin: APP } })
    expect(status).toBe(502)
    expect(headers['access-control-allow-origin']).toBe(APP)
    expect(headers['access-control-expose-headers']).toBe(`Retry-After, ${NAMES}`)
  })
})
