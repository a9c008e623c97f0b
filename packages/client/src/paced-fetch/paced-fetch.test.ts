import { readFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import fc from 'fast-check'
import { describe, expect, test, vi } from 'vitest'
import { propertyRuns } from '../../../../tools/property-runs.js'
import { createPacedFetch } from './paced-fetch.js'
import type { PacedFetchOptions } from './paced-fetch-options.js'
import { createRandom, createVirtualClock } from './virtual-clock.test-helper.js'

const START = 1_795_000_000_000
const URL_ = 'https://api.example.com/orders'

interface Reply {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly error?: Error
}

/** A paced fetch whose server answers with the given replies in turn, the last one again. */
function setUp(replies: readonly Reply[], options: PacedFetchOptions = {}) {
  const clock = createVirtualClock(START)
  const sentAt: number[] = []
  const send = (_: unknown, init?: RequestInit) =>
    new Promise<Response>((resolve, reject) => {
      const reply = replies[Math.min(sentAt.length, replies.length - 1)] ?? {}
      sentAt.push(clock.now() - START)
      init?.signal?.addEventListener('abort', () => reject(init.signal?.reason))
      clock.after(10, () => {
        if (reply.error) reject(reply.error)
        else {
          const { status = 200, headers = {} } = reply
          resolve(new Response('', { status, headers }))
        }
      })
    })
  const paced = createPacedFetch(send, { clock, random: createRandom(1), ...options })
  return { clock, sentAt, paced, run: (ms: number) => clock.runTo(START + ms) }
}

const limit = (left: number, seconds: number) => ({
  headers: { 'RateLimit-Policy': '"a";q=100;w=10', RateLimit: `"a";r=${left};t=${seconds}` },
})
const refusal = { status: 429, headers: { 'Retry-After': '2' } }

/** For what digests and channels do, whose time is not virtual. */
const eventually = (check: () => void | Promise<void>) => vi.waitFor(check, { timeout: 30_000 })

interface PacingCase {
  readonly comment: string
  readonly answers: readonly (Reply & { readonly atMs: number })[]
  readonly notBeforeMs: number
  readonly byMs: number
}

const file = new URL('../../../../conformance/client/pacing.json', import.meta.url)
const { cases } = JSON.parse(readFileSync(file, 'utf8')) as {
  readonly cases: readonly PacingCase[]
}

describe('the pacing cases of conformance/client', () => {
  test.each(cases)('are kept: $comment', async ({ answers, notBeforeMs, byMs }) => {
    const { paced, sentAt, run } = setUp(answers, { retries: 0 })
    for (const { atMs } of answers) {
      // The first answer arrives 10 ms after its call.
      await run(atMs)
      void paced(URL_)
      await run(atMs + 10)
    }
    const before = sentAt.length
    expect(before).toBe(answers.length)
    void paced(URL_)
    await run(byMs + 10)
    expect(sentAt).toHaveLength(before + 1)
    expect((sentAt.at(-1) ?? 0) - 10).toBeGreaterThanOrEqual(notBeforeMs)
  })
})

describe('createPacedFetch', () => {
  test('returns the response of a call', async () => {
    const { paced, run } = setUp([limit(90, 5)])
    const response = paced(URL_)
    await run(100)
    expect((await response).status).toBe(200)
    expect(paced.stats()).toEqual({
      sent: 1,
      answered: 1,
      refused: 0,
      retried: 0,
      dropped: 0,
      waiting: 0,
      inFlight: 0,
    })
  })

  test('sends one call until the first answer, then several at once', async () => {
    const { paced, sentAt, run } = setUp([{}])
    for (let i = 0; i < 5; i++) void paced(URL_)
    await run(9)
    expect(sentAt).toEqual([0])
    await run(30)
    expect(sentAt).toEqual([0, 10, 10, 10, 10])
  })

  test('retries an idempotent call after Retry-After and jitter', async () => {
    const { paced, sentAt, run } = setUp([refusal, {}])
    const response = paced(URL_)
    await run(5000)
    expect((await response).status).toBe(200)
    expect(sentAt).toHaveLength(2)
    expect(sentAt[1]).toBeGreaterThanOrEqual(2010)
    expect(sentAt[1]).toBeLessThan(3020)
    expect(paced.stats()).toMatchObject({ refused: 1, retried: 1 })
  })

  test('returns the refusal of a POST, and retries one with an Idempotency-Key', async () => {
    const first = setUp([refusal, {}])
    const refused = first.paced(URL_, { method: 'POST', body: 'a' })
    await first.run(5000)
    expect((await refused).status).toBe(429)
    const second = setUp([refusal, {}])
    const headers = { 'Idempotency-Key': 'k' }
    const retried = second.paced(URL_, { method: 'POST', body: 'a', headers })
    await second.run(5000)
    expect((await retried).status).toBe(200)
  })

  test.each([
    ['a stream', () => new Blob(['a']).stream()],
    ['a stream of Node', () => Readable.from(['a'])],
    [
      'made by a generator',
      async function* body() {
        yield 'a'
      },
    ],
  ])('does not retry a body that is %s, because it can be read once', async (_, body) => {
    const { paced, run, sentAt } = setUp([refusal, {}])
    const response = paced(URL_, {
      method: 'PUT',
      body: body() as unknown as ReadableStream,
      duplex: 'half',
    })
    await run(5000)
    expect((await response).status).toBe(429)
    expect(sentAt).toHaveLength(1)
  })

  test.each([undefined, 1000])(
    'takes a Request as its second argument like fetch, with a deadline of %s',
    async (deadlineMs) => {
      const sent: Request[] = []
      const paced = createPacedFetch(
        async (input, init) => {
          sent.push(new Request(input, init))
          return new Response()
        },
        { deadlineMs },
      )
      await paced(URL_, new Request('https://a.example.com', { method: 'POST', body: 'a' }))
      expect(sent[0]).toMatchObject({ url: URL_, method: 'POST' })
      expect(await sent[0]?.text()).toBe('a')
    },
  )

  test('retries a call that failed, and gives up with its error', async () => {
    const { paced, sentAt, run } = setUp([{ error: new TypeError('network') }])
    const response = paced(URL_).catch((error: unknown) => error)
    await run(60_000)
    expect(await response).toEqual(new TypeError('network'))
    expect(sentAt).toHaveLength(4)
  })

  test('spends no more retries than its budget', async () => {
    const { paced, sentAt, run } = setUp([{ status: 503 }], { retries: 100 })
    const response = paced(URL_)
    await run(3_600_000)
    expect((await response).status).toBe(503)
    expect(sentAt).toHaveLength(11)
  })

  test('fills its budget of retries again by every answer that needs none', async () => {
    const lost = Array.from({ length: 11 }, () => ({ status: 503 }))
    const found = Array.from({ length: 20 }, () => ({ status: 404 }))
    const { paced, sentAt, run } = setUp([...lost, ...found, { status: 503 }, {}], { retries: 10 })
    void paced(URL_)
    await run(3_600_000)
    expect(sentAt).toHaveLength(11)
    for (let i = 0; i < 20; i++) void paced(URL_)
    await run(3_700_000)
    const response = paced(URL_)
    await run(3_800_000)
    expect((await response).status).toBe(200)
  })

  test('has a budget of retries for each key, so that a lost server costs others none', async () => {
    const { paced, sentAt, run } = setUp([{ status: 503 }], { retries: 10 })
    void paced(URL_)
    await run(3_600_000)
    void paced('https://other.example.com/')
    await run(7_200_000)
    expect(sentAt).toHaveLength(22)
  })

  test('forgets the keys that were used least lately, and none that has calls', async () => {
    const { paced, sentAt, run } = setUp([limit(0, 10), {}])
    void paced(URL_)
    await run(10)
    const held = paced(URL_)
    for (let i = 0; i < 1200; i++) void paced(`https://${i}.example.com/`)
    await run(1000)
    expect(sentAt).toHaveLength(1201)
    void paced(URL_)
    await run(2000)
    expect(sentAt).toHaveLength(1201)
    expect(paced.stats().waiting).toBe(2)
    await run(1_000_000)
    expect((await held).status).toBe(200)
  })

  test('refuses calls beyond its queue at once', async () => {
    const { paced, run } = setUp([limit(0, 10)], { maxQueue: 1 })
    void paced(URL_)
    await run(10)
    void paced(URL_)
    await expect(paced(URL_)).rejects.toMatchObject({ code: 'queue_full' })
    expect(paced.stats()).toMatchObject({ waiting: 1, dropped: 1 })
  })

  test('ends a call that waits at its deadline', async () => {
    const { paced, run } = setUp([limit(0, 10)])
    void paced(URL_)
    await run(10)
    const late = paced(URL_, { pace: { deadlineMs: 500 } }).catch((error: unknown) => error)
    await run(600)
    expect(await late).toMatchObject({ code: 'deadline', message: 'No response within 500 ms.' })
    expect(paced.stats().waiting).toBe(0)
  })

  test('ends a call in flight at its deadline, also if fetch ignores the signal', async () => {
    const clock = createVirtualClock(START)
    const paced = createPacedFetch(() => new Promise(() => {}), { clock })
    const late = paced(URL_, { pace: { deadlineMs: 500 } }).catch((error: unknown) => error)
    await clock.runTo(START + 600)
    expect(paced.stats()).toMatchObject({ inFlight: 0, dropped: 1 })
    expect(await late).toMatchObject({ code: 'deadline' })
  })

  test('leaves no timer behind when the only waiting call is aborted', async () => {
    const { paced, run, clock } = setUp([limit(0, 10)])
    void paced(URL_)
    await run(10)
    const timers = new Set<() => void>()
    vi.spyOn(clock, 'after').mockImplementation((_, callback) => {
      timers.add(callback)
      return () => void timers.delete(callback)
    })
    const controller = new AbortController()
    const call = paced(URL_, { signal: controller.signal }).catch((error: unknown) => error)
    await run(20)
    expect(timers.size).toBe(1)
    controller.abort()
    await call
    expect(timers.size).toBe(0)
  })

  test('returns a refusal at once if the deadline is before the retry', async () => {
    const { paced, run } = setUp([refusal])
    const response = paced(URL_, { pace: { deadlineMs: 1000 } })
    await run(20)
    expect((await response).status).toBe(429)
  })

  test.each([
    ['in the queue', [limit(0, 10)], 20],
    ['in flight', [limit(50, 5)], 5],
    ['before a retry', [refusal], 500],
  ])('ends an aborted call %s with the reason of its signal', async (place, replies, atMs) => {
    const { paced, run } = setUp(replies)
    if (place === 'in the queue') void paced(URL_)
    await run(place === 'in the queue' ? 10 : 0)
    const controller = new AbortController()
    const call = paced(URL_, { signal: controller.signal }).catch((error: unknown) => error)
    await run(atMs)
    controller.abort(new Error('enough'))
    expect(await call).toEqual(new Error('enough'))
    expect(paced.stats()).toMatchObject({ waiting: 0, inFlight: 0 })
  })

  test('sends calls of a higher priority first', async () => {
    const order: number[] = []
    const { paced, run } = setUp([{}], { maxInFlight: 1 })
    for (const priority of [0, 1, 5, 1]) {
      void paced(URL_, { pace: { priority } }).then(() => order.push(priority))
    }
    await run(100)
    expect(order).toEqual([0, 5, 1, 1])
  })

  test('keeps apart the paces of origins, credentials and routes', async () => {
    const { paced, sentAt, run } = setUp([limit(0, 10), {}])
    void paced(URL_)
    await run(10)
    void paced('https://other.example.com/orders')
    void paced(URL_, { headers: { Authorization: 'Bearer b' } })
    void paced(URL_)
    await run(100)
    expect(sentAt).toHaveLength(3)
  })

  test('reports what happens to listeners until they leave', async () => {
    const { paced, run } = setUp([refusal, {}])
    const events: string[] = []
    const names = ['queued', 'sent', 'answered', 'refused', 'retried'] as const
    const stops = names.map((name) => paced.on(name, () => events.push(name)))
    void paced(URL_)
    await run(5000)
    const all = ['sent', 'answered', 'refused', 'retried', 'sent', 'answered']
    expect(events).toEqual(all)
    for (const stop of stops) stop()
    void paced(URL_)
    await run(6000)
    expect(events).toEqual(all)
  })

  test.each(['queued', 'sent', 'answered', 'refused', 'retried'] as const)(
    'goes on as before if a listener of "%s" throws',
    async (name) => {
      const { paced, sentAt, run } = setUp([refusal, limit(1, 1), {}])
      paced.on(name, () => {
        throw new Error('mistake in a listener')
      })
      const errors = vi.spyOn(console, 'error').mockReturnValue()
      const responses = Promise.all([paced(URL_), paced(URL_)])
      await run(60_000)
      expect((await responses).map(({ status }) => status)).toEqual([200, 200])
      expect(sentAt).toHaveLength(3)
      expect(paced.stats()).toMatchObject({ waiting: 0, inFlight: 0 })
      expect(errors).toHaveBeenCalledWith(
        `paced fetch: listener of "${name}" failed`,
        new Error('mistake in a listener'),
      )
      errors.mockRestore()
    },
  )

  test('counts a call before listeners hear of it, so that they may call in turn', async () => {
    const { paced, sentAt, run } = setUp([limit(50, 10)])
    void paced(URL_)
    await run(1000)
    const stop = paced.on('sent', () => {
      stop()
      void paced(URL_)
    })
    void paced(URL_)
    await run(1050)
    expect(sentAt).toHaveLength(2)
    await run(10_000)
    expect(sentAt).toHaveLength(3)
  })

  test('keeps apart credentials whose short hashes or joined texts are equal', async () => {
    const { paced, sentAt, run } = setUp([limit(0, 10), {}])
    void paced(URL_, { headers: { 'X-Api-Key': 'Aa' } })
    await run(10)
    void paced(URL_, { headers: { 'X-Api-Key': 'BB' } })
    void paced(URL_, { headers: { 'Api-Key': 'Aa' } })
    await run(100)
    expect(sentAt).toHaveLength(3)
  })

  test('shows no credentials in events and errors', async () => {
    const { paced, run } = setUp([limit(0, 10)], { maxQueue: 0 })
    const keys: string[] = []
    paced.on('answered', ({ key }) => keys.push(key))
    const init = { headers: { Authorization: 'Bearer secret' } }
    const error = await paced(URL_, init).catch((reason: unknown) => reason)
    await run(10)
    expect(String(error)).not.toContain('secret')
    expect(keys.join('')).not.toContain('secret')
  })

  describe('with a channel between tabs', { timeout: 60_000 }, () => {
    test('goes on alone after it was closed', async () => {
      const { paced, sentAt, run } = setUp([limit(90, 10)], { channel: 'closed' })
      let ms = 0
      paced.close()
      const response = paced(URL_)
      await eventually(async () => {
        await run((ms += 100))
        expect(sentAt).toHaveLength(1)
      })
      await run(60_000)
      expect((await response).status).toBe(200)
      expect(sentAt).toHaveLength(1)
    })

    test('learns from other tabs, and ignores messages that are malformed', async () => {
      const init = { headers: { Authorization: 'Bearer secret' } }
      const channel = new BroadcastChannel('tabs')
      const messages: unknown[] = []
      channel.onmessage = (event) => messages.push((event as MessageEvent).data)
      const first = setUp([limit(0, 10)], { channel: 'tabs' })
      const second = setUp([{}], { channel: 'tabs' })
      let ms = 0
      void first.paced(URL_, init)
      await eventually(async () => {
        await first.run((ms += 10))
        expect(messages).toHaveLength(1)
      })
      expect(JSON.stringify(messages)).not.toContain('secret')
      const good = messages[0] as { readonly policies: readonly object[] }
      const policies = [
        null,
        {},
        ...[{ remaining: Number.NaN }, { resetMs: -1 }, { windowMs: '9' }, { kind: 'new' }].map(
          (bad) => ({ ...good.policies[0], ...bad }),
        ),
      ].map((policy) => ({ ...good, policies: [policy] }))
      const others = [null, 7, {}, { policies: null }, { route: 7 }, { key: 7 }]
      for (const bad of [
        ...policies,
        ...others.map((other) =>
          typeof other === 'object' && other ? { ...good, ...other } : other,
        ),
      ]) {
        channel.postMessage(bad)
      }
      void second.paced(URL_)
      await eventually(async () => {
        await second.run(0)
        expect(second.sentAt).toHaveLength(1)
      })
      const held = second.paced(URL_, init)
      await eventually(() => expect(second.paced.stats().waiting).toBe(1))
      await second.run(9000)
      expect(second.sentAt).toHaveLength(1)
      await second.run(20_000)
      expect((await held).status).toBe(200)
      for (const one of [first.paced, second.paced, channel]) one.close()
    })
  })

  test('reads instants by the date of the system, although its own time stood still in sleep', async () => {
    const hourMs = 3_600_000
    const reset = String((START + 8 * hourMs) / 1000 + 5)
    const headers = { 'X-RateLimit-Limit': '60', 'X-RateLimit-Remaining': '0' }
    const { paced, sentAt, run, clock } = setUp([
      { headers: { ...headers, 'X-RateLimit-Reset': reset } },
    ])
    clock.date = () => clock.now() + 8 * hourMs
    void paced(URL_)
    await run(10)
    void paced(URL_)
    await run(4000)
    expect(sentAt).toHaveLength(1)
    await run(11_000)
    expect(sentAt).toHaveLength(2)
  })

  test('never sends earlier than the server allowed, whatever it answers', async () => {
    const reply = fc.record({
      status: fc.constantFrom(200, 200, 429, 503),
      retryAfter: fc.option(fc.nat({ max: 20 }), { nil: undefined }),
      left: fc.nat({ max: 3 }),
      reset: fc.nat({ max: 20 }),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(reply, { minLength: 1, maxLength: 6 }), async (replies) => {
        const { paced, sentAt, run } = setUp(
          replies.map(({ status, retryAfter, left, reset }) => ({
            status,
            headers: {
              RateLimit: `"a";r=${left};t=${reset}`,
              ...(retryAfter === undefined ? {} : { 'Retry-After': String(retryAfter) }),
            },
          })),
          { maxInFlight: 1, retries: 0 },
        )
        for (let i = 0; i < replies.length; i++) void paced(URL_)
        await run(1e9)
        if (sentAt.length !== replies.length) throw new Error(`sent ${sentAt.length} calls`)
        for (const [i, given] of replies.entries()) {
          const { status, retryAfter = 0, left, reset } = given
          const hasRetryAfter = given.retryAfter !== undefined
          // In a bucket the reset is the time until it is full, and Retry-After goes before it.
          const isReset = left === 0 && ((status === 429 && !hasRetryAfter) || i === 0)
          const waitS = Math.max(status === 200 ? 0 : retryAfter, isReset ? reset : 0)
          const earliest = (sentAt[i] ?? 0) + 10 + waitS * 1000
          if ((sentAt[i + 1] ?? Infinity) < earliest) throw new Error(`call ${i + 1} is early`)
        }
      }),
      { numRuns: propertyRuns(100) },
    )
  })
})
