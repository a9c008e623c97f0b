/** A Sluice that hangs, is gone, fails, or does not trust the proxy. */
import { createHash } from 'node:crypto'
import { describe, expect, test, vi } from 'vitest'
import { APP_BODY, APP_STATUS } from './upstream-app.test-helper.js'
import { exhaustLogin, rateLimitHeadersIn } from './proxy-call.test-helper.js'
import { call, newCaller } from './http-call.test-helper.js'
import { countFailClosed } from './guide-file.test-helper.js'
import { startStubSluice } from './stub-sluice.test-helper.js'
import type { ProxySetup } from './proxy-setup.test-helper.js'

/** The timeouts of the files, plus tolerance for a busy machine. */
const SILENCE_MS = 500
const SILENCE_MS_MAX = 10_000
const SOON = { timeout: 30_000, interval: 100 }

export function describeSilence(setup: () => ProxySetup, file: string): void {
  /** Soon, not immediately: half a second may be too short on a busy machine. */
  const isAskedAgain = (port: number) => vi.waitFor(() => exhaustLogin(setup(), port), SOON)

  describe('a proxy', () => {
    test(`has one line in ${file} that makes it fail closed`, () => {
      expect(countFailClosed(file)).toBe(1)
    })

    test('lets calls pass after the timeout while Sluice hangs, and refuses them if it fails closed', async () => {
      const from = newCaller()
      setup().sluice().freeze()
      try {
        const body = 'x'.repeat(50_000)
        const [passed, refused] = await Promise.all([
          call(setup().open, '/login', { from, method: 'POST', body }),
          call(setup().closed, '/login', { from: newCaller() }),
        ])
        expect(passed).toMatchObject({ status: APP_STATUS, body: APP_BODY })
        expect(rateLimitHeadersIn(passed)).toEqual([])
        expect(passed.ms).toBeGreaterThan(SILENCE_MS / 2)
        expect(passed.ms).toBeLessThan(SILENCE_MS_MAX)
        expect(refused.status).toBe(503)
        expect(refused.ms).toBeLessThan(SILENCE_MS_MAX)
        expect(setup().app.requestsFrom(from)).toHaveLength(1)
        expect(setup().app.requestsFrom(from)[0]?.sha256).toBe(
          createHash('sha256').update(body).digest('hex'),
        )
      } finally {
        setup().sluice().thaw()
      }
      await isAskedAgain(setup().open)
    })

    test('lets calls pass immediately while Sluice is gone, and refuses them if it fails closed', async () => {
      const from = newCaller()
      const other = newCaller()
      await setup().sluice().stop()
      try {
        for (let i = 0; i < 3; i++) {
          const passed = await call(setup().open, '/login', { from })
          expect(passed).toMatchObject({ status: APP_STATUS, body: APP_BODY })
          expect(passed.ms).toBeLessThan(SILENCE_MS_MAX)
        }
        const refused = await call(setup().closed, '/login', { from: other })
        expect(refused.status).toBe(503)
        expect(setup().app.requestsFrom(other)).toEqual([])
      } finally {
        await setup().restartSluice()
      }
      await isAskedAgain(setup().open)
      await isAskedAgain(setup().closed)
    })

    test('lets calls pass while Sluice answers with errors, and refuses them if it fails closed', async () => {
      const from = newCaller()
      const sluice = await startStubSluice((response) => response.writeHead(500).end('{}'))
      try {
        const [open, closed] = await Promise.all([
          setup().startProxyFor(sluice.port),
          setup().startProxyFor(sluice.port, { failClosed: true }),
        ])
        expect((await call(closed, '/login', { from })).status).toBe(503)
        expect((await call(open, '/login', { from })).status).toBe(APP_STATUS)
        expect(setup().app.requestsFrom(from)).toHaveLength(1)
      } finally {
        await sluice.close()
      }
    })

    test('does not ask Sluice again after a failure, because Sluice may have counted the call', async () => {
      const sluice = await startStubSluice(() => {})
      try {
        const open = await setup().startProxyFor(sluice.port)
        const from = newCaller()
        expect((await call(open, '/login', { from })).status).toBe(APP_STATUS)
        expect(sluice.requests()).toBe(1)
      } finally {
        await sluice.close()
      }
    })

    test('lets no call pass if Sluice does not trust it', async () => {
      const port = await setup().startSecond({ trustedProxies: '192.0.2.1/32' })
      const from = newCaller()
      expect((await call(port, '/shop/1', { from })).status).toBe(403)
      expect(setup().app.requestsFrom(from)).toEqual([])
    })
  })
}
