import { expect, test } from 'vitest'
import { createMemoryLog } from '../../observability/log/memory-log.test-helper.js'
import { readMetrics, valueOf } from '../../observability/metrics/read-metrics.test-helper.js'
import { createRegistry } from '../../observability/metrics/registry.js'
import { UpstreamHealth } from './upstream-health.js'

const A = 'http://10.0.0.5:3000'
const B = 'https://b.example'

function setUp() {
  let nowMs = Date.UTC(2026, 0, 1)
  const clock = { now: () => nowMs }
  const registry = createRegistry()
  const { log, lines } = createMemoryLog('info', clock)
  const upstreams = [A, B, A].map((origin, i) => {
    return {
      prefix: `/${i}`,
      origin,
      host: 'preserve',
      connections: 8,
      websockets: 8,
      usage: undefined,
    } as const
  })
  const health = new UpstreamHealth({ upstreams, registry, log, clock, sweepMs: 0 })
  const logged = () =>
    lines
      .splice(0)
      .map(({ level, msg, upstream, status, code, rest }) =>
        [level, msg, upstream, status, code, rest].join(' '),
      )
  const read = (name: string, labels: Record<string, string>) =>
    valueOf(readMetrics(registry.text()), name, labels)
  return { health, logged, read, advance: (ms: number) => void (nowMs += ms) }
}

test('failures are logged once a second for each upstream and code, with the count of the rest', () => {
  const { health, logged, advance } = setUp()
  for (let i = 0; i < 500; i++) health.recordFailure(A, { status: 502, code: 'ECONNREFUSED' })
  health.recordFailure(A, { status: 504, code: 'RESPONSE_TIMEOUT' })
  health.recordFailure(B, { status: 502, code: 'ECONNREFUSED' })
  expect(logged()).toEqual([
    `warn upstream: a call failed ${A} 502 ECONNREFUSED 0`,
    `warn upstream: a call failed ${A} 504 RESPONSE_TIMEOUT 0`,
    `warn upstream: a call failed ${B} 502 ECONNREFUSED 0`,
  ])
  advance(1000)
  health.recordFailure(A, { status: 502, code: 'ECONNREFUSED' })
  expect(logged()).toEqual([`warn upstream: a call failed ${A} 502 ECONNREFUSED 499`])
  health.recordFailure(A, { status: 502, code: 'ECONNREFUSED' })
  advance(1000)
  health.tick()
  expect(logged()).toEqual([`warn upstream: calls failed again ${A} 502 ECONNREFUSED 1`])
  expect(health.dropped()).toBe(0)
})

test('calls and failures are counted by upstream from 0 on, prefixes of one origin together', () => {
  const { health, read } = setUp()
  expect(read('sluice_upstream_failures_total', { upstream: B, status: '504' })).toBe(0)
  expect(read('sluice_upstream_calls_total', { upstream: A })).toBe(0)
  for (let i = 0; i < 3; i++) health.recordCall(A)
  health.recordFailure(A, { status: 503, code: 'UPSTREAM_BUSY' })
  expect(read('sluice_upstream_calls_total', { upstream: A })).toBe(3)
  expect(read('sluice_upstream_failures_total', { upstream: A, status: '503' })).toBe(1)
  expect([...health.counts()]).toEqual([
    { origin: A, calls: 3, failures: 1, lastCode: '503 UPSTREAM_BUSY' },
    { origin: B, calls: 0, failures: 0, lastCode: '' },
  ])
})

test('an upstream that is not configured is neither counted nor logged', () => {
  const { health, logged, read } = setUp()
  health.recordCall('http://other')
  health.recordFailure('http://other', { status: 502, code: 'X' })
  expect(logged()).toEqual([])
  expect(read('sluice_upstream_failures_total', { upstream: 'http://other', status: '502' })).toBe(
    undefined,
  )
})
