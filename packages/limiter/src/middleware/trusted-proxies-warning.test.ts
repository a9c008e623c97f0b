/** The warning about a framework that trusts every proxy, on real servers of Express and Koa. */
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import Koa from 'koa'
import { beforeEach, expect, test, vi } from 'vitest'

const RULES = [{ id: 'per-address', by: ['ip'], limits: ['9/hour'] }]

// A process logs a warning once, whichever middleware found it: each test loads its own copy.
beforeEach(() => {
  vi.resetModules()
})

function recordWarnings() {
  const texts: string[] = []
  return { texts, logger: { warn: (text: string) => void texts.push(text), error: () => {} } }
}

/** Two calls, because a warning is logged once. */
async function callTwice(server: Server): Promise<void> {
  if (!server.listening) await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  for (let n = 0; n < 2; n++) await (await fetch(`http://127.0.0.1:${port}/`)).text()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
}

const isAboutProxies = (text: string) => text.includes('trusts-all-proxies')

test.each([
  ['warns once', true, 1],
  ['does not warn for a list of proxies', 'loopback', 0],
  ['does not warn by default', undefined, 0],
] as const)('Express: the middleware %s', async (_, setting, count) => {
  const { texts, logger } = recordWarnings()
  const app = express()
  if (setting !== undefined) app.set('trust proxy', setting)
  const { sluice } = await import('./express.js')
  app.use(sluice({ rules: RULES, logger }))
  app.get('/', (_request, response) => void response.end('ok'))
  await callTwice(app.listen(0, '127.0.0.1'))
  const found = texts.filter(isAboutProxies)
  expect(found).toHaveLength(count)
  for (const text of found) expect(text).toContain("Express setting 'trust proxy'")
})

test.each([
  ['warns once', true, 1],
  ['does not warn by default', false, 0],
] as const)('Koa: the middleware %s', async (_, proxy, count) => {
  const { texts, logger } = recordWarnings()
  const app = new Koa({ proxy })
  const { sluice } = await import('./koa.js')
  app.use(sluice({ rules: RULES, logger }))
  app.use((context) => {
    context.body = 'ok'
  })
  await callTwice(app.listen(0, '127.0.0.1'))
  const found = texts.filter(isAboutProxies)
  expect(found).toHaveLength(count)
  for (const text of found) expect(text).toContain('app.proxy of Koa')
})
