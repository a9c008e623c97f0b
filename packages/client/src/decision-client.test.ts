/** Requests and failures, against scripted servers. e2e/decision-client.test.ts has a real one. */
import { getEventListeners } from 'node:events'
import { describe, expect, test } from 'vitest'
import {
  createDecisionClient,
  type DecisionClient,
  DecisionError,
  type Fetch,
  InputError,
  UnreachableError,
} from './index.js'
import { closeAfterTests, startServer } from './stub-server.test-helper.js'

closeAfterTests()

const call = { attributes: { user: 'u1' } }

type Row = readonly [string, object, (client: DecisionClient) => Promise<unknown>]

const REQUESTS: readonly Row[] = [
  [
    'check',
    { ...call, cost: 2, receipt: true },
    (c) => c.check({ ...call, cost: 2, receipt: true }),
  ],
  ['check', [call, call], (c) => c.checkMany([call, call])],
  ['peek', call, (c) => c.peek({ ...call, cost: undefined })],
  ['peek', [call], (c) => c.peekMany([call])],
  ['explain', call, (c) => c.explain(call)],
  ['refund', { receipt: '1~x' }, (c) => c.refund({ receipt: '1~x' })],
  ['refund', call, (c) => c.refund(call)],
  ['reset', { ...call, rule: 'per-user' }, (c) => c.reset({ ...call, rule: 'per-user' })],
]

const failureOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  )

/** A fetch that ends only by its signal. */
const silence: Fetch = (_url, { signal }) =>
  new Promise((_resolve, reject) => {
    signal?.addEventListener('abort', () => reject(signal.reason as Error))
  })

describe('a method of the decision client', () => {
  test.each(REQUESTS)('sends its body to /v1/%s, with the token', async (verb, body, send) => {
    const server = await startServer({ status: 500 })
    await failureOf(send(createDecisionClient({ url: `${server.url}/`, token: 't0' })))
    expect(server.requests).toMatchObject([
      { method: 'POST', url: `/v1/${verb}`, headers: { authorization: 'Bearer t0' } },
    ])
    expect(JSON.parse(server.requests[0]?.body ?? '')).toEqual(body)
  })

  test.each(REQUESTS)(
    'refuses the echo of another server as the response to %s of %j',
    async (_verb, _body, send) => {
      for (const body of [{ from: 'an upstream' }, 'hello', [], [{}], [{}, {}]]) {
        const server = await startServer({ body })
        const error = await failureOf(send(createDecisionClient({ url: server.url })))
        expect(error).toBeInstanceOf(DecisionError)
        expect(error).toMatchObject({
          code: 'unexpected',
          message: expect.stringContaining('Is this the decision listener of Sluice?'),
        })
      }
    },
  )

  test('sends no Authorization without a token', async () => {
    const server = await startServer({ body: { allowed: true } })
    await createDecisionClient({ url: server.url }).check(call)
    expect(server.requests[0]?.headers['authorization']).toBeUndefined()
  })

  test('refuses a number that JSON would write as null, and sends nothing', async () => {
    const server = await startServer({ body: { allowed: true } })
    const client = createDecisionClient({ url: server.url })
    const error = await failureOf(client.check({ attributes: { user: Number.NaN } }))
    expect(error).toBeInstanceOf(InputError)
    expect(error).toMatchObject({ message: 'user: found NaN; accepted: a finite number' })
    const loop: Record<string, unknown> = {}
    loop['attributes'] = loop
    expect(await failureOf(client.check(loop as typeof call))).toBeInstanceOf(InputError)
    expect(server.requests).toEqual([])
  })
})

describe('a problem of the decision API', () => {
  const problem = { type: 'about:blank', title: 'Bad Request', status: 400 }

  test('becomes a DecisionError with its status, code and detail', async () => {
    const body = { ...problem, detail: 'no path', error: 'CALL_PATH_INVALID' }
    const server = await startServer({ status: 400, body })
    const error = await failureOf(createDecisionClient({ url: server.url }).check(call))
    expect(error).toBeInstanceOf(DecisionError)
    expect(error).toMatchObject({
      status: 400,
      code: 'CALL_PATH_INVALID',
      detail: 'no path',
      message: 'no path',
    })
  })

  test('of one call of a list is the result of that call', async () => {
    const body = [{ allowed: true }, { ...problem, detail: 'no path', error: 'CALL_PATH_INVALID' }]
    const server = await startServer({ body })
    const results = await createDecisionClient({ url: server.url }).checkMany([call, call])
    expect(results[0]).toEqual({ allowed: true })
    expect(results[1]).toBeInstanceOf(DecisionError)
    expect(results[1]).toMatchObject({ status: 400, code: 'CALL_PATH_INVALID' })
  })

  test('is also a redirect: the token does not follow it', async () => {
    const other = await startServer({ body: { allowed: true } })
    const server = await startServer({ status: 307, headers: { location: `${other.url}/x` } })
    const client = createDecisionClient({ url: server.url, token: 't0' })
    expect(await failureOf(client.check(call))).toMatchObject({ code: 'unexpected', status: 307 })
    expect(other.requests).toEqual([])
  })
})

