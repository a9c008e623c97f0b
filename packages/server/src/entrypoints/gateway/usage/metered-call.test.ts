import { gzipSync } from 'node:zlib'
import { UNMATCHED } from '@sluice/core'
import type { ActualCosts, Settlement } from '@sluice/limiter'
import { describe, expect, test } from 'vitest'
import type { Upstream, UsageConfig } from '../../../config/config.js'
import { createRegistry } from '../../../observability/metrics/registry.js'
import { UsageMetrics } from '../../../observability/metrics/usage-metrics.js'
import { SAMPLES, eventsOf } from './answers.test-helper.js'
import { type CallReservation, EXTENSION_TOKENS, MeteredCall } from './metered-call.js'
import { Metering } from './metering.js'
import { unreadRequest, type RequestFacts } from './request-reader.js'

const FACTS: RequestFacts = {
  characters: 400,
  maximum: 50,
  answers: 1,
  model: 'gpt-5',
  stream: true,
}
const RESERVED = { cost: 1, tokens: 150, spend: 700 }
const PRICES = new Map([['gpt-5', { input: 2, output: 10, cached: 1 }]])

const SETTLED: Settlement = {
  settled: true,
  reason: 'settled',
  charged: 0,
  givenBack: 0,
  owed: 0,
  costs: {},
}

/** What became of a reservation. */
class FakeReservation implements CallReservation {
  readonly allowed: boolean = true
  readonly reason: CallReservation['reason'] = 'within'
  readonly postures?: NonNullable<CallReservation['postures']>
  readonly retryAfterMs: number = 0
  readonly ended: (ActualCosts | 'cancelled')[] = []
  readonly extensions: object[] = []
  held: Record<string, number> = { ...RESERVED }
  /** The extensions that are admitted. */
  admitted = Number.POSITIVE_INFINITY
  /** How often settling fails before it works. */
  failures = 0

  reserved = () => ({ ...this.held })

  settle(actual: ActualCosts) {
    if (this.failures-- > 0) return Promise.reject(new Error('The store did not answer'))
    this.ended.push(actual)
    return Promise.resolve(SETTLED)
  }

  cancel() {
    this.ended.push('cancelled')
    return Promise.resolve(SETTLED)
  }

  extend(attributes: Readonly<Record<string, number>>): Promise<CallReservation> {
    this.extensions.push(attributes)
    if (this.extensions.length > this.admitted) {
      return Promise.resolve(new RefusedReservation())
    }
    for (const [name, units] of Object.entries(attributes)) {
      this.held[name] = (this.held[name] ?? 0) + units
    }
    return Promise.resolve(this)
  }
}

class RefusedReservation extends FakeReservation {
  override readonly allowed = false
  override readonly reason = 'over'
  override readonly retryAfterMs = 1500
}

/** What a rule says of an extension that the store does not answer. */
class UnansweredReservation extends FakeReservation {
  override readonly allowed: boolean
  override readonly reason: CallReservation['reason']
  override readonly postures: NonNullable<CallReservation['postures']>

  constructor(posture: 'open' | 'closed') {
    super()
    this.allowed = posture === 'open'
    this.reason = this.allowed ? 'within' : 'posture'
    this.postures = { tokens: posture }
  }
}

interface Setup {
  readonly config?: Partial<UsageConfig>
  readonly facts?: RequestFacts
  readonly isAllowed?: boolean
  /** The smallest limit of `tokens`. */
  readonly limit?: number
}

