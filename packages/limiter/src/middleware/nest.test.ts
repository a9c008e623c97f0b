import {
  type ArgumentsHost,
  Catch,
  type ExecutionContext,
  ForbiddenException,
  Get,
  type HttpException,
  type INestApplication,
  Injectable,
  Req,
  UseGuards,
} from '@nestjs/common'
import { APP_GUARD } from '@nestjs/core'
import { afterEach, describe, expect, test } from 'vitest'
import { createLimiter } from '../limiter.js'
import {
  Limit,
  type NestOptions,
  type NestRequest,
  SkipLimit,
  SluiceException,
  SluiceGuard,
  SluiceModule,
  SluiceService,
} from './nest.js'
import {
  createController,
  decorate,
  decorateParameter,
  GLOBAL_GUARD,
  type Platform,
  startApp,
} from './nest.test-helper.js'

const PER_IP = { id: 'per-ip', by: ['ip'], limits: ['2/hour'] }

const apps: INestApplication[] = []

afterEach(async () => {
  await Promise.all(apps.splice(0).map((app) => app.close()))
})

async function start(
  parts: Parameters<typeof startApp>[0],
  platform: Platform = 'Express',
): Promise<string> {
  const { app, address } = await startApp(parts, platform)
  apps.push(app)
  return address
}

const moduleOf = (options: NestOptions = { rules: [PER_IP] }) =>
  SluiceModule.forRoot({ warnings: false, ...options })

/** A new class each time, since decorators change it. */
function createOrders(...decorators: ClassDecorator[]) {
  class Orders {
    list(request: NestRequest) {
      return { remaining: request.sluice?.remaining }
    }
    free() {
      return 'free'
    }
    costly() {
      return 'costly'
    }
  }
  decorateParameter(Orders, 'list', 0, Req())
  return createController(
    Orders,
    {
      list: [Get('orders/:id')],
      free: [Get('free'), SkipLimit()],
      costly: [Get('costly'), Limit({ cost: 2, attributes: { kind: 'export' } })],
    },
    ...decorators,
  )
}

async function statusesOf(address: string, ...paths: string[]): Promise<number[]> {
  const statuses: number[] = []
  for (const path of paths) statuses.push((await fetch(`${address}${path}`)).status)
  return statuses
}

describe.each(['Express', 'Fastify'] as const)('the Nest guard on %s', (platform) => {
  const startOrders = (options?: NestOptions) =>
    start(
      { imports: [moduleOf(options)], controllers: [createOrders()], providers: [GLOBAL_GUARD] },
      platform,
    )

  test('admits calls with the rate limit headers, and the decision on the request', async () => {
    const response = await fetch(`${await startOrders()}/orders/1`)
    expect(await response.json()).toEqual({ remaining: 1 })
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'x-ratelimit-limit': '2',
      'x-ratelimit-remaining': '1',
      'ratelimit-policy': '"per-ip";q=2;w=3600',
    })
  })

  test('refuses a call over its limit with the headers and the body of the gateway', async () => {
    const address = await startOrders()
    expect(await statusesOf(address, '/orders/1', '/orders/2')).toEqual([200, 200])
    const response = await fetch(`${address}/orders/3`)
    expect(response.status).toBe(429)
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'application/problem+json',
      'cache-control': 'no-store',
      'retry-after': expect.stringMatching(/^\d+$/),
      'x-ratelimit-remaining': '0',
    })
    expect(await response.json()).toMatchObject({ status: 429, error: 'rate_limited' })
  })

  test('leaves out what @SkipLimit() names', async () => {
    const address = await startOrders()
    const paths = ['/orders/1', '/orders/1', '/orders/1', '/free', '/free']
    expect(await statusesOf(address, ...paths)).toEqual([200, 200, 429, 200, 200])
  })

  test('takes cost and attributes from @Limit()', async () => {
    const address = await startOrders({
      rules: [
        { id: 'exports', by: ['ip'], match: { where: { kind: 'export' } }, limits: ['3/hour'] },
      ],
    })
    expect(await statusesOf(address, '/costly', '/costly', '/orders/1')).toEqual([200, 429, 200])
  })

  test('gives rules the pattern of a route as its name', async () => {
    const address = await startOrders({
      rules: [{ id: 'per-route', by: ['route'], limits: ['2/hour'] }],
    })
    const paths = ['/orders/1', '/orders/2', '/orders/3', '/costly']
    expect(await statusesOf(address, ...paths)).toEqual([200, 200, 429, 200])
  })

  test('hands refusals to onRefused, which answers or throws', async () => {
    const address = await startOrders({
      rules: [{ ...PER_IP, limits: ['1/hour'] }],
      onRefused: () => {
        throw new ForbiddenException('slow down')
      },
    })
    expect(await statusesOf(address, '/orders/1', '/orders/1')).toEqual([200, 403])
    const answering = await startOrders({
      rules: [{ ...PER_IP, limits: ['1/hour'] }],
      onRefused: (_request, response) => (response as { send(text: string): void }).send('no'),
    })
    expect(await statusesOf(answering, '/orders/1')).toEqual([200])
    const refused = await fetch(`${answering}/orders/1`)
    expect([refused.status, await refused.text()]).toEqual([429, 'no'])
    expect(refused.headers.has('retry-after')).toBe(true)
  })

  test('passes errors of user functions to the exception layer of Nest', async () => {
    const address = await startOrders({
      rules: [PER_IP],
      attributes: async () => Promise.reject(new ForbiddenException()),
    })
    expect(await statusesOf(address, '/orders/1')).toEqual([403])
  })
})

