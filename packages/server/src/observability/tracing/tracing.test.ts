import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import {
  context,
  propagation,
  SpanKind,
  SpanStatusCode,
  type TextMapPropagator,
  trace,
} from '@opentelemetry/api'
import { W3CTraceContextPropagator } from '@opentelemetry/core'
import { AlwaysOffSampler, type ReadableSpan } from '@opentelemetry/sdk-trace-base'
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { WebSocket } from 'ws'
import {
  closeAfterTests,
  startApi,
} from '../../entrypoints/decision-api/decision-api.test-helper.js'
import { AUTH, orders, trusting } from '../../entrypoints/forward-auth/forward-auth.test-helper.js'
import { sendRequest } from '../../entrypoints/gateway/forward.test-helper.js'
import { createTelemetry } from './tracing.js'
import {
  registerSdk,
  startGateway,
  type TestGateway,
  unregisterSdk,
} from './telemetry.test-helper.js'

const exporter = registerSdk()
const telemetry = createTelemetry()
let gateway: TestGateway | undefined

beforeEach(() => exporter.reset())
afterEach(async () => {
  await gateway?.close()
  gateway = undefined
})
afterAll(() => unregisterSdk())
closeAfterTests()

const RULES = [{ id: 'address', by: ['ip'], limits: ['1/minute'] }]
const TRACE = '0af7651916cd43dd8448eb211c80319c'
const SPAN = 'b7ad6b7169203331'
const TRACEPARENT = `00-${TRACE}-${SPAN}-01`

async function start(rules: readonly object[] = RULES, upgrade?: (...args: unknown[]) => void) {
  gateway = await startGateway(rules, telemetry, upgrade)
  return gateway
}

/** All spans once there are this many: those of the gateway end with their connection. */
async function spansOf(count: number): Promise<readonly ReadableSpan[]> {
  await vi.waitFor(() => expect(exporter.getFinishedSpans()).toHaveLength(count), {
    timeout: 20_000,
  })
  return exporter.getFinishedSpans()
}
const named = (spans: readonly ReadableSpan[], name: string) =>
  spans.filter((span) => span.name === name)
const parentOf = (span: ReadableSpan | undefined) => span?.parentSpanContext?.spanId
const idOf = (span: ReadableSpan | undefined) => span?.spanContext().spanId

type Inject = TextMapPropagator<Record<string, string>>['inject']

/** As the one of the SDK, as long as `run` does. */
async function withPropagator(
  propagator: Pick<TextMapPropagator, 'inject' | 'extract'>,
  run: () => Promise<void>,
): Promise<void> {
  propagation.disable()
  propagation.setGlobalPropagator({ fields: () => [], ...propagator })
  try {
    await run()
  } finally {
    propagation.disable()
    propagation.setGlobalPropagator(new W3CTraceContextPropagator())
  }
}

function fail(): never {
  throw new URIError('URI malformed')
}

