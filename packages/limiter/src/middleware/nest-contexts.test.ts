/** The Nest guard outside of HTTP: WebSocket gateways and GraphQL resolvers. */
import { once } from 'node:events'
import {
  type ArgumentsHost,
  Catch,
  type ExecutionContext,
  type INestApplication,
  type Type,
  UseFilters,
  UseGuards,
} from '@nestjs/common'
import { ExternalContextCreator } from '@nestjs/core'
import { IoAdapter } from '@nestjs/platform-socket.io'
import { WsAdapter } from '@nestjs/platform-ws'
import { SubscribeMessage, WebSocketGateway, WsException } from '@nestjs/websockets'
import { io } from 'socket.io-client'
import { afterEach, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { Limit, type NestOptions, SkipLimit, SluiceGuard, SluiceModule } from './nest.js'
import { decorate, startApp } from './nest.test-helper.js'

const cleanups: (() => unknown)[] = []

afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

async function start(
  options: NestOptions,
  providers: Type[],
  prepare?: (app: INestApplication) => void,
) {
  const running = await startApp({
    imports: [SluiceModule.forRoot({ warnings: false, ...options })],
    providers,
    ...(prepare && { prepare }),
  })
  cleanups.push(() => running.app.close())
  return running
}

/** A new class each time, since decorators change it. */
function createGateway(...decorators: ClassDecorator[]): Type {
  class Chat {
    say(_client: unknown, text: string) {
      return { event: 'said', data: text }
    }
    ping() {
      return { event: 'pong' }
    }
  }
  return decorate(Chat, [WebSocketGateway(), UseGuards(SluiceGuard), ...decorators], {
    say: [SubscribeMessage('say'), Limit({ attributes: { kind: 'chat' } })],
    ping: [SubscribeMessage('ping'), SkipLimit()],
  })
}

const MESSAGES = [
  {
    id: 'messages',
    match: { method: 'MESSAGE', where: { kind: 'chat', route: 'MESSAGE say' } },
    by: ['ip'],
    limits: ['2/hour'],
  },
]

describe('the Nest guard on a gateway', () => {
  test('refuses messages of Socket.IO with the problem as an exception', async () => {
    const { address } = await start({ rules: MESSAGES }, [createGateway()], (app) =>
      app.useWebSocketAdapter(new IoAdapter(app)),
    )
    const client = io(address, { transports: ['websocket'] })
    cleanups.push(() => client.disconnect())
    const received: unknown[] = []
    const waiting = new Promise<void>((resolve) => {
      client.onAny((event: string, data: unknown) => {
        received.push([event, data])
        if (received.length === 4) resolve()
      })
    })
    for (const text of ['a', 'b', 'c']) client.emit('say', text)
    client.emit('ping')
    await waiting
    expect(received).toHaveLength(4)
    expect(received).toContainEqual(['said', 'a'])
    expect(received).toContainEqual(['said', 'b'])
    expect(received).toContainEqual(['pong', null])
    expect(received).toContainEqual([
      'exception',
      expect.objectContaining({ status: 429, error: 'rate_limited' }),
    ])
  })

  test('refuses messages of ws with an exception that a filter sends', async () => {
    class SendProblem {
      catch(exception: WsException, host: ArgumentsHost) {
        host.switchToWs().getClient<WebSocket>().send(JSON.stringify(exception.getError()))
      }
    }
    decorate(SendProblem, [Catch(WsException)])
    const gateway = createGateway(UseFilters(new SendProblem()))
    const { address } = await start({ rules: MESSAGES }, [gateway], (app) =>
      app.useWebSocketAdapter(new WsAdapter(app)),
    )
    const client = new WebSocket(address.replace('http', 'ws'))
    cleanups.push(() => client.terminate())
    await once(client, 'open')
    const received: unknown[] = []
    for (const data of ['a', 'b', 'c']) {
      client.send(JSON.stringify({ event: 'say', data }))
      const [message] = (await once(client, 'message')) as [Buffer]
      received.push(JSON.parse(message.toString()))
    }
    expect(received).toEqual([
      { event: 'said', data: 'a' },
      { event: 'said', data: 'b' },
      expect.objectContaining({ status: 429, error: 'rate_limited' }),
    ])
  })
})

describe('the Nest guard on a resolver', () => {
  /** Calls a resolver as the GraphQL module does, with all guards and filters of Nest. */
  async function createResolver(options: NestOptions, guard: Type = SluiceGuard) {
    class Orders {
      order(this: void) {
        return 'order'
      }
    }
    decorate(Orders, [UseGuards(guard)])
    const { app } = await start(options, [Orders, guard])
    const instance: Orders = app.get(Orders)
    const resolve = app.get(ExternalContextCreator).create(
      instance,
      instance.order,
      'order',
      undefined,
      undefined,
      undefined,
      undefined,
      {
        guards: true,
        filters: true,
        interceptors: true,
      },
      'graphql',
    )
    const info = { parentType: { name: 'Query' }, fieldName: 'order' }
    return (context: object): Promise<unknown> => resolve({}, {}, context, info)
  }

  const req = () => ({
    method: 'POST',
    url: '/graphql',
    headers: {},
    socket: { remoteAddress: '192.0.2.7' },
  })

  const RULES = [
    { id: 'orders', match: { where: { route: 'Query.order' } }, by: ['ip'], limits: ['2/hour'] },
  ]

  test('counts each resolver of a request, so that aliases are no way around a limit', async () => {
    const resolve = await createResolver({ rules: RULES })
    const context = { req: req() }
    expect([await resolve(context), await resolve(context)]).toEqual(['order', 'order'])
    const refused = await resolve(context).catch((error: unknown) => error)
    expect(refused).toMatchObject({
      status: 429,
      message: expect.stringMatching(/^Too many requests\. Retry after \d+ seconds\.$/),
      response: { error: 'rate_limited' },
      extensions: { code: 'RATE_LIMITED', problem: { status: 429 } },
    })
    expect(context.req).toMatchObject({ sluice: { allowed: false } })
  })

  test.each([
    ['request', () => ({ request: req() })],
    ['reply', () => ({ reply: { request: req() } })],
  ])('finds the request in the field %s of the context', async (_field, contextOf) => {
    const resolve = await createResolver({ rules: RULES })
    const answers: unknown[] = []
    for (let i = 0; i < 3; i++) {
      answers.push(await resolve(contextOf()).catch(({ status }: { status: number }) => status))
    }
    expect(answers).toEqual(['order', 'order', 429])
  })

  test('names the method to override if the context has no request', async () => {
    const resolve = await createResolver({ rules: RULES })
    await expect(resolve({})).rejects.toThrow(
      'SluiceGuard: found no request in a context of type graphql; override getRequestResponse',
    )
  })

  test('uses the request that an overridden method finds', async () => {
    class OwnGuard extends SluiceGuard {
      protected override getRequestResponse(context: ExecutionContext) {
        return { req: context.getArgByIndex<{ http: object }>(2).http, res: undefined }
      }
    }
    const resolve = await createResolver({ rules: RULES }, OwnGuard)
    const context = { http: req() }
    expect([await resolve(context), await resolve(context)]).toEqual(['order', 'order'])
    await expect(resolve(context)).rejects.toMatchObject({ status: 429 })
  })
})
