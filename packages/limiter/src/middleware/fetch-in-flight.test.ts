import { Hono } from 'hono'
import { beforeEach, describe, expect, test } from 'vitest'
import { createLimiter, type Limiter } from '../index.js'
import { sluice } from './fetch.js'
import { sluice as honoSluice } from './hono.js'

type Handler = (request: Request) => Response | Promise<Response>

const RULES = [{ id: 'in-flight', by: [], limits: [{ algorithm: 'concurrency', max: 1 }] }]

let limiter: Limiter
beforeEach(() => {
  limiter = createLimiter({ rules: RULES })
})

const inFlight = () => limiter.inFlight.get('in-flight')?.inFlight

/** The middlewares of runtimes that have no response of Node. */
const WRAPPERS: readonly (readonly [string, (handler: Handler) => Handler])[] = [
  ['fetch', (handler) => sluice({ limiter })((request: Request) => handler(request))],
  [
    'hono',
    (handler) => {
      const app = new Hono()
      app.use(honoSluice({ limiter }))
      app.all('*', (context) => handler(context.req.raw))
      return (request) => app.fetch(request)
    },
  ],
]

const request = (signal?: AbortSignal) =>
  new Request('http://a.example/', signal === undefined ? {} : { signal })

describe.each(WRAPPERS)('the middleware for %s, on a runtime without Node', (_name, wrap) => {
  test('a call is in flight until the body of its answer has been read', async () => {
    const handle = wrap(() => new Response('hello', { status: 201, headers: { 'x-own': 'yes' } }))
    const response = await handle(request())
    expect(inFlight()).toBe(1)
    expect((await handle(request())).status).toBe(429)
    expect(await response.text()).toBe('hello')
    expect([response.status, response.headers.get('x-own')]).toEqual([201, 'yes'])
    expect(inFlight()).toBe(0)
  })

  test('a call is in flight until its stream has ended, and its bytes are unchanged', async () => {
    let end = () => {}
    const handle = wrap(() => {
      const body = new ReadableStream<Uint8Array>({
        start(controller) {
          controller.enqueue(new TextEncoder().encode('first '))
          end = () => {
            controller.enqueue(new TextEncoder().encode('last'))
            controller.close()
          }
        },
      })
      return new Response(body)
    })
    const response = await handle(request())
    const text = response.text()
    await new Promise((resolve) => setImmediate(resolve))
    expect(inFlight()).toBe(1)
    end()
    expect(await text).toBe('first last')
    expect(inFlight()).toBe(0)
  })

  test('a call ends with an answer without a body', async () => {
    const response = await wrap(() => new Response(null, { status: 204 }))(request())
    expect([response.status, inFlight()]).toEqual([204, 0])
  })

  test('a call ends with the answer to HEAD, whose body nobody reads', async () => {
    const handle = wrap(() => new Response('hello'))
    await handle(new Request('http://a.example/', { method: 'HEAD' }))
    expect(inFlight()).toBe(0)
  })

  test('a call ends when its answer is given up, and the handler learns of it', async () => {
    let reason: unknown
    const handle = wrap(() => {
      const body = new ReadableStream({
        cancel(given) {
          reason = given
        },
      })
      return new Response(body)
    })
    const response = await handle(request())
    await response.body?.cancel('enough')
    expect([inFlight(), reason]).toEqual([0, 'enough'])
  })

  test('a call ends when its stream fails', async () => {
    const handle = wrap(() => {
      const body = new ReadableStream({
        pull(controller) {
          controller.error(new Error('broken'))
        },
      })
      return new Response(body)
    })
    const response = await handle(request())
    await expect(response.text()).rejects.toThrow('broken')
    expect(inFlight()).toBe(0)
  })

  test('a call ends when its client leaves, before or after there is an answer', async () => {
    const leaving = new AbortController()
    let isServing = () => {}
    const serving = new Promise<void>((resolve) => {
      isServing = resolve
    })
    void wrap(() => {
      isServing()
      return new Promise<Response>(() => {})
    })(request(leaving.signal))
    await serving
    expect(inFlight()).toBe(1)
    leaving.abort()
    expect(inFlight()).toBe(0)
    const later = new AbortController()
    await wrap(() => new Response('hello'))(request(later.signal))
    expect(inFlight()).toBe(1)
    later.abort()
    expect(inFlight()).toBe(0)
  })

  test('a call ends when an answer that was read already is returned', async () => {
    const handle = wrap(async () => {
      const response = new Response('hello')
      await response.text()
      return response
    })
    await handle(request())
    expect(inFlight()).toBe(0)
  })
})

test('a call that a handler fails to answer has ended', async () => {
  const handle = sluice({ limiter })(() => {
    throw new Error('broken')
  })
  await expect(handle(request())).rejects.toThrow('broken')
  expect(inFlight()).toBe(0)
})

test('a request that was checked is in flight until it is finished', async () => {
  const limited = sluice({ limiter })
  const { response, finish } = await limited.check(request())
  expect(response).toBeUndefined()
  expect((await limited.check(request())).response?.status).toBe(429)
  await finish(new Response('hello')).text()
  expect(inFlight()).toBe(0)
})

describe('a request that is a reservation, on a runtime without Node', () => {
  const rules = [
    ...RULES,
    {
      id: 'tokens',
      by: [],
      limits: [{ algorithm: 'fixed-window', max: 1000, window: '1h' }],
      cost: { attribute: 'tokens' },
    },
  ]
  const attributes = () => ({ tokens: 100 })
  const left = async () => (await limiter.limits({ attributes: {} })).at(-1)?.remaining
  const ended = () => new Promise((resolve) => setImmediate(resolve))

  beforeEach(() => {
    limiter = createLimiter({ rules })
  })

  test('is in flight until its stream has ended, and is settled by it', async () => {
    const limited = sluice({ limiter, reserve: true, attributes })
    let finish = () => {}
    const isFinished = new Promise<void>((resolve) => {
      finish = resolve
    })
    const handle = limited((_request: Request, decision) => {
      const body = new ReadableStream({
        async pull(controller) {
          await isFinished
          await decision?.settle?.(30)
          controller.close()
        },
      })
      return new Response(body)
    })
    const response = await handle(request())
    await ended()
    expect([inFlight(), (await handle(request())).status]).toEqual([1, 429])
    finish()
    await response.text()
    await ended()
    expect([inFlight(), await left()]).toEqual([0, 970])
  })

  test('keeps its reserve if nobody settles it, and its place until the body was read', async () => {
    const handle = sluice({ limiter, reserve: true, attributes })(() => new Response('hello'))
    const response = await handle(request())
    await ended()
    expect(inFlight()).toBe(1)
    await response.text()
    await ended()
    expect([inFlight(), await left()]).toEqual([0, 900])
  })

  test('is given back at its end if it does not count, also by a function that answers late', async () => {
    let answer = (_isCounted: boolean) => {}
    const count = () =>
      new Promise<boolean>((resolve) => {
        answer = resolve
      })
    const limited = sluice({ limiter, reserve: true, attributes, count })
    const response = await limited(() => new Response('hello'))(request())
    await response.text()
    await ended()
    expect([inFlight(), await left()]).toEqual([1, 900])
    answer(false)
    await ended()
    expect([inFlight(), await left()]).toEqual([0, 1000])
  })

  test('ends once its client has left, and stays counted', async () => {
    const leaving = new AbortController()
    const handle = sluice({ limiter, reserve: true, attributes })(() => new Response('hello'))
    await handle(request(leaving.signal))
    await ended()
    leaving.abort()
    await ended()
    expect([inFlight(), await left()]).toEqual([0, 900])
  })
})
