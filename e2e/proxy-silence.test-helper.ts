/** A Sluice that hangs, is gone, fails, or does not know the proxy. */
import { createHash } from 'node:crypto'
import { describe, expect, test, vi } from 'vitest'
import { APP_BODY, APP_STATUS } from './app.test-helper.js'
import { exhausted, shownIn } from './ask.test-helper.js'
import { call, newCaller } from './call.test-helper.js'
import { countFailClosed } from './guide-file.test-helper.js'
import { startStandIn } from './stand-in.test-helper.js'
import type { World } from './world.test-helper.js'

/** The timeouts of the files, and what a busy machine adds. */
const SILENCE_MS = 500
const SILENCE_MS_MAX = 10_000
const SOON = { timeout: 30_000, interval: 100 }

export function describeSilence(world: () => World, file: string): void {
  /** Soon, not at once: half a second may be too short for a busy machine now and then. */
  const isAskedAgain = (port: number) => vi.waitFor(() => exhausted(world(), port), SOON)

  describe('when Sluice gives no answer', () => {
    test(`${file} has one line that makes it fail closed`, () => {
      expect(countFailClosed(file)).toBe(1)
    })

    test('because it hangs, calls pass after the time limit; where it fails closed they do not', async () => {
      const from = newCaller()
      world().sluice().freeze()
      try {
        const body = 'x'.repeat(50_000)
        const [passed, refused] = await Promise.all([
          call(world().open, '/login', { from, method: 'POST', body }),
          call(world().closed, '/login', { from: newCaller() }),
        ])
        expect(passed).toMatchObject({ status: APP_STATUS, body: APP_BODY })
        expect(shownIn(passed)).toEqual([])
        expect(passed.ms).toBeGreaterThan(SILENCE_MS / 2)
        expect(passed.ms).toBeLessThan(SILENCE_MS_MAX)
        expect(refused.status).toBe(503)
        expect(refused.ms).toBeLessThan(SILENCE_MS_MAX)
        expect(world().app.askedFrom(from)).toHaveLength(1)
        expect(world().app.askedFrom(from)[0]?.sha256).toBe(
          createHash('sha256').update(body).digest('hex'),
        )
      } finally {
        world().sluice().thaw()
      }
      await isAskedAgain(world().open)
    })

    test('because it is gone, calls pass at once; where it fails closed they do not', async () => {
      const from = newCaller()
      const other = newCaller()
      await world().sluice().stop()
      try {
        for (let i = 0; i < 3; i++) {
          const passed = await call(world().open, '/login', { from })
          expect(passed).toMatchObject({ status: APP_STATUS, body: APP_BODY })
          expect(passed.ms).toBeLessThan(SILENCE_MS_MAX)
        }
        const refused = await call(world().closed, '/login', { from: other })
        expect(refused.status).toBe(503)
        expect(world().app.askedFrom(other)).toEqual([])
      } finally {
        await world().restartSluice()
      }
      await isAskedAgain(world().open)
      await isAskedAgain(world().closed)
    })

    test('because it fails, calls pass; where it fails closed they do not', async () => {
      const from = newCaller()
      const sluice = await startStandIn((response) => response.writeHead(500).end('{}'))
      try {
        const [open, closed] = await Promise.all([
          world().asking(sluice.port),
          world().asking(sluice.port, { failClosed: true }),
        ])
        expect((await call(closed, '/login', { from })).status).toBe(503)
        expect((await call(open, '/login', { from })).status).toBe(APP_STATUS)
        expect(world().app.askedFrom(from)).toHaveLength(1)
      } finally {
        await sluice.close()
      }
    })

    test('it is not asked again, as it may have counted the call', async () => {
      const sluice = await startStandIn(() => {})
      try {
        const open = await world().asking(sluice.port)
        const from = newCaller()
        expect((await call(open, '/login', { from })).status).toBe(APP_STATUS)
        expect(sluice.questions()).toBe(1)
      } finally {
        await sluice.close()
      }
    })

    test('because it does not trust the proxy, no call passes', async () => {
      const port = await world().beside({ trustedProxies: '192.0.2.1/32' })
      const from = newCaller()
      expect((await call(port, '/shop/1', { from })).status).toBe(403)
      expect(world().app.askedFrom(from)).toEqual([])
    })
  })
}
