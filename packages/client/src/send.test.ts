import { describe, expect, test } from 'vitest'
import { AdminError, createAdminClient, type Fetch, UnreachableError } from './index.js'
import { closeAfterTests, startServer } from './stub-server.test-helper.js'

closeAfterTests()

const problem = (status: number, more: object) => ({
  status,
  headers: { 'content-type': 'application/problem+json' },
  body: { type: 'about:blank', title: 'A title', status, ...more },
})

/** A client whose waits are recorded and end at once. */
function clientOf(url: string, retries?: number) {
  const waits: number[] = []
  const wait = async (ms: number) => void waits.push(ms)
  return { client: createAdminClient({ url, token: 't0', retries, wait }), waits }
}

const failureOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  )

describe('an error response', () => {
  test('becomes an AdminError with its code, its detail and the current version', async () => {
    const server = await startServer(
      problem(409, { error: 'version_conflict', detail: 'now at 7', version: 7 }),
    )
    const error = await failureOf(clientOf(server.url).client.rollback(3, { ifMatch: 6 }))
    expect(error).toBeInstanceOf(AdminError)
    expect(error).toMatchObject({
      status: 409,
      code: 'version_conflict',
      detail: 'now at 7',
      message: 'now at 7',
      version: 7,
      errors: [],
    })
  })

  test('carries the problems of rules, each with its place', async () => {
    const errors = [{ code: 'bad-limit', message: 'a.yaml:1:2: bad', field: 'limits[0]' }]
    const server = await startServer(
      problem(400, { error: 'rules_invalid', detail: '1 error', errors: [...errors, 'junk'] }),
    )
    const error = await failureOf(clientOf(server.url).client.applyRules('x'))
    expect(error).toMatchObject({ code: 'rules_invalid', errors })
  })

  test('without a problem body reports so, and names the address', async () => {
    const server = await startServer({ status: 404, body: '<h1>nothing here</h1>' })
    const error = await failureOf(clientOf(server.url).client.listRules())
    expect(error).toMatchObject({
      status: 404,
      code: 'unexpected',
      message: `${server.url} answered 404 (<h1>nothing here</h1>), which is no answer of the admin API. Is this the admin listener of Sluice?`,
    })
  })

  test('is also a 2xx response that is not JSON', async () => {
    const server = await startServer({ body: 'hello' })
    const error = await failureOf(clientOf(server.url).client.listRules())
    expect(error).toMatchObject({ code: 'unexpected', status: 200 })
  })

  test('is also a redirect: the token does not follow it', async () => {
    const other = await startServer({})
    const server = await startServer({ status: 307, headers: { location: `${other.url}/x` } })
    const error = await failureOf(clientOf(server.url).client.listRules())
    expect(error).toMatchObject({ code: 'unexpected', status: 307 })
    expect(other.requests).toEqual([])
  })
})

describe('a client that receives 429 with Retry-After', () => {
  const tooMany = (after?: string) => ({
    ...problem(429, { error: 'rate_limited', detail: 'slowly' }),
    headers: after === undefined ? {} : { 'retry-after': after },
  })

  test('waits for that time, and sends the same request again', async () => {
    const server = await startServer(tooMany('2'), tooMany(), { body: { version: 8, diff: {} } })
    const { client, waits } = clientOf(server.url)
    expect(await client.rollback(3)).toMatchObject({ version: 8 })
    expect(waits).toEqual([2000, 1000])
    expect(server.requests.map(({ body }) => body)).toEqual(Array(3).fill('{"version":3}'))
  })

  test('gives up after three retries, or after as many as its options set', async () => {
    const server = await startServer(tooMany('1'))
    const { client, waits } = clientOf(server.url)
    expect(await failureOf(client.listRules())).toMatchObject({ status: 429 })
    expect(waits).toEqual([1000, 1000, 1000])
    const never = clientOf(server.url, 0)
    expect(await failureOf(never.client.listRules())).toMatchObject({ code: 'rate_limited' })
    expect(never.waits).toEqual([])
  })

  test('does not wait longer than half a minute', async () => {
    const server = await startServer(tooMany('31'))
    const { client, waits } = clientOf(server.url)
    expect(await failureOf(client.listRules())).toMatchObject({ status: 429 })
    expect(waits).toEqual([])
  })

  test('does not retry a 503', async () => {
    const server = await startServer({
      ...problem(503, { error: 'rules_unavailable', detail: 'gone' }),
      headers: { 'retry-after': '1' },
    })
    expect(await failureOf(clientOf(server.url).client.rollback(3))).toMatchObject({ status: 503 })
    expect(server.requests).toHaveLength(1)
  })
})

describe('a server that does not answer', () => {
  test('is named in the error, with what to do', async () => {
    const server = await startServer({})
    await server.close()
    const error = await failureOf(clientOf(server.url).client.rollback(3))
    expect(error).toBeInstanceOf(UnreachableError)
    expect(error).toMatchObject({
      isUncertain: false,
      message: `Could not reach the admin API at ${server.url}: ECONNREFUSED. Is \`sluice serve\` running, and is this the address of its admin listener?`,
    })
  })

  test('during a change leaves its result unknown, and the change is not sent again', async () => {
    const server = await startServer({ drop: true })
    const error = await failureOf(clientOf(server.url).client.rollback(3))
    expect(error).toMatchObject({
      isUncertain: true,
      message: expect.stringContaining('Whether the change was made is not known'),
    })
    expect(server.requests).toHaveLength(1)
  })

  test('during a read changes nothing', async () => {
    const server = await startServer({ drop: true })
    expect(await failureOf(clientOf(server.url).client.listRules())).toMatchObject({
      isUncertain: false,
    })
  })

  test('by the timeout is reported as a timeout', async () => {
    const fetch: Fetch = (_url, { signal }) =>
      new Promise((_resolve, reject) => {
        signal?.addEventListener('abort', () => reject(signal.reason as Error))
      })
    const client = createAdminClient({ url: 'http://127.0.0.1', fetch, timeoutMs: 1 })
    const error = await failureOf(client.rollback(3))
    expect(error).toMatchObject({
      isUncertain: true,
      message: expect.stringContaining('no answer within 0.001 s'),
    })
  })
})

test('a response without end is cut, and the error reports it', async () => {
  let chunks = 0
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      chunks++
      controller.enqueue(new Uint8Array(8 * 1024 * 1024))
    },
  })
  const fetch: Fetch = async () => new Response(body)
  const client = createAdminClient({ url: 'http://127.0.0.1', fetch })
  const error = await failureOf(client.exportRules())
  expect(error).toMatchObject({ message: expect.stringContaining('more than 64 MiB') })
  expect(chunks).toBeLessThan(12)
})