describe('at the gateway', () => {
  test('a trace goes from the client over the decision to the upstream', async () => {
    const { port, seen } = await start()
    const headers = { Traceparent: TRACEPARENT, tracestate: 'vendor=1', 'x-other': 'stays' }
    await sendRequest(port, { path: '/orders', headers })
    const spans = await spansOf(2)
    const [served] = named(spans, 'sluice.gateway')
    const [checked] = named(spans, 'sluice.check')
    expect(spans.map((span) => span.spanContext().traceId)).toEqual([TRACE, TRACE])
    expect([parentOf(served), parentOf(checked)]).toEqual([SPAN, idOf(served)])
    expect(seen[0]).toMatchObject({
      traceparent: `00-${TRACE}-${idOf(served)}-01`,
      tracestate: 'vendor=1',
      'x-other': 'stays',
    })
  })

  test('a client without a trace begins one that includes the upstream', async () => {
    const { port, seen } = await start()
    await sendRequest(port, {})
    const spans = await spansOf(2)
    const [served] = named(spans, 'sluice.gateway')
    expect(parentOf(served)).toBeUndefined()
    expect(seen[0]?.['traceparent']).toBe(`00-${served?.spanContext().traceId}-${idOf(served)}-01`)
  })

  test('a span has the decision and the response status, and nothing about the caller', async () => {
    const { port } = await start()
    await sendRequest(port, { path: '/secret-path' })
    await sendRequest(port, { path: '/secret-path', method: 'DELETE' })
    const spans = await spansOf(4)
    expect(
      named(spans, 'sluice.gateway').map(({ kind, attributes }) => [kind, attributes]),
    ).toEqual([
      [SpanKind.SERVER, { 'http.request.method': 'GET', 'http.response.status_code': 200 }],
      [SpanKind.SERVER, { 'http.request.method': 'DELETE', 'http.response.status_code': 429 }],
    ])
    expect(named(spans, 'sluice.check').map(({ attributes }) => attributes)).toMatchObject([
      { 'sluice.way': 'gateway', 'sluice.allowed': true, 'sluice.rule': 'address' },
      { 'sluice.way': 'gateway', 'sluice.allowed': false, 'sluice.retry_after_ms': 60_000 },
    ])
    const text = JSON.stringify(spans.map(({ attributes, events }) => [attributes, events]))
    expect(text).not.toContain('secret-path')
    expect(text).not.toContain('127.0.0.1')
  })

  test('duplicate or invalid traceparents are ignored, and the upstream gets a valid one', async () => {
    const { port, seen } = await start([])
    await sendRequest(port, { headers: { traceparent: [TRACEPARENT, TRACEPARENT] } })
    await sendRequest(port, { headers: { traceparent: 'nonsense' } })
    const spans = named(await spansOf(4), 'sluice.gateway')
    expect(spans.map(parentOf)).toEqual([undefined, undefined])
    expect(seen.map(({ traceparent }) => traceparent)).toEqual(
      spans.map((span) => `00-${span.spanContext().traceId}-${idOf(span)}-01`),
    )
  })

  test('values that are invalid in a header are not sent to the upstream', async () => {
    const { port, seen } = await start([])
    const inject: Inject = (_context, carrier, setter) => {
      setter.set(carrier, 'x-good', 'yes')
      setter.set(carrier, 'x-split', 'a\r\nX-Forwarded-For: 10.0.0.1')
      setter.set(carrier, 'uberctx-a\r\nx-evil: 1', 'b')
    }
    await withPropagator({ inject, extract: (known) => known }, async () => {
      expect((await sendRequest(port, {})).status).toBe(200)
    })
    expect(seen[0]).toMatchObject({ 'x-good': 'yes' })
    expect(Object.keys(seen[0] ?? {})).not.toContain('x-split')
    expect(JSON.stringify(seen[0])).not.toMatch(/evil|10\.0\.0\.1/)
  })

  test('a propagator that throws on received headers fails no call', async () => {
    const { port, seen } = await start([])
    await withPropagator({ inject: fail, extract: fail }, async () => {
      expect(
        (await sendRequest(port, { headers: { 'uberctx-a': '%', 'x-other': '1' } })).status,
      ).toBe(200)
    })
    expect(seen[0]).toMatchObject({ 'uberctx-a': '%', 'x-other': '1' })
  })

  test('a request refused before a decision is not traced', async () => {
    const { port } = await start([])
    expect((await sendRequest(port, { path: '/a//b' })).status).toBe(400)
    expect(exporter.getFinishedSpans()).toEqual([])
  })

  test('an instrumented process gets no second span for a request', () => {
    const tracer = trace.getTracer('http')
    const span = tracer.startSpan('GET')
    const headers = { traceparent: TRACEPARENT }
    context.with(trace.setSpan(context.active(), span), () => {
      const traced = telemetry.begin({ headers, method: 'GET' } as unknown as IncomingMessage)
      traced?.end(503)
      expect(traced?.inject(['TraceParent', TRACEPARENT, 'a', 'b'])).toEqual([
        'a',
        'b',
        'traceparent',
        `00-${span.spanContext().traceId}-${span.spanContext().spanId}-01`,
      ])
    })
    expect(exporter.getFinishedSpans()).toEqual([])
    span.end()
  })

  test('5xx marks the span as an error, 4xx does not', () => {
    for (const status of [499, 500]) {
      const request = { headers: {}, method: 'GET' } as unknown as IncomingMessage
      telemetry.begin(request)?.end(status)
    }
    expect(exporter.getFinishedSpans().map(({ status }) => status.code)).toEqual([
      SpanStatusCode.UNSET,
      SpanStatusCode.ERROR,
    ])
  })

  test('a WebSocket is one trace with its messages', async () => {
    const rules = [{ id: 'messages', match: { method: 'MESSAGE' }, by: ['ip'], limits: ['9/hour'] }]
    let upgraded: IncomingMessage['headers'] = {}
    const { port } = await start(rules, (...[request, socket]: unknown[]) => {
      upgraded = (request as IncomingMessage).headers
      acceptUpgrade(request as IncomingMessage, socket as Duplex)
    })
    const socket = new WebSocket(`ws://127.0.0.1:${port}/`, {
      headers: { traceparent: TRACEPARENT },
    })
    await new Promise((resolve) => socket.once('open', resolve))
    socket.send('one')
    const spans = await spansOf(3)
    socket.terminate()
    const [opened] = named(spans, 'sluice.gateway')
    expect(upgraded['traceparent']).toBe(`00-${TRACE}-${idOf(opened)}-01`)
    expect(
      named(spans, 'sluice.check').map((span) => [span.attributes['sluice.way'], parentOf(span)]),
    ).toEqual([
      ['gateway', idOf(opened)],
      ['websocket', idOf(opened)],
    ])
  })
})