async function begin({ config = {}, facts = FACTS, isAllowed = true, limit = 1e6 }: Setup = {}) {
  const registry = createRegistry()
  const later: (() => void)[] = []
  const errors: unknown[] = []
  const usage: UsageConfig = {
    dialect: 'openai',
    defaultOutput: 100,
    prices: PRICES,
    onExhausted: 'continue',
    ...config,
  }
  const upstream: Upstream = {
    prefix: '/v1',
    origin: 'http://llm',
    host: 'upstream',
    connections: 1,
    websockets: 1,
    usage,
  }
  const metering = new Metering({
    upstreams: [upstream],
    limiter: { costLimits: () => new Map([['tokens', limit]]) },
    metrics: new UsageMetrics(registry),
    onError: (error) => errors.push(error),
    scheduler: {
      after: (_ms, run) => {
        later.push(run)
        return () => {}
      },
    },
  })
  const metered = metering.find(upstream)
  if (metered === undefined) throw new Error('not metered')
  const call = new MeteredCall(metered, facts)
  const reservation = new FakeReservation()
  const calls: object[] = []
  await call.decide({ attributes: { user: 'ann' } }, (reserved) => {
    calls.push(reserved)
    const decision = { ...UNMATCHED, allowed: isAllowed, retryAfterMs: 0 }
    const { reserved: held } = reservation
    return Promise.resolve({
      ...decision,
      reserved: held,
      settle: (actual: ActualCosts) => reservation.settle(actual),
      cancel: () => reservation.cancel(),
      extend: (attributes: Record<string, number>) => reservation.extend(attributes),
    })
  })
  return {
    call,
    calls,
    reservation,
    errors,
    /** Runs what was scheduled. */
    runLater: async () => {
      for (const run of later.splice(0)) run()
      await metering.close()
    },
    settled: async () => {
      await new Promise((resolve) => setImmediate(resolve))
      await metering.close()
      return reservation.ended
    },
    metric: (series: string) =>
      registry
        .text()
        .split('\n')
        .find((line) => line.startsWith(`${series} `))
        ?.split(' ')
        .at(-1),
  }
}

const headers = (fields: Readonly<Record<string, string>>) =>
  Object.entries(fields)
    .flat()
    .map((text) => Buffer.from(text))
const EVENTS = headers({ 'Content-Type': 'text/event-stream' })
const JSON_HEAD = headers({ 'content-type': 'application/json' })
const delta = (characters: number) =>
  Buffer.from(eventsOf([{ choices: [{ delta: { content: 'x'.repeat(characters) } }] }]))
const chat = (usage: object) => Buffer.from(JSON.stringify({ choices: [], usage }))
/** Lets promises that are resolved run their callbacks. */
const turn = () => new Promise((resolve) => setImmediate(resolve))

