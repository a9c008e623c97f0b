import { DataPointType, MeterProvider, MetricReader } from '@opentelemetry/sdk-metrics'
import { describe, expect, test } from 'vitest'
import { readMetrics } from '../metrics/read-metrics.test-helper.js'
import { createRegistry, type Registry } from '../metrics/registry.js'
import { bridgeMetrics } from './bridge-metrics.js'

class AskedReader extends MetricReader {
  protected override onForceFlush(): Promise<void> {
    return Promise.resolve()
  }

  protected override onShutdown(): Promise<void> {
    return Promise.resolve()
  }
}

function start(registry: Registry) {
  const reader = new AskedReader()
  const meter = new MeterProvider({ readers: [reader] }).getMeter('test')
  const stop = bridgeMetrics(registry, meter)
  /** By name, then by labels as JSON. */
  const collect = async () => {
    const { resourceMetrics, errors } = await reader.collect()
    expect(errors).toEqual([])
    const metrics = resourceMetrics.scopeMetrics.flatMap((scope) => scope.metrics)
    return new Map(
      metrics.map((metric) => {
        const samples = metric.dataPoints.map(({ attributes, value }) => {
          const pairs = Object.entries(attributes).sort(([a], [b]) => (a < b ? -1 : 1))
          return [JSON.stringify(pairs), value] as const
        })
        const { dataPointType } = metric
        const isCounter = dataPointType === DataPointType.SUM && metric.isMonotonic
        const { description } = metric.descriptor
        return [metric.descriptor.name, { isCounter, description, samples: new Map(samples) }]
      }),
    )
  }
  return { collect, stop }
}

describe('metrics bridged to OpenTelemetry', () => {
  test('equal those of Prometheus, number by number', async () => {
    const registry = createRegistry()
    registry.total('sluice_lines_total', 'Lines.', () => 12)
    const { collect } = start(registry)
    const decisions = registry.counter('sluice_decisions_total', 'Decisions "all".', ['rule', 'by'])
    decisions.labels('orders', 'a').inc(3)
    decisions.labels('hostile "}\\ \u2028, {', 'b\n').inc()
    registry.gauge('sluice_load', 'Load.', 'sum', () => -0.5)
    registry.gauge(
      'sluice_each',
      'Each.',
      'sum',
      () => [
        [['x'], 1],
        [['y'], Infinity],
      ],
      ['of'],
    )
    registry.gauge('sluice_broken', 'Fails.', 'sum', () => {
      throw new Error('not now')
    })
    const times = registry.histogram('sluice_seconds', 'Times.', [0.1, 1])
    for (const value of [0.05, 0.5, 5, 5]) times.observe(value)
    // Metrics registered after the bridge are exported from the second collection on.
    await collect()
    const collected = await collect()
    const text = readMetrics(registry.text())
    const expected = [...text].flatMap(([name, { samples }]) =>
      samples.size === 0 ? [] : [[name, samples] as const],
    )
    expect(new Map([...collected].map(([name, { samples }]) => [name, samples]))).toEqual(
      new Map(expected),
    )
    expect(collected.get('sluice_decisions_total')?.description).toBe('Decisions "all".')
    const counters = [...collected].flatMap(([name, { isCounter }]) => (isCounter ? name : []))
    expect(counters.sort()).toEqual([
      'sluice_decisions_total',
      'sluice_lines_total',
      'sluice_seconds_bucket',
      'sluice_seconds_count',
      'sluice_seconds_sum',
    ])
  })

  test('follow the counts, and end when the bridge stops', async () => {
    const registry = createRegistry()
    const counter = registry.counter('sluice_a_total', 'A.').labels()
    const { collect, stop } = start(registry)
    const read = async () => (await collect()).get('sluice_a_total')?.samples.get('[]')
    counter.inc()
    expect(await read()).toBe(1)
    counter.inc(4)
    expect(await read()).toBe(5)
    stop()
    counter.inc()
    expect(await read()).toBe(5)
  })
})