describe('in the decision API and forward-auth', () => {
  test('each decision of the API is a child span of the client', async () => {
    const api = await startApi({ telemetry })
    const headers = { traceparent: TRACEPARENT }
    const call = { attributes: { user: 'u' } }
    await api.post('/v1/check', call, { headers })
    await api.post('/v1/check', [call, call], { headers })
    await api.post('/v1/peek', call, { headers })
    const spans = await spansOf(4)
    expect(spans.map(parentOf)).toEqual([SPAN, SPAN, SPAN, SPAN])
    expect(
      spans.map(({ attributes }) => [
        attributes['sluice.way'],
        attributes['sluice.allowed'],
        attributes['sluice.peek'],
      ]),
    ).toEqual([
      ['api', true, undefined],
      ['api', true, undefined],
      ['api', false, undefined],
      ['api', false, true],
    ])
  })

  test('a propagator that throws on received headers fails no request', async () => {
    const api = await startApi({ telemetry })
    await withPropagator({ inject: fail, extract: fail }, async () => {
      const call = { attributes: { user: 'u' } }
      expect((await api.post('/v1/check', call)).status).toBe(200)
    })
  })

  test('the decision of forward-auth is a child span of the original call', async () => {
    const api = await trusting({ telemetry })
    await api.send(AUTH, orders({ traceparent: TRACEPARENT }))
    const [span] = await spansOf(1)
    expect(parentOf(span)).toBe(SPAN)
    expect(span?.attributes).toMatchObject({
      'sluice.way': 'forward-auth',
      'sluice.rule': 'orders',
    })
  })
})

test('an unsampled trace makes no span, and the upstream gets it as unsampled', async () => {
  unregisterSdk()
  const unsampled = registerSdk(new AlwaysOffSampler())
  gateway = await startGateway([], createTelemetry())
  const { seen, port } = gateway
  await sendRequest(port, { headers: { traceparent: TRACEPARENT } })
  expect(seen[0]?.['traceparent']).toMatch(new RegExp(`^00-${TRACE}-[0-9a-f]{16}-00$`))
  expect(unsampled.getFinishedSpans()).toEqual([])
})

function acceptUpgrade({ headers }: IncomingMessage, socket: Duplex): void {
  const key = `${headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`
  const accept = createHash('sha1').update(key).digest('base64')
  socket.on('error', () => socket.destroy())
  socket.on('end', () => socket.end())
  socket.resume()
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
  )
}