describe('a metered call', () => {
  test('is decided with its estimate, its model and whether it is a stream', async () => {
    const { calls } = await begin({ limit: 140 })
    expect(calls).toEqual([
      {
        attributes: {
          user: 'ann',
          model: 'gpt-5',
          stream: true,
          input_tokens: 100,
          output_tokens: 50,
          // Capped at the smallest limit.
          tokens: 140,
          spend: 100 * 2 + 50 * 10,
        },
      },
    ])
  })

  test('is charged the usage that its answer reports, of the costs that were reserved', async () => {
    const { call, settled, metric } = await begin()
    call.onRequestSent()
    call.onHead(200, JSON_HEAD)
    call.onData(
      chat({
        prompt_tokens: 90,
        completion_tokens: 20,
        prompt_tokens_details: { cached_tokens: 40 },
      }),
    )
    call.onEnd(undefined)
    expect(await settled()).toEqual([{ tokens: 110, spend: 50 * 2 + 40 + 20 * 10 }])
    expect(metric('sluice_usage_tokens_total{upstream="http://llm",kind="input"}')).toBe('90')
    expect(metric('sluice_usage_tokens_total{upstream="http://llm",kind="cached"}')).toBe('40')
    expect(metric('sluice_usage_spend_total{upstream="http://llm"}')).toBe('340')
    expect(metric('sluice_usage_calls_total{upstream="http://llm",charged="reported"}')).toBe('1')
    const ratio = 'sluice_usage_estimate_ratio{upstream="http://llm",prefix="/v1",kind="output"}'
    expect(metric(ratio)).toBe('0.4')
  })

  test.each(
    SAMPLES.filter(({ usage }) => usage !== undefined).map((each) => [each.name, each] as const),
  )(
    'is charged the usage of %s, compressed or not',
    async (_name, { dialect, form, text, usage }) => {
      const type = form === 'json' ? 'application/json' : 'text/event-stream'
      for (const encoding of ['identity', 'gzip']) {
        const { call, settled } = await begin({ config: { dialect, prices: new Map() } })
        call.onHead(200, headers({ 'Content-Type': type, 'Content-Encoding': encoding }))
        call.onData(encoding === 'gzip' ? gzipSync(text) : Buffer.from(text))
        call.onEnd(undefined)
        await expect
          .poll(settled)
          .toEqual([{ tokens: (usage?.input ?? 0) + (usage?.output ?? 0), spend: 700 }])
      }
    },
  )

  test('is charged what was seen of a stream whose client left', async () => {
    const { call, settled, metric } = await begin()
    call.onRequestSent()
    call.onHead(200, EVENTS)
    call.onData(delta(80))
    call.onEnd(undefined)
    expect(await settled()).toEqual([{ tokens: 100 + 20, spend: 100 * 2 + 20 * 10 }])
    expect(metric('sluice_usage_calls_total{upstream="http://llm",charged="seen"}')).toBe('1')
  })

  test('is charged its reserve if its client left before anything was seen', async () => {
    const { call, settled, metric } = await begin()
    call.onRequestSent()
    call.onEnd(undefined)
    expect(await settled()).toEqual([{ tokens: 150, spend: 700 }])
    expect(metric('sluice_usage_calls_total{upstream="http://llm",charged="reserved"}')).toBe('1')
    expect(metric('sluice_usage_unread_total{upstream="http://llm",reason="absent"}')).toBe('0')
  })

  test('is charged its reserve if its answer cannot be read', async () => {
    for (const [head, reason] of [
      [headers({ 'content-type': 'application/json', 'content-encoding': 'snappy' }), 'encoding'],
      [headers({ 'content-type': 'audio/mpeg' }), 'type'],
      [JSON_HEAD, 'absent'],
    ] as const) {
      const { call, settled, metric } = await begin()
      call.onHead(200, head)
      call.onData(Buffer.from('{"id":"x"}'))
      call.onEnd(undefined)
      expect(await settled()).toEqual([{ tokens: 150, spend: 700 }])
      expect(metric(`sluice_usage_unread_total{upstream="http://llm",reason="${reason}"}`)).toBe(
        '1',
      )
    }
  })

  test('is charged no tokens if the upstream did not get its request', async () => {
    const { call, settled } = await begin()
    call.onEnd(undefined)
    expect(await settled()).toEqual([{ tokens: 0, spend: 0 }])
  })

  test('is charged no tokens if the upstream failed to answer', async () => {
    const { call, settled } = await begin()
    call.onRequestSent()
    call.onEnd({ status: 504, code: 'RESPONSE_TIMEOUT' })
    expect(await settled()).toEqual([{ tokens: 0, spend: 0 }])
  })

  test.each([302, 400, 401, 404, 413, 429, 500, 529])(
    'is charged no tokens for a status %i, unless the answer has usage',
    async (status) => {
      const refused = await begin()
      refused.call.onRequestSent()
      refused.call.onHead(status, JSON_HEAD)
      refused.call.onData(Buffer.from('{"error":{"message":"no"}}'))
      refused.call.onEnd(undefined)
      expect(await refused.settled()).toEqual([{ tokens: 0, spend: 0 }])
      const used = await begin()
      used.call.onHead(status, JSON_HEAD)
      used.call.onData(chat({ prompt_tokens: 7, completion_tokens: 0 }))
      used.call.onEnd(undefined)
      expect(await used.settled()).toEqual([{ tokens: 7, spend: 14 }])
    },
  )

  test('is charged what was seen if the upstream broke its answer off', async () => {
    const { call, settled } = await begin()
    call.onHead(200, EVENTS)
    call.onData(delta(40))
    call.onEnd({ status: 502, code: 'UND_ERR_SOCKET' })
    expect(await settled()).toEqual([{ tokens: 110, spend: 300 }])
  })

  test('is charged no tokens if the upstream broke off before anything was seen', async () => {
    const { call, settled } = await begin()
    call.onHead(200, EVENTS)
    call.onEnd({ status: 502, code: 'UND_ERR_SOCKET' })
    expect(await settled()).toEqual([{ tokens: 0, spend: 0 }])
  })

  test('is charged no more input than the limit if that is only estimated', async () => {
    const { call, settled } = await begin({
      limit: 140,
      facts: { ...FACTS, characters: 1_000_000 },
    })
    call.onHead(200, EVENTS)
    call.onData(delta(40))
    call.onEnd(undefined)
    expect(await settled()).toMatchObject([{ tokens: 140 + 10 }])
  })

  test('settles nothing if it was refused, and ends only once', async () => {
    const refused = await begin({ isAllowed: false })
    refused.call.release()
    refused.call.onEnd(undefined)
    expect(await refused.settled()).toEqual([])
    const { call, settled } = await begin()
    call.cancel()
    call.release()
    call.onEnd(undefined)
    expect(await settled()).toEqual(['cancelled'])
  })

  test('that is not forwarded gives its tokens back', async () => {
    const { call, settled } = await begin()
    call.release()
    expect(await settled()).toEqual([{ tokens: 0, spend: 0 }])
  })

  test('is settled again while the store does not answer, and counted if it never does', async () => {
    const { call, reservation, settled, runLater, errors, metric } = await begin()
    reservation.failures = 4
    call.release()
    expect(await settled()).toEqual([])
    for (let i = 0; i < 4; i++) await runLater()
    expect(await settled()).toHaveLength(1)
    expect(errors).toEqual([])
    const lost = await begin()
    lost.reservation.failures = 9
    lost.call.release()
    await lost.settled()
    for (let i = 0; i < 5; i++) await lost.runLater()
    expect([lost.reservation.ended, lost.errors.length]).toEqual([[], 1])
    const series = 'sluice_usage_unsettled_total{upstream="http://llm"}'
    expect([metric(series), lost.metric(series)]).toEqual(['0', '1'])
  })

  test('without a body that can be read is estimated from its length, and priced as the dearest', async () => {
    const { calls } = await begin({ facts: unreadRequest(4000) })
    expect(calls).toMatchObject([
      { attributes: { input_tokens: 1000, output_tokens: 100, spend: 3000 } },
    ])
  })
})

