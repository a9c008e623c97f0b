import fastify, { type FastifyInstance, type FastifyRequest } from 'fastify'
import { afterEach, describe, expect, test } from 'vitest'
import { createLimiter } from '../limiter.js'
import { type FastifyOptions, sluice } from './fastify.js'

const PER_IP = { id: 'per-ip', by: ['ip'], limits: ['2/hour'] }

const apps: FastifyInstance[] = []

afterEach(async () => {
  await Promise.all(apps.splice(0).map((app) => app.close()))
})

function createApp(): FastifyInstance {
  const app = fastify()
  apps.push(app)
  return app
}

async function createLimitedApp(options: FastifyOptions = { rules: [PER_IP] }) {
  const app = createApp()
  await app.register(sluice, { warnings: false, ...options })
  return app
}

const remainingOf = (request: FastifyRequest) => ({ remaining: request.sluice?.remaining })

async function statusesOf(app: FastifyInstance, url: string, times: number): Promise<number[]> {
  const statuses: number[] = []
  for (let i = 0; i < times; i++) statuses.push((await app.inject(url)).statusCode)
  return statuses
}

describe('the Fastify plugin', () => {
  test('admits calls with the rate limit headers, and the decision on the request', async () => {
    const app = await createLimitedApp()
    app.get('/', remainingOf)
    const { statusCode, headers, body } = await app.inject('/')
    expect([statusCode, body]).toEqual([200, '{"remaining":1}'])
    expect(headers).toMatchObject({
      'x-ratelimit-limit': '2',
      'x-ratelimit-remaining': '1',
      'ratelimit-policy': '"per-ip";q=2;w=3600',
    })
  })

  test('refuses a call over its limit with the headers and the body of the gateway', async () => {
    const app = await createLimitedApp()
    app.get('/', remainingOf)
    expect(await statusesOf(app, '/', 2)).toEqual([200, 200])
    const { statusCode, headers, body } = await app.inject('/')
    expect(statusCode).toBe(429)
    expect(headers).toMatchObject({
      'content-type': 'application/problem+json',
      'content-length': String(body.length),
      'cache-control': 'no-store',
      'retry-after': expect.stringMatching(/^\d+$/),
      'x-ratelimit-remaining': '0',
    })
    expect(JSON.parse(body)).toMatchObject({ status: 429, error: 'rate_limited' })
  })

  test('limits routes that were added before it was loaded, without waiting for it', async () => {
    const app = createApp()
    app.get('/before', remainingOf)
    app.register(sluice, { rules: [PER_IP], warnings: false })
    app.get('/after', remainingOf)
    expect((await app.inject('/before')).body).toBe('{"remaining":1}')
    expect((await app.inject('/after')).body).toBe('{"remaining":0}')
  })

  test('limits only the scope that registers it', async () => {
    const app = createApp()
    app.get('/outside', remainingOf)
    app.register(async (scope) => {
      scope.register(sluice, { rules: [PER_IP], warnings: false })
      scope.get('/inside', remainingOf)
    })
    expect(await statusesOf(app, '/inside', 3)).toEqual([200, 200, 429])
    expect((await app.inject('/outside')).body).toBe('{}')
  })

  test('counts a HEAD request once, with the GET route that it belongs to', async () => {
    const rules = [{ id: 'per-route', by: ['ip', 'route'], limits: ['3/hour'] }]
    const app = await createLimitedApp({ rules })
    app.get('/orders/:id', remainingOf)
    const head = await app.inject({ method: 'HEAD', url: '/orders/1' })
    expect(head.headers['x-ratelimit-remaining']).toBe('2')
    expect((await app.inject('/orders/2')).body).toBe('{"remaining":1}')
    await app.inject({ method: 'HEAD', url: '/orders/3' })
    const refused = await app.inject({ method: 'HEAD', url: '/orders/4' })
    expect([refused.statusCode, refused.body]).toEqual([429, ''])
  })

  test('limits requests that no route takes', async () => {
    const app = await createLimitedApp()
    expect(await statusesOf(app, '/nowhere', 3)).toEqual([404, 404, 429])
  })

  test('limits requests for a not-found handler of the user', async () => {
    const app = await createLimitedApp({ rules: [PER_IP], hook: 'preHandler' })
    app.setNotFoundHandler((_request, reply) => reply.code(404).send('nothing here'))
    expect(await statusesOf(app, '/nowhere', 3)).toEqual([404, 404, 429])
  })

  test('counts a request once that a handler passes on to the not-found handler', async () => {
    const app = await createLimitedApp({ rules: [PER_IP], hook: 'preHandler' })
    app.get('/gone', (_request, reply) => reply.callNotFound())
    expect(await statusesOf(app, '/gone', 3)).toEqual([404, 404, 429])
  })

  test('gives rules the pattern of a route as its name', async () => {
    const rules = [{ id: 'per-route', by: ['route'], limits: ['1/hour'] }]
    const app = await createLimitedApp({ rules })
    app.get('/orders/:id', remainingOf)
    app.get('/users/:id', remainingOf)
    app.all('/any/:id', remainingOf)
    expect(await statusesOf(app, '/any/1', 1)).toEqual([200])
    expect((await app.inject({ method: 'PUT', url: '/any/2' })).statusCode).toBe(429)
    expect(await statusesOf(app, '/orders/1', 1)).toEqual([200])
    expect(await statusesOf(app, '/orders/2', 1)).toEqual([429])
    expect(await statusesOf(app, '/users/1', 1)).toEqual([200])
  })

  test('leaves the names of routes to rules that define routes', async () => {
    const rules = {
      routes: ['/orders/*'],
      rules: [{ id: 'per-route', by: ['route'], limits: ['1/hour'] }],
    }
    const app = await createLimitedApp({ rules })
    app.get('/orders/open', remainingOf)
    app.get('/orders/closed', remainingOf)
    expect(await statusesOf(app, '/orders/open', 1)).toEqual([200])
    expect(await statusesOf(app, '/orders/closed', 1)).toEqual([429])
  })

  test('decides before or after authentication, as the hook says', async () => {
    const rules = [{ id: 'per-user', by: ['user'], limits: ['1/hour'] }]
    const attributes = (request: FastifyRequest) => ({ user: request.getDecorator<string>('user') })
    const app = createApp()
    app.decorateRequest('user', '')
    await app.register(sluice, { rules, attributes, hook: 'preHandler', warnings: false })
    app.addHook('preValidation', async (request) => {
      request.setDecorator('user', request.headers.authorization)
    })
    app.get('/', remainingOf)
    const statusOf = async (authorization: string) =>
      (await app.inject({ url: '/', headers: { authorization } })).statusCode
    expect([await statusOf('ann'), await statusOf('bob'), await statusOf('ann')]).toEqual([
      200, 200, 429,
    ])
  })

  test('closes its own limiter with the server, and leaves a given one open', async () => {
    const limiter = createLimiter({ rules: [PER_IP] })
    const given = await createLimitedApp({ limiter })
    given.get('/', remainingOf)
    await given.inject('/')
    await given.close()
    expect((await limiter.check({ attributes: { ip: '192.0.2.1' } })).allowed).toBe(true)
    const own = await createLimitedApp()
    const call = { attributes: { ip: '192.0.2.1' } }
    expect((await own.sluice.limiter.check(call)).allowed).toBe(true)
    await own.close()
    await expect(own.sluice.limiter.check(call)).rejects.toMatchObject({ code: 'LIMITER_CLOSED' })
  })

  test('passes errors of user functions to the error handler', async () => {
    const app = await createLimitedApp({
      rules: [PER_IP],
      attributes: () => Promise.reject(new Error('no user database')),
    })
    app.get('/', remainingOf)
    app.setErrorHandler((error: Error, _request, reply) => reply.code(500).send(error.message))
    expect((await app.inject('/')).body).toBe('no user database')
  })

  test('sends what onRefused returns, with the status and headers of the refusal', async () => {
    const app = await createLimitedApp({
      rules: [{ ...PER_IP, limits: ['1/hour'] }],
      onRefused: async (_request, _reply, decision) => ({ slowDown: decision.rule }),
    })
    app.get('/', remainingOf)
    await app.inject('/')
    const { statusCode, headers, body } = await app.inject('/')
    expect([statusCode, body]).toEqual([429, '{"slowDown":"per-ip"}'])
    expect(headers['retry-after']).toBeDefined()
  })

  test('gives back the units of answers that are not counted', async () => {
    const app = await createLimitedApp({ rules: [PER_IP], count: 'failed' })
    app.get('/good', remainingOf)
    app.get('/bad', (_request, reply) => reply.code(401).send())
    const address = await app.listen({ port: 0, host: '127.0.0.1' })
    const statusOf = async (path: string) => {
      const { status, body } = await fetch(`${address}${path}`)
      await body?.cancel()
      return status
    }
    for (let i = 0; i < 5; i++) expect(await statusOf('/good')).toBe(200)
    expect([await statusOf('/bad'), await statusOf('/bad')]).toEqual([401, 401])
    expect(await statusOf('/good')).toBe(429)
  })

  test('rejects an unknown hook with the accepted ones', async () => {
    const app = createApp()
    const options = { rules: [PER_IP], hook: 'onSend' } as unknown as FastifyOptions
    await expect(app.register(sluice, options)).rejects.toThrow(
      'hook: found onSend; accepted: onRequest, preValidation, preHandler',
    )
  })
})

