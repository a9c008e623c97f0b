/**
 * Every middleware counts a call as in flight from its decision until its answer has been sent, and
 * gives its place back whatever happens.
 */
import { connect, type Socket } from 'node:net'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { createLimiter, type Limiter } from '../../packages/limiter/src/index.js'
import { call } from '../http-call.test-helper.js'
import { ADAPTERS, type App, type RunningAdapter } from './adapters.test-helper.js'

const SOON = { timeout: 20_000, interval: 5 }
const RULES = [{ id: 'in-flight', by: [], limits: [{ algorithm: 'concurrency', max: 1 }] }]

/** Something that happens when the test says so. */
class Signal {
  readonly promise: Promise<void>
  fire: () => void = () => {}

  constructor() {
    this.promise = new Promise((resolve) => {
      this.fire = resolve
    })
  }
}

describe.each(ADAPTERS)('the middleware for %s', (_name, startAdapter) => {
  let running: RunningAdapter | undefined
  let limiter: Limiter
  let client: Socket | undefined

  async function serve(app: App): Promise<number> {
    limiter = createLimiter({ rules: RULES })
    running = await startAdapter({ limiter }, app)
    return running.port
  }

  afterEach(async () => {
    client?.destroy()
    await running?.close()
    await limiter.close()
  })

  /** Begins a request and reads nothing of its answer. */
  function begin(port: number, target: string): Socket {
    client = connect({ host: '127.0.0.1', port })
    client.on('error', () => {})
    client.write(`GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`)
    return client
  }

  const inFlight = () => limiter.inFlight.get('in-flight')?.inFlight ?? 0

  const reach = (count: number) => vi.waitFor(() => expect(inFlight()).toBe(count), SOON)

  const statusOf = async (port: number, target = '/') =>
    (await call(port, target, { from: '127.0.0.1' })).status

  test('holds a place until the answer has been sent', async () => {
    const signal = new Signal()
    const port = await serve(async (url) => {
      if (url === '/slow') await signal.promise
      return { status: 200, body: 'hello' }
    })
    const slow = statusOf(port, '/slow')
    await reach(1)
    expect(await statusOf(port)).toBe(429)
    signal.fire()
    expect(await slow).toBe(200)
    await reach(0)
    expect(await statusOf(port)).toBe(200)
  })

  test('holds a place while the answer is streamed, long after the handler has returned', async () => {
    const signal = new Signal()
    async function* pieces() {
      yield 'first '
      await signal.promise
      yield 'last'
    }
    const port = await serve(async (url) => ({
      status: 200,
      body: url === '/stream' ? pieces() : 'hello',
    }))
    const stream = begin(port, '/stream')
    let received = ''
    stream.on('data', (data: Buffer) => {
      received += String(data)
    })
    while (!received.includes('first')) await new Promise((resolve) => setTimeout(resolve, 5))
    expect(inFlight()).toBe(1)
    expect(await statusOf(port)).toBe(429)
    signal.fire()
    await reach(0)
    while (!received.includes('last')) await new Promise((resolve) => setTimeout(resolve, 5))
    expect(await statusOf(port)).toBe(200)
  })

  test('gives back the place of a client that leaves in the middle of a stream', async () => {
    const signal = new Signal()
    async function* pieces() {
      yield 'first '
      await signal.promise
      yield 'last'
    }
    const port = await serve(async () => ({ status: 200, body: pieces() }))
    const stream = begin(port, '/stream')
    await new Promise((resolve) => stream.once('data', resolve))
    expect(inFlight()).toBe(1)
    stream.destroy()
    await reach(0)
    signal.fire()
  })

  test('gives back the place of a client that leaves before there is an answer', async () => {
    const signal = new Signal()
    const port = await serve(async () => {
      await signal.promise
      return { status: 200, body: 'hello' }
    })
    const gone = begin(port, '/')
    await reach(1)
    gone.destroy()
    await reach(0)
    signal.fire()
  })

  test('gives back the places of requests that wait for the answer to another one', async () => {
    const signal = new Signal()
    const port = await serve(async () => {
      await signal.promise
      return { status: 200, body: 'hello' }
    })
    limiter.setRules([{ ...RULES[0], limits: [{ algorithm: 'concurrency', max: 2 }] }])
    const gone = begin(port, '/')
    gone.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await reach(2)
    gone.destroy()
    signal.fire()
    await reach(0)
  })

  test('gives back the place of a request whose handler fails', async () => {
    const port = await serve(async (url) => {
      if (url === '/throw') throw new Error('a handler that fails')
      return { status: 202, body: '' }
    })
    expect(await statusOf(port, '/throw')).toBe(500)
    await reach(0)
    expect(await statusOf(port)).toBe(202)
    await reach(0)
  })

  test('holds no place for a call that another rule refuses', async () => {
    const port = await serve(async () => ({ status: 200, body: 'hello' }))
    limiter.setRules([...RULES, { id: 'rate', by: [], limits: ['1/day'] }])
    expect([await statusOf(port), await statusOf(port)]).toEqual([200, 429])
    await reach(0)
  })
})