describe('the Nest guard', () => {
  test('counts a call once that two guards limit', async () => {
    const orders = createOrders(UseGuards(SluiceGuard))
    const address = await start({
      imports: [moduleOf()],
      controllers: [orders],
      providers: [GLOBAL_GUARD],
    })
    expect(await statusesOf(address, '/orders/1', '/orders/1', '/orders/1')).toEqual([
      200, 200, 429,
    ])
  })

  test('runs after the guards before it, so that it knows the user', async () => {
    interface UserRequest extends NestRequest {
      user?: string | undefined
    }
    class AuthGuard {
      canActivate(context: ExecutionContext) {
        const request = context.switchToHttp().getRequest<UserRequest>()
        request.user = request.headers?.['x-user']?.toString()
        return request.user !== undefined
      }
    }
    decorate(AuthGuard, [Injectable()])
    const address = await start({
      imports: [
        SluiceModule.forRoot<UserRequest>({
          rules: [{ id: 'per-user', by: ['user'], limits: ['1/hour'] }],
          attributes: ({ user }) => ({ user }),
          warnings: false,
        }),
      ],
      controllers: [createOrders()],
      providers: [{ provide: APP_GUARD, useClass: AuthGuard }, GLOBAL_GUARD],
    })
    const statusOf = async (user: string) =>
      (await fetch(`${address}/orders/1`, { headers: { 'x-user': user } })).status
    expect([await statusOf('ann'), await statusOf('bob'), await statusOf('ann')]).toEqual([
      200, 200, 429,
    ])
    expect(await statusesOf(address, '/orders/1')).toEqual([403])
  })

  test('merges what class and handler set, and lets a handler undo a skip', async () => {
    class Reports {
      daily() {
        return 'daily'
      }
      status() {
        return 'status'
      }
    }
    createController(
      Reports,
      {
        daily: [Get('daily'), Limit({ attributes: { report: 'daily' } }), SkipLimit(false)],
        status: [Get('status')],
      },
      SkipLimit(),
      Limit({ cost: 2, attributes: { team: 'finance', report: 'any' } }),
    )
    const rules = [
      {
        id: 'daily',
        match: { where: { report: 'daily', team: 'finance' } },
        by: ['ip'],
        limits: ['3/hour'],
      },
    ]
    const address = await start({
      imports: [moduleOf({ rules })],
      controllers: [Reports],
      providers: [GLOBAL_GUARD],
    })
    const paths = ['/daily', '/daily', '/status', '/status']
    expect(await statusesOf(address, ...paths)).toEqual([200, 429, 200, 200])
  })

  test('throws an exception that a filter of the user can answer', async () => {
    const caught: HttpException[] = []
    class OwnFilter {
      catch(exception: SluiceException, host: ArgumentsHost) {
        caught.push(exception)
        host.switchToHttp().getResponse().status(exception.getStatus()).send('own')
      }
    }
    decorate(OwnFilter, [Catch(SluiceException)])
    const address = await start({
      imports: [moduleOf({ rules: [{ ...PER_IP, limits: ['1/hour'] }] })],
      controllers: [createOrders()],
      providers: [GLOBAL_GUARD],
      prepare: (app) => app.useGlobalFilters(new OwnFilter()),
    })
    await fetch(`${address}/orders/1`)
    const response = await fetch(`${address}/orders/1`)
    expect([response.status, await response.text()]).toEqual([429, 'own'])
    expect(response.headers.has('retry-after')).toBe(true)
    expect(caught[0]?.getResponse()).toMatchObject({ error: 'rate_limited' })
  })

  test('rejects an invalid @Limit() where it is written', () => {
    expect(() => Limit({ cost: 1.5 })).toThrow(
      '@Limit().cost: found 1.5; accepted: a whole number from 0, or a function',
    )
  })
})