describe('a decision API that does not answer', () => {
  test('is named in the error, with what to do', async () => {
    const server = await startServer({})
    await server.close()
    const error = await failureOf(createDecisionClient({ url: server.url }).check(call))
    expect(error).toBeInstanceOf(UnreachableError)
    expect(error).toMatchObject({
      isUncertain: false,
      message: `Could not reach the decision API at ${server.url}: ECONNREFUSED. Is \`sluice serve\` running, and is this the address of its decision listener?`,
    })
  })

  test('leaves unknown whether a check was counted, which is not sent again', async () => {
    const server = await startServer({ drop: true })
    const client = createDecisionClient({ url: server.url })
    expect(await failureOf(client.check(call))).toMatchObject({
      isUncertain: true,
      message: expect.stringContaining('Whether the call was counted is not known'),
    })
    expect(server.requests).toHaveLength(1)
    expect(await failureOf(client.peek(call))).toMatchObject({ isUncertain: false })
  })

  test('within the timeout of the client, or of the request, is reported as a timeout', async () => {
    const client = createDecisionClient({ url: 'http://127.0.0.1', fetch: silence, timeoutMs: 2 })
    expect(await failureOf(client.check(call))).toMatchObject({
      name: 'UnreachableError',
      message: expect.stringContaining('no answer within 0.002 s'),
    })
    expect(await failureOf(client.check(call, { timeoutMs: 1 }))).toMatchObject({
      message: expect.stringContaining('no answer within 0.001 s'),
    })
  })
})

describe('a signal', () => {
  test('ends all requests that it was given to, by one listener', async () => {
    const controller = new AbortController()
    const { signal } = controller
    const client = createDecisionClient({ url: 'http://127.0.0.1:1', fetch: silence })
    const failures = Array.from({ length: 20 }, () => failureOf(client.check(call, { signal })))
    expect(getEventListeners(signal, 'abort')).toHaveLength(1)
    controller.abort('shutdown')
    expect(new Set(await Promise.all(failures))).toEqual(new Set(['shutdown']))
  })

  test('that outlives a request keeps nothing of it', async () => {
    const signals: (AbortSignal | null | undefined)[] = []
    const fetch: Fetch = (_url, { signal }) => {
      signals.push(signal)
      return Promise.resolve(new Response('{"allowed":true}'))
    }
    const controller = new AbortController()
    const client = createDecisionClient({ url: 'http://127.0.0.1:1', fetch })
    await client.check(call, { signal: controller.signal })
    controller.abort()
    expect(signals.map((signal) => signal?.aborted)).toEqual([false])
  })

  test('ends a request, whose promise is rejected with the reason of the signal', async () => {
    const client = createDecisionClient({ url: 'http://127.0.0.1', fetch: silence })
    const controller = new AbortController()
    const failure = failureOf(client.check(call, { signal: controller.signal }))
    const reason = new Error('the caller left')
    controller.abort(reason)
    expect(await failure).toBe(reason)
  })

  test('that is aborted already prevents the request', async () => {
    const server = await startServer({ body: { allowed: true } })
    const client = createDecisionClient({ url: server.url })
    const error = await failureOf(client.check(call, { signal: AbortSignal.abort() }))
    expect(error).toMatchObject({ name: 'AbortError' })
    expect(server.requests).toEqual([])
  })
})

test('the address of a decision client is checked before a token is sent there', () => {
  expect(() => createDecisionClient({ url: 'localhost:8081' })).toThrow(
    'accepted: http:// or https:// and a host, as in http://127.0.0.1:8081',
  )
  expect(() => createDecisionClient({ url: 'http://10.0.0.1', token: 't0' })).toThrow(InputError)
})

test.each([Number.NaN, -1, Number.POSITIVE_INFINITY])(
  'a time limit of %s ms is refused with its name',
  async (timeoutMs) => {
    const client = createDecisionClient({ url: 'http://127.0.0.1:1', timeoutMs, fetch: silence })
    const error = await failureOf(client.check(call))
    expect(error).toBeInstanceOf(InputError)
    expect(error).toMatchObject({
      message: `timeoutMs: found ${timeoutMs}; accepted: 0 to 2147483647`,
    })
  },
)