describe('a stream whose budget is used up', () => {
  /** Passes bytes on that exceed the reserve, until no extension is tried any more. */
  async function exhaust(call: MeteredCall, bytes: Buffer): Promise<void> {
    expect(call.onData(bytes)).toBeUndefined()
    for (let i = 0; i < 4; i++) {
      await turn()
      expect(call.onData(Buffer.alloc(0))).toBeUndefined()
    }
    await turn()
  }

  const STOP = { onExhausted: 'stop', prices: new Map() } as const

  test('goes on by default, and is settled when it ends', async () => {
    const { call, reservation, settled } = await begin()
    call.onHead(200, EVENTS)
    for (let i = 0; i < 20; i++) expect(call.onData(delta(400))).toBeUndefined()
    call.onEnd(undefined)
    expect(await settled()).toMatchObject([{ tokens: 100 + 20 * 100 }])
    expect(reservation.extensions).toEqual([])
  })

  test('is extended by 256 tokens beyond what was seen whenever that exceeds the reserve', async () => {
    const { call, reservation, settled } = await begin({ config: STOP })
    call.onHead(200, EVENTS)
    call.onData(delta(200))
    expect(reservation.extensions).toEqual([])
    call.onData(delta(4))
    // Asked once, however much arrives meanwhile.
    call.onData(delta(40))
    await turn()
    expect(reservation.extensions).toEqual([{ tokens: 1 + EXTENSION_TOKENS }])
    call.onData(delta(4 * 300))
    await turn()
    expect(reservation.extensions).toHaveLength(2)
    call.onEnd(undefined)
    expect(await settled()).toMatchObject([{ tokens: 100 + 50 + 1 + 10 + 300 }])
  })

  test('ends after the event that has begun, with an error of the dialect', async () => {
    const { call, reservation, settled, metric } = await begin({ config: STOP })
    reservation.admitted = 0
    call.onHead(200, EVENTS)
    await exhaust(call, delta(240))
    expect(reservation.extensions).toEqual([266, 138, 74, 42, 26].map((tokens) => ({ tokens })))
    const bytes = delta(8)
    expect(call.onData(bytes.subarray(0, 5))).toEqual({
      bytes: 0,
      last: `data: {"error":{"message":"The token budget is used up. Retry after 2 seconds.","type":"insufficient_quota","param":null,"code":"budget_exhausted"}}\n\n`,
    })
    call.onEnd(undefined)
    expect(await settled()).toMatchObject([{ tokens: 160 }])
    expect(metric('sluice_usage_stopped_total{upstream="http://llm"}')).toBe('1')
  })

  test('passes the rest of an event that has begun', async () => {
    const { call, reservation } = await begin({ config: { ...STOP, dialect: 'anthropic' } })
    reservation.admitted = 0
    const event = Buffer.from(eventsOf([{ type: 'x', delta: { text: 'y'.repeat(240) } }]))
    call.onHead(200, EVENTS)
    await exhaust(call, Buffer.concat([event, event.subarray(0, 20)]))
    expect(call.onData(event.subarray(20, 30))).toBeUndefined()
    expect(call.onData(Buffer.concat([event.subarray(30), event]))).toEqual({
      bytes: event.length - 30,
      last: 'event: error\ndata: {"type":"error","error":{"type":"rate_limit_error","message":"The token budget is used up. Retry after 2 seconds."}}\n\n',
    })
  })

  test('breaks off if its bytes are compressed or have a declared length', async () => {
    const gzip = headers({ 'content-type': 'text/event-stream', 'content-encoding': 'gzip' })
    const long = headers({ 'content-type': 'text/event-stream', 'content-length': '9999' })
    for (const [head, bytes] of [
      [gzip, gzipSync(delta(400))],
      [long, delta(400)],
    ] as const) {
      const { call, reservation } = await begin({ config: STOP })
      reservation.admitted = 0
      call.onHead(200, head)
      call.onData(bytes)
      await expect.poll(() => call.onData(Buffer.alloc(0))).toEqual({ bytes: 0, last: undefined })
    }
  })

  test('is not ended by an estimate of its input that is as large as the limit', async () => {
    const facts = { ...FACTS, characters: 1_000_000 }
    const { call, reservation } = await begin({ config: STOP, facts, limit: 150 })
    call.onHead(200, EVENTS)
    call.onData(delta(4 * 150))
    await turn()
    expect(reservation.extensions).toEqual([])
    call.onData(delta(4))
    expect(reservation.extensions).toEqual([{ tokens: 1 + EXTENSION_TOKENS }])
  })

  test('goes on if the store does not answer the extension', async () => {
    const { call, reservation, errors, settled } = await begin({ config: STOP })
    reservation.extend = () => Promise.reject(new Error('The store did not answer'))
    call.onHead(200, EVENTS)
    for (let i = 0; i < 3; i++) {
      expect(call.onData(delta(400))).toBeUndefined()
      await turn()
    }
    expect(errors).toHaveLength(1)
    call.onEnd(undefined)
    expect(await settled()).toMatchObject([{ tokens: 400 }])
  })

  test.each(['open', 'closed'] as const)(
    'goes on if the store does not answer the extensions of a rule that fails %s, and asks again later',
    async (posture) => {
      const { call, reservation, settled } = await begin({ config: STOP })
      const extend = (attributes: Readonly<Record<string, number>>) => {
        reservation.extensions.push(attributes)
        return Promise.resolve(new UnansweredReservation(posture))
      }
      const answered = (attributes: Readonly<Record<string, number>>) =>
        FakeReservation.prototype.extend.call(reservation, attributes)
      reservation.extend = extend
      call.onHead(200, EVENTS)
      for (let seen = 0; seen < 3 * EXTENSION_TOKENS; seen += 8) {
        expect(call.onData(delta(32))).toBeUndefined()
        await turn()
      }
      expect(reservation.extensions).toHaveLength(3)
      reservation.extend = answered
      call.onData(delta(4 * 64))
      await turn()
      expect(reservation.extensions).toHaveLength(4)
      reservation.admitted = 0
      await exhaust(call, delta(4 * (EXTENSION_TOKENS + 8)))
      expect(call.onData(delta(4))).toMatchObject({ bytes: 0 })
      call.onEnd(undefined)
      expect(await settled()).toHaveLength(1)
    },
  )

  test('takes no notice of bytes that arrive after its client left', async () => {
    const { call, reservation, settled } = await begin({ config: STOP })
    call.onHead(200, EVENTS)
    call.onEnd(undefined)
    expect(call.onData(delta(4000))).toBeUndefined()
    expect(await settled()).toMatchObject([{ tokens: 150 }])
    expect(reservation.extensions).toEqual([])
  })

  test('does not end an answer that is no stream', async () => {
    const { call, reservation } = await begin({ config: STOP })
    call.onHead(200, JSON_HEAD)
    const text = 'x'.repeat(4000)
    expect(call.onData(Buffer.from(`{"choices":[{"message":{"content":"${text}`))).toBeUndefined()
    expect(reservation.extensions).toEqual([])
  })

  test('is settled after the extension that was under way when it ended', async () => {
    const { call, reservation, settled } = await begin({ config: STOP })
    const order: string[] = []
    const extend = reservation.extend.bind(reservation)
    const settle = reservation.settle.bind(reservation)
    reservation.extend = async (attributes) => {
      await turn()
      order.push('extended')
      return extend(attributes)
    }
    reservation.settle = (actual) => {
      order.push('settled')
      return settle(actual)
    }
    call.onHead(200, EVENTS)
    call.onData(delta(400))
    call.onEnd(undefined)
    await settled()
    expect(order).toEqual(['extended', 'settled'])
  })
})