describe('SluiceModule', () => {
  test('takes its options from a factory with injected providers', async () => {
    const address = await start({
      imports: [
        SluiceModule.forRootAsync({
          imports: [],
          inject: [],
          useFactory: async () => ({ rules: [PER_IP], warnings: false }),
        }),
      ],
      controllers: [createOrders()],
      providers: [GLOBAL_GUARD],
    })
    expect(await statusesOf(address, '/orders/1', '/orders/1', '/orders/1')).toEqual([
      200, 200, 429,
    ])
  })

  test('takes its options from a class', async () => {
    class LimiterConfig {
      createSluiceOptions(): NestOptions {
        return { rules: [PER_IP], warnings: false }
      }
    }
    decorate(LimiterConfig, [Injectable()])
    const address = await start({
      imports: [SluiceModule.forRootAsync({ useClass: LimiterConfig })],
      controllers: [createOrders()],
      providers: [GLOBAL_GUARD],
    })
    expect(await statusesOf(address, '/orders/1', '/orders/1', '/orders/1')).toEqual([
      200, 200, 429,
    ])
  })

  test('rejects options of which none says where they come from', () => {
    expect(() => SluiceModule.forRootAsync({})).toThrow(
      'forRootAsync: found no options; accepted: useFactory, useClass or useExisting',
    )
  })

  test('decides calls until the server of the application is closed', async () => {
    let answered: Promise<readonly number[]> | undefined
    let address = ''
    class Draining {
      async beforeApplicationShutdown() {
        answered = statusesOf(address, '/orders/1')
        await answered
      }
    }
    const running = await startApp({
      imports: [moduleOf()],
      controllers: [createOrders()],
      providers: [GLOBAL_GUARD, Draining],
    })
    address = running.address
    await running.app.close()
    expect(await answered).toEqual([200])
  })

  test('closes its own limiter with the application, and leaves a given one open', async () => {
    const call = { attributes: { ip: '192.0.2.1' } }
    const own = (await startApp({ imports: [moduleOf()] })).app
    const { limiter } = own.get(SluiceService)
    expect((await limiter.check(call)).allowed).toBe(true)
    await own.close()
    await expect(limiter.check(call)).rejects.toMatchObject({ code: 'LIMITER_CLOSED' })
    const given = createLimiter({ rules: [PER_IP] })
    const { app } = await startApp({ imports: [moduleOf({ limiter: given })] })
    await app.close()
    expect((await given.check(call)).allowed).toBe(true)
  })
})