describe('the config of a Fastify route', () => {
  test('can leave the route without a limit', async () => {
    const app = await createLimitedApp()
    app.get('/health', { config: { sluice: false } }, remainingOf)
    expect(await statusesOf(app, '/health', 4)).toEqual([200, 200, 200, 200])
  })

  test('has its own cost, attributes and skip', async () => {
    const app = await createLimitedApp({
      rules: [
        { id: 'exports', by: ['ip'], match: { where: { kind: 'export' } }, limits: ['4/hour'] },
      ],
    })
    const config = {
      sluice: {
        cost: 3,
        attributes: { kind: 'export' },
        skip: (request: FastifyRequest) => request.headers['x-internal'] === 'yes',
      },
    }
    app.get('/export', { config }, remainingOf)
    app.get('/list', remainingOf)
    expect((await app.inject('/list')).body).toContain('{')
    expect((await app.inject('/export')).body).toBe('{"remaining":1}')
    expect((await app.inject('/export')).statusCode).toBe(429)
    const internal = await app.inject({ url: '/export', headers: { 'x-internal': 'yes' } })
    expect(internal.statusCode).toBe(200)
    expect((await app.inject('/list')).statusCode).toBe(200)
  })

  test('chooses another hook than the plugin, also for a route added before', async () => {
    const order: string[] = []
    const app = createApp()
    const config = { sluice: { hook: 'preHandler' as const } }
    app.get('/late', { config }, remainingOf)
    app.register(sluice, {
      rules: [PER_IP],
      warnings: false,
      onDecision: () => order.push('decision'),
    })
    app.addHook('preValidation', async () => {
      order.push('preValidation')
    })
    app.get('/early', remainingOf)
    await app.inject('/late')
    await app.inject('/early')
    expect(order).toEqual(['preValidation', 'decision', 'decision', 'preValidation'])
  })

  test('is rejected with the name of the route if it is invalid', async () => {
    const app = await createLimitedApp()
    expect(() => app.get('/x', { config: { sluice: { cost: -1 } } }, remainingOf)).toThrow(
      'config.sluice of GET /x.cost: found -1; accepted: a whole number from 0',
    )
  })
})
