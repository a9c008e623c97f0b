import { metrics } from '@opentelemetry/api'
import { MeterProvider, MetricReader } from '@opentelemetry/sdk-metrics'
import { afterAll, expect, test, vi } from 'vitest'
import { sendRequest } from '../../entrypoints/gateway/forward.test-helper.js'
import { startTestServer } from '../../serve.test-helper.js'
import { registerSdk, unregisterSdk } from './telemetry.test-helper.js'

class AskedReader extends MetricReader {
  protected override onForceFlush(): Promise<void> {
    return Promise.resolve()
  }

  protected override onShutdown(): Promise<void> {
    return Promise.resolve()
  }
}

const exporter = registerSdk()
const reader = new AskedReader()
metrics.setGlobalMeterProvider(new MeterProvider({ readers: [reader] }))
afterAll(() => {
  unregisterSdk()
  metrics.disable()
})

const RULES = [{ id: 'address', by: ['ip'], limits: ['2/hour'] }]

async function namesOf(): Promise<readonly string[]> {
  const { resourceMetrics, errors } = await reader.collect()
  expect(errors).toEqual([])
  const exported = resourceMetrics.scopeMetrics.flatMap((scope) => scope.metrics)
  return exported.flatMap(({ descriptor, dataPoints }) =>
    dataPoints.length > 0 ? descriptor.name : [],
  )
}

test('a server exports its decisions and all metrics', async () => {
  const server = await startTestServer({ rules: RULES })
  const traceId = '0af7651916cd43dd8448eb211c80319c'
  const headers = { traceparent: `00-${traceId}-b7ad6b7169203331-01` }
  await sendRequest(server.gatewayPort, { headers })
  await vi.waitFor(() => expect(exporter.getFinishedSpans()).toHaveLength(2), {
    timeout: 20_000,
  })
  expect(server.calls[0]?.headers['traceparent']).toContain(traceId)
  const text = await (await fetch(`${server.admin}/metrics`)).text()
  const names = [...text.matchAll(/^\w+/gm)].map(([name]) => name)
  await namesOf()
  expect(new Set(await namesOf())).toEqual(new Set(names))
  await server.close()
})

test('a server with telemetry off exports nothing', async () => {
  exporter.reset()
  const server = await startTestServer({ rules: RULES, config: { telemetry: false } })
  await sendRequest(server.gatewayPort, {})
  expect(server.calls[0]?.headers['traceparent']).toBeUndefined()
  await server.close()
  expect(exporter.getFinishedSpans()).toEqual([])
})
