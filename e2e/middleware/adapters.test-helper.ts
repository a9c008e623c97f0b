/**
 * Every middleware on a real server, behind one interface: the same application, and the same
 * options. A new adapter is one more entry of `ADAPTERS`.
 */
import 'reflect-metadata'
import { createServer, type Server } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { pipeline, Readable, type Writable } from 'node:stream'
import { createAdaptorServer } from '@hono/node-server'
import { All, Req, Res } from '@nestjs/common'
import express from 'express'
import fastify, { type FastifyInstance } from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import { clientAddress, formatAddress, parseTrustedProxies } from '../../packages/core/src/index.js'
import type { Decision } from '../../packages/limiter/src/index.js'
import { sluice as expressSluice } from '../../packages/limiter/src/middleware/express.js'
import { sluice as fastifySluice } from '../../packages/limiter/src/middleware/fastify.js'
import { sluice as fetchSluice } from '../../packages/limiter/src/middleware/fetch.js'
import { sluice as honoSluice } from '../../packages/limiter/src/middleware/hono.js'
import { sluice as koaSluice } from '../../packages/limiter/src/middleware/koa.js'
import type {
  CallLimiter,
  MiddlewareLogger,
} from '../../packages/limiter/src/middleware/middleware-options.js'
import { type NestRequest, SluiceModule } from '../../packages/limiter/src/middleware/nest.js'
import {
  createController,
  decorateParameter,
  GLOBAL_GUARD,
  type Platform,
  startApp,
} from '../../packages/limiter/src/middleware/nest.test-helper.js'
import { sluice as nodeSluice } from '../../packages/limiter/src/middleware/node.js'

/** Express 4 beside 5; the installed types are those of 5. */
const express4 = createRequire(import.meta.url)('express-4') as typeof express

/** Reads a header of a request, whatever its framework. */
type HeaderReader = (name: string) => string | undefined

/** The options of all adapters, with requests reduced to their headers. */
export interface AdapterOptions {
  readonly rules?: object | string
  readonly limiter?: CallLimiter
  readonly attributes?: (header: HeaderReader) => Record<string, string | undefined>
  readonly cost?: (header: HeaderReader) => number
  readonly skip?: (header: HeaderReader) => boolean
  readonly count?: 'all' | 'failed' | 'succeeded' | ((header: HeaderReader) => boolean)
  readonly onDecision?: (decision: Decision) => void
  /** The text of an own answer to refused calls. */
  readonly refusalText?: string
  readonly headers?: {
    readonly standard?: boolean | 'draft-6' | 'draft-7'
    readonly legacy?: boolean
  }
  readonly trustedProxies?: readonly string[]
  readonly hold?: boolean
  readonly posture?: 'open' | 'closed'
  readonly logger?: MiddlewareLogger
}

interface AppResponse {
  readonly status: number
  /** A text, or one that is sent piece by piece. */
  readonly body: string | AsyncIterable<string>
}

/** The application behind the middleware; it may throw. */
export type App = (url: string, decision: Decision | undefined) => Promise<AppResponse>

export interface RunningAdapter {
  readonly port: number
  close(): Promise<void>
}

type StartAdapter = (options: AdapterOptions, app: App) => Promise<RunningAdapter>

export const ADAPTERS: readonly (readonly [name: string, start: StartAdapter])[] = [
  ['node:http', startNode],
  ['Express 5', (options, app) => startExpress(express, options, app)],
  ['Express 4', (options, app) => startExpress(express4, options, app)],
  ['Fastify', startFastify],
  ['Nest on Express', (options, app) => startNest('Express', options, app)],
  ['Nest on Fastify', (options, app) => startNest('Fastify', options, app)],
  ['Koa', startKoa],
  ['Hono', startHono],
  ['Fetch', startFetch],
]

/** Frameworks whose router answers a path that it cannot decode, before anything else runs. */
export const DECODING: readonly string[] = ['Fastify', 'Nest on Express', 'Nest on Fastify']

interface HasHeaders {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
}

const nodeHeader =
  ({ headers }: HasHeaders): HeaderReader =>
  (name) =>
    headers[name]?.toString()

