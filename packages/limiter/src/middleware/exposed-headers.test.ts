import 'reflect-metadata'
import { createServer, request as httpRequest, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'
import { Get } from '@nestjs/common'
import express from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'
import { cors as honoCors } from 'hono/cors'
import Koa from 'koa'
import { afterEach, describe, expect, test } from 'vitest'
import { withExposed } from './exposed-headers.js'
import { sluice as expressSluice } from './express.js'
import { sluice as fastifySluice } from './fastify.js'
import { sluice as fetchSluice } from './fetch.js'
import { sluice as honoSluice } from './hono.js'
import { sluice as koaSluice } from './koa.js'
import { SluiceModule } from './nest.js'
import { createController, GLOBAL_GUARD, type Platform, startApp } from './nest.test-helper.js'
import { sluice as nodeSluice } from './node.js'

const APP = 'https://app.example.com'
const OPTIONS = {
  rules: [{ id: 'all', by: [], limits: ['1/hour'] }],
  headers: { legacy: false },
  warnings: false,
} as const
const ALLOW = 'access-control-allow-origin'
const EXPOSE = 'access-control-expose-headers'

/** The application allows an origin and exposes a header of its own, before Sluice decides. */
const CORS = { origin: APP, exposedHeaders: ['ETag'] }
function allow(response: Pick<ServerResponse, 'setHeader'>): void {
  response.setHeader('Access-Control-Allow-Origin', APP)
  response.setHeader('Access-Control-Expose-Headers', 'ETag')
}

const running: (() => unknown)[] = []
afterEach(async () => {
  for (const close of running.splice(0)) await close()
})

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  running.push(() => {
    server.closeAllConnections()
    return new Promise((resolve) => server.close(resolve))
  })
  return (server.address() as AddressInfo).port
}

async function startNest(platform: Platform): Promise<number> {
  class Root {
    answer(): string {
      return 'ok'
    }
  }
  createController(Root, { answer: [Get('/')] })
  const { app } = await startApp(
    {
      imports: [SluiceModule.forRoot(OPTIONS)],
      controllers: [Root],
      providers: [GLOBAL_GUARD],
      prepare: (nest) => nest.enableCors(CORS),
    },
    platform,
  )
  running.push(() => app.close())
  const server: Server = app.getHttpServer()
  return (server.address() as AddressInfo).port
}

const SERVERS: Readonly<Record<string, () => Promise<number>>> = {
  'node:http': () => {
    const limited = nodeSluice(OPTIONS)((_, response) => void response.end('ok'))
    return listen(
      createServer((request, response) => {
        allow(response)
        limited(request, response)
      }),
    )
  },
  Express: () => {
    const app = express()
    app.use((_, response, next) => {
      allow(response)
      next()
    })
    app.use(expressSluice(OPTIONS))
    app.get('/', (_, response) => void response.send('ok'))
    return listen(createServer(app))
  },
  Fastify: async () => {
    const app = fastify()
    app.addHook('onRequest', async (_, reply) => {
      reply.header('Access-Control-Allow-Origin', APP)
      reply.header('Access-Control-Expose-Headers', 'ETag')
    })
    await app.register(fastifySluice, OPTIONS)
    app.get('/', () => 'ok')
    await app.listen({ port: 0, host: '127.0.0.1' })
    running.push(() => app.close())
    return (app.server.address() as AddressInfo).port
  },
  'Nest on Express': () => startNest('Express'),
  'Nest on Fastify': () => startNest('Fastify'),
  Koa: () => {
    const app = new Koa()
    app.use((context, next) => {
      allow(context.res)
      return next()
    })
    app.use(koaSluice(OPTIONS))
    app.use((context) => {
      context.body = 'ok'
    })
    const handle = app.callback()
    return listen(createServer((request, response) => void handle(request, response)))
  },
  Hono: () => {
    const app = new Hono()
    app.use(honoCors({ origin: APP, exposeHeaders: ['ETag'] }))
    app.use(honoSluice({ ...OPTIONS, address: 'socket' }))
    app.get('/', (context) => context.text('ok'))
    return listen(createAdaptorServer(app) as Server)
  },
  Fetch: () => {
    const headers = { 'Access-Control-Allow-Origin': APP, 'Access-Control-Expose-Headers': 'ETag' }
    const limited = fetchSluice({
      ...OPTIONS,
      onRefused: (_, response) => {
        response.headers.set('Access-Control-Allow-Origin', APP)
      },
    })
    const fetch = limited(() => new Response('ok', { headers }))
    return listen(createAdaptorServer({ fetch }) as Server)
  },
}

