import { context, propagation, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base'
import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { createLimiter } from './limiter.js'
import type { Limiter } from './limiter-types.js'
import { traceLimiter } from './otel.js'
import { manualClock } from './testing/index.js'

const exporter = new InMemorySpanExporter()
const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
const tracer = provider.getTracer('test')
const contexts = new AsyncLocalStorageContextManager().enable()
context.setGlobalContextManager(contexts)

beforeEach(() => exporter.reset())
afterAll(() => {
  context.disable()
  trace.disable()
  propagation.disable()
})

const RULES = [
  { id: 'per-user', by: ['user'], limits: ['2/minute'] },
  { id: 'strict', by: ['user'], limits: ['1/minute'], mode: 'shadow' },
]
const USER = 'a-very-secret-user'
const call = { attributes: { user: USER } }

function start(): Limiter {
  return traceLimiter(createLimiter({ rules: RULES, clock: manualClock() }), { tracer })
}

const attributes = () => exporter.getFinishedSpans().map((span) => span.attributes)

describe('traceLimiter', () => {
  test('a traced limiter makes a span of each decision, with what was decided', async () => {
    const limiter = start()
    await limiter.check(call)
    limiter.checkSync(call)
    const refused = limiter.decide(call)
    expect(refused).toMatchObject({ allowed: false, retryAfterMs: 30_000 })
    await limiter.peek(call)
    const spans = exporter.getFinishedSpans()
    expect(spans.map(({ name, kind }) => [name, kind])).toEqual(
      Array.from({ length: 4 }, () => ['sluice.check', SpanKind.INTERNAL]),
    )
    const common = {
      'sluice.rule': 'per-user',
      'sluice.limit_name': 'token-bucket-1m',
      'sluice.limit': 2,
      'sluice.source': 'store',
      'sluice.delay_ms': 0,
    }
    const within = {
      ...common,
      'sluice.allowed': true,
      'sluice.reason': 'within',
      'sluice.retry_after_ms': 0,
    }
    const over = {
      ...common,
      'sluice.allowed': false,
      'sluice.reason': 'over',
      'sluice.remaining': 0,
      'sluice.retry_after_ms': 30_000,
    }
    expect(attributes()).toEqual([
      { ...within, 'sluice.remaining': 1 },
      { ...within, 'sluice.remaining': 0, 'sluice.shadow': ['strict'] },
      over,
      { ...over, 'sluice.peek': true },
    ])
  })

  test('the span of a traced limiter is a child of the active span', async () => {
    const limiter = start()
    const parent = tracer.startSpan('handler')
    await context.with(trace.setSpan(context.active(), parent), () => limiter.check(call))
    parent.end()
    const [span] = exporter.getFinishedSpans()
    expect(span?.parentSpanContext?.spanId).toBe(parent.spanContext().spanId)
    expect(span?.spanContext().traceId).toBe(parent.spanContext().traceId)
  })

  test('a traced limiter decides synchronously what the limiter decides synchronously', () => {
    expect(start().decide(call)).not.toBeInstanceOf(Promise)
  })

  test('a span has no rule if none matched, and nothing about the caller', async () => {
    const limiter = start()
    await limiter.check({ attributes: { ip: '203.0.113.7' } })
    await limiter.check(call)
    expect(attributes()[0]).toEqual({
      'sluice.allowed': true,
      'sluice.reason': 'unmatched',
      'sluice.source': 'store',
      'sluice.delay_ms': 0,
      'sluice.retry_after_ms': 0,
    })
    expect(JSON.stringify(attributes())).not.toContain(USER)
  })

  test('a traced limiter records an error by its code and rethrows it unchanged', async () => {
    const limiter = start()
    const bad = { attributes: { user: USER }, cost: -7 }
    const errors = [
      await limiter.check(bad).catch((error: unknown) => error),
      await limiter.peek(bad).catch((error: unknown) => error),
      caught(() => limiter.checkSync(bad)),
      caught(() => limiter.decide(bad)),
    ]
    for (const error of errors) expect(error).toMatchObject({ code: 'CALL_COST_INVALID' })
    const spans = exporter.getFinishedSpans()
    expect(spans).toHaveLength(4)
    for (const { status, events } of spans) {
      expect(status).toEqual({ code: SpanStatusCode.ERROR, message: 'CALL_COST_INVALID' })
      expect(events).toMatchObject([
        { name: 'exception', attributes: { 'exception.type': 'CALL_COST_INVALID' } },
      ])
    }
    expect(JSON.stringify(spans.map(({ events }) => events))).not.toContain('-7')
  })

  test('a traced limiter passes every other method through', async () => {
    const limiter = start()
    expect(limiter).toMatchObject({ isSync: true, countsMessages: false, hasDurable: false })
    const { receipt } = await limiter.check(call, { receipt: true })
    await limiter.refund(receipt ?? '')
    expect(await limiter.limits(call)).toMatchObject([{ rule: 'per-user', remaining: 2 }])
    expect((await limiter.explain(call)).explain).toHaveLength(2)
    expect(limiter.callers(call)).toHaveLength(2)
    await limiter.reset(call)
    expect(limiter.setRules([])).toEqual([])
    expect(limiter.checkSync(call).reason).toBe('unmatched')
    await limiter.close()
    await expect(limiter.check(call)).rejects.toThrow()
  })

  test('a traced limiter without an SDK only decides', async () => {
    const limiter = traceLimiter(createLimiter({ rules: RULES, clock: manualClock() }))
    expect((await limiter.check(call)).allowed).toBe(true)
    expect(limiter.checkSync(call).allowed).toBe(true)
    expect(exporter.getFinishedSpans()).toEqual([])
  })
})

function caught(act: () => unknown): unknown {
  try {
    return act()
  } catch (error) {
    return error
  }
}