/** The options of an adapter whose requests are read by `headerOf`. */
function optionsOf<Request>(options: AdapterOptions, headerOf: (request: Request) => HeaderReader) {
  const { attributes, cost, skip, count, refusalText: _, ...rest } = options
  return {
    logger: { warn: () => {}, error: () => {} },
    ...rest,
    ...(attributes && { attributes: (request: Request) => attributes(headerOf(request)) }),
    ...(cost && { cost: (request: Request) => cost(headerOf(request)) }),
    ...(skip && { skip: (request: Request) => skip(headerOf(request)) }),
    ...(count && {
      count: typeof count === 'function' ? (request: Request) => count(headerOf(request)) : count,
    }),
  }
}

function streamOf(body: AsyncIterable<string>): Readable {
  return Readable.from(body, { objectMode: false })
}

function webBody(body: AppResponse['body']): string | ReadableStream<Uint8Array> {
  if (typeof body === 'string') return body
  return Readable.toWeb(streamOf(body)) as ReadableStream<Uint8Array>
}

async function listen(server: Server, close: () => Promise<void>): Promise<RunningAdapter> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      await close()
    },
  }
}

function startNode(options: AdapterOptions, app: App): Promise<RunningAdapter> {
  const { refusalText } = options
  const limited = nodeSluice({
    ...optionsOf(options, nodeHeader),
    ...(refusalText !== undefined && {
      onRefused: (_, response) => void response.end(refusalText),
    }),
  })
  const handler = limited((request, response) => {
    app(request.url ?? '', request.sluice).then(
      ({ status, body }) => {
        response.statusCode = status
        if (typeof body === 'string') response.end(body)
        else pipeline(streamOf(body), response, () => {})
      },
      () => {
        response.statusCode = 500
        response.end()
      },
    )
  })
  return listen(createServer(handler), () => limited.close())
}

function startExpress(
  framework: typeof express,
  options: AdapterOptions,
  app: App,
): Promise<RunningAdapter> {
  const { refusalText } = options
  const limited = expressSluice({
    ...optionsOf(options, nodeHeader),
    ...(refusalText !== undefined && {
      onRefused: (_, response) => void response.end(refusalText),
    }),
  })
  const server = framework()
  server.use(limited)
  server.use((request, response, next) => {
    app(request.originalUrl, request.sluice).then(({ status, body }) => {
      response.status(status)
      if (typeof body === 'string') response.send(body)
      else pipeline(streamOf(body), response, () => {})
    }, next)
  })
  const silent: express.ErrorRequestHandler = (_error, _request, response, _next) =>
    void response.status(500).end()
  server.use(silent)
  return listen(createServer(server), () => limited.close())
}

/** Without it Fastify answers 415 to a body of no type. */
function acceptAnyBody(server: Pick<FastifyInstance, 'addContentTypeParser'>): void {
  server.addContentTypeParser('*', (_request, _payload, done) => done(null))
}

async function startFastify(options: AdapterOptions, app: App): Promise<RunningAdapter> {
  const { refusalText } = options
  const server = fastify()
  await server.register(fastifySluice, {
    ...optionsOf(options, nodeHeader),
    ...(refusalText !== undefined && {
      onRefused: (_request, reply) => reply.type('text/plain').send(refusalText),
    }),
  })
  acceptAnyBody(server)
  server.all('*', async (request, reply) => {
    const { status, body } = await app(request.originalUrl, request.sluice)
    return reply.code(status).send(typeof body === 'string' ? body : streamOf(body))
  })
  await server.listen({ port: 0, host: '127.0.0.1' })
  return {
    port: (server.server.address() as AddressInfo).port,
    close: async () => {
      server.server.closeAllConnections()
      await server.close()
    },
  }
}

/** What responses of Express and replies of Fastify have in common. */
interface NestResponse {
  status(status: number): this
  send(body: string | Readable): unknown
}

type NestAppRequest = NestRequest & HasHeaders & { readonly originalUrl: string }