function send(port: number, headers: Readonly<Record<string, string>>) {
  return new Promise<{ status: number; headers: Record<string, unknown> }>((resolve, reject) => {
    httpRequest({ host: '127.0.0.1', port, agent: false, headers }, (response) => {
      response.resume()
      resolve({ status: response.statusCode ?? 0, headers: response.headers })
    })
      .on('error', reject)
      .end()
  })
}

describe.each(Object.entries(SERVERS))('%s', (name, start) => {
  test('exposes the rate limit headers to a page of another origin, of refusals too', async () => {
    const port = await start()
    const admitted = await send(port, { origin: APP })
    expect(admitted).toMatchObject({
      status: 200,
      headers: { [ALLOW]: APP, [EXPOSE]: 'ETag, RateLimit-Policy, RateLimit' },
    })
    const refused = await send(port, { origin: APP })
    const own = name === 'Fetch' ? '' : 'ETag, '
    expect(refused).toMatchObject({
      status: 429,
      headers: { [ALLOW]: APP, [EXPOSE]: `${own}RateLimit-Policy, RateLimit, Retry-After` },
    })
  })

  test('adds nothing to answers of requests without an origin', async () => {
    const port = await start()
    const admitted = await send(port, {})
    expect(admitted.headers['ratelimit']).toBeDefined()
    expect(admitted.headers[EXPOSE]).toBe('ETag')
    const refused = await send(port, {})
    expect(refused.status).toBe(429)
    expect(refused.headers[EXPOSE]).toBe(name === 'Fetch' ? undefined : 'ETag')
  })
})

describe('an application without CORS', () => {
  test('allows no origin because of Sluice', async () => {
    const limited = nodeSluice(OPTIONS)((_, response) => void response.end('ok'))
    const port = await listen(createServer(limited))
    for (const status of [200, 429]) {
      const answer = await send(port, { origin: APP })
      expect(answer.status).toBe(status)
      expect(answer.headers).not.toHaveProperty(ALLOW)
    }
  })

  test('keeps the exposed headers on the answer to an error that Koa makes', async () => {
    const app = new Koa()
    app.silent = true
    app.use(koaSluice(OPTIONS))
    app.use(() => {
      throw new Error('broken')
    })
    const handle = app.callback()
    const port = await listen(createServer((request, response) => void handle(request, response)))
    const { status, headers } = await send(port, { origin: APP })
    expect(status).toBe(500)
    expect(headers[EXPOSE]).toBe('RateLimit-Policy, RateLimit')
  })
})

test('a list of several lines, and a * beside credentials, are kept', () => {
  const response = (headers: Readonly<Record<string, string | string[]>>) => ({
    getHeader: (header: string) => headers[header.toLowerCase()],
  })
  const ours = ['RateLimit', '"a";r=1']
  const lines = response({ [EXPOSE]: ['ETag', 'Link'] })
  expect(withExposed(ours, APP, lines).at(-1)).toBe('ETag, Link, RateLimit')
  const all = response({ [EXPOSE]: '*', 'access-control-allow-credentials': 'true' })
  expect(withExposed(ours, APP, all).at(-1)).toBe('*, RateLimit')
  expect(withExposed([], APP, all)).toEqual([])
  expect(withExposed(ours, undefined, all)).toBe(ours)
})
