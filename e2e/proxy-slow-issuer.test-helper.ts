/** A slow token issuer, which must not make a proxy give up on Sluice. */
import { describe, expect, test } from 'vitest'
import { APP_STATUS } from './upstream-app.test-helper.js'
import { call, newCaller } from './http-call.test-helper.js'
import { startStubSluice } from './stub-sluice.test-helper.js'
import { CONFIG, type ProxySetup } from './proxy-setup.test-helper.js'

/** Four times as long as the proxy with long timeouts waits for Sluice. */
const ISSUER_MS = 20_000

export function describeSlowIssuer(setup: () => ProxySetup): void {
  describe('with a slow token issuer', () => {
    test('a caller over its limit gains nothing by tokens with invented key ids', async () => {
      const issuer = await startStubSluice((response) => {
        setTimeout(() => response.end('{"keys":[]}'), ISSUER_MS).unref()
      })
      try {
        const url = `http://127.0.0.1:${issuer.port}/jwks.json`
        const jwt = `  jwt: { jwks: { url: "${url}", algorithms: [ES256] } }\n`
        const port = await setup().startSecond({
          config: CONFIG.replace('identity:\n', `identity:\n${jwt}`),
        })
        const from = newCaller()
        expect((await call(port, '/login', { from })).status).toBe(APP_STATUS)
        const calls = Array.from({ length: 5 }, (_, i) => {
          const headers = { authorization: `Bearer ${inventToken(`k${i}`)}` }
          return call(port, '/login', { from, headers })
        })
        const statuses = (await Promise.all(calls)).map(({ status }) => status)
        expect(issuer.requests()).toBe(1)
        expect(statuses).toEqual(calls.map(() => 429))
        expect(setup().app.requestsFrom(from)).toHaveLength(1)
      } finally {
        await issuer.close()
      }
    })
  })
}

/** A token with an unpublished key id and an invalid signature. */
function inventToken(kid: string): string {
  const parts = [
    { alg: 'ES256', kid },
    { sub: 'u1', exp: 4_102_444_800 },
  ]
  const [header, payload] = parts.map((part) =>
    Buffer.from(JSON.stringify(part)).toString('base64url'),
  )
  return `${header}.${payload}.AAAA`
}