async function startNest(
  platform: Platform,
  options: AdapterOptions,
  app: App,
): Promise<RunningAdapter> {
  const { refusalText } = options
  class Everything {
    async answer(request: NestAppRequest, response: NestResponse) {
      const { status, body } = await app(request.originalUrl, request.sluice)
      response.status(status)
      if (typeof body === 'string') response.send(body)
      else if (platform === 'Fastify') response.send(streamOf(body))
      else pipeline(streamOf(body), response as unknown as Writable, () => {})
    }
  }
  decorateParameter(Everything, 'answer', 0, Req())
  decorateParameter(Everything, 'answer', 1, Res())
  createController(Everything, { answer: [All(platform === 'Fastify' ? '*' : ['/', '*path'])] })
  const limited = SluiceModule.forRoot<NestAppRequest, NestResponse>({
    ...optionsOf(options, nodeHeader),
    ...(refusalText !== undefined && {
      onRefused: (_request, response) => response.send(refusalText),
    }),
  })
  const running = await startApp(
    {
      imports: [limited],
      controllers: [Everything],
      providers: [GLOBAL_GUARD],
      prepare: (nest) => {
        if (platform === 'Fastify') acceptAnyBody(nest.getHttpAdapter().getInstance())
      },
    },
    platform,
  )
  const server: Server = running.app.getHttpServer()
  return {
    port: (server.address() as AddressInfo).port,
    close: async () => {
      server.closeAllConnections()
      await running.app.close()
    },
  }
}

function startKoa(options: AdapterOptions, app: App): Promise<RunningAdapter> {
  const { refusalText } = options
  const limited = koaSluice<Koa.Context>({
    ...optionsOf<Koa.Context>(options, nodeHeader),
    ...(refusalText !== undefined && {
      onRefused: (_, response) => {
        response.body = refusalText
      },
    }),
  })
  const server = new Koa()
  server.silent = true
  server.use(limited)
  server.use(async (context) => {
    const { status, body } = await app(context.originalUrl, context.state['sluice'])
    context.status = status
    context.body = typeof body === 'string' ? body : streamOf(body)
  })
  const handler = server.callback()
  return listen(
    createServer((request, response) => void handler(request, response)),
    () => limited.close(),
  )
}

function startHono(options: AdapterOptions, app: App): Promise<RunningAdapter> {
  const { refusalText } = options
  const limited = honoSluice({
    ...optionsOf(options, ({ req }: { req: { header(name: string): string | undefined } }) => {
      return (name) => req.header(name)
    }),
    address: 'socket',
    ...(refusalText !== undefined && { onRefused: ownAnswer(refusalText) }),
  })
  const server = new Hono()
  server.onError((_error, context) => context.body(null, 500))
  server.use(limited)
  server.all('*', async (context) => {
    const { pathname, search } = new URL(context.req.url)
    const { status, body } = await app(pathname + search, context.get('sluice'))
    return new Response(webBody(body), { status })
  })
  return listen(createAdaptorServer(server) as Server, () => limited.close())
}

function startFetch(options: AdapterOptions, app: App): Promise<RunningAdapter> {
  const { refusalText, trustedProxies = [], ...rest } = options
  const { cidrs: trusted } = parseTrustedProxies(trustedProxies)
  interface NodeContext {
    readonly incoming: { readonly socket: { readonly remoteAddress?: string } }
  }
  const limited = fetchSluice({
    ...optionsOf(
      rest,
      ({ headers }: Request) =>
        (name) =>
          headers.get(name) ?? undefined,
    ),
    address: ({ headers }, { incoming }: NodeContext) => {
      const line = headers.get('x-forwarded-for')
      const peer = incoming.socket.remoteAddress
      if (peer === undefined) throw new Error('the client has left')
      const found = clientAddress({ peer, trusted, forwardedFor: line === null ? [] : [line] })
      return found === undefined ? undefined : formatAddress(found.address)
    },
    ...(refusalText !== undefined && { onRefused: ownAnswer(refusalText) }),
  })
  const handler = limited(async (request: Request, decision, _context: unknown) => {
    const { pathname, search } = new URL(request.url)
    const { status, body } = await app(pathname + search, decision)
    return new Response(webBody(body), { status })
  })
  const fetch = async (request: Request, context: unknown) => {
    try {
      return await handler(request, context)
    } catch {
      return new Response(null, { status: 500 })
    }
  }
  return listen(createAdaptorServer({ fetch }) as Server, () => limited.close())
}

function ownAnswer(text: string) {
  return (_: unknown, { status, headers }: Response) => {
    headers.delete('content-type')
    return new Response(text, { status, headers })
  }
}
