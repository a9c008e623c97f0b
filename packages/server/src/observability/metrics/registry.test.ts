import fc from 'fast-check'
import { expect, test } from 'vitest'
import { readMetrics, valueOf } from './read-metrics.test-helper.js'
import { createRegistry } from './registry.js'

test('the text has the Prometheus format, sorted by name and labels', () => {
  const registry = createRegistry()
  const calls = registry.counter('z_calls_total', 'Calls.', ['way', 'code'])
  calls.labels('b', '200').inc()
  calls.labels('a', '500').inc(3)
  calls.labels('a', '200').inc()
  registry.gauge('a_sockets', 'Open sockets.', 'sum', () => 7)
  registry.counter('m_plain_total', 'A count without labels.')
  expect(registry.text()).toBe(
    [
      '# HELP a_sockets Open sockets.',
      '# TYPE a_sockets gauge',
      'a_sockets 7',
      '# HELP m_plain_total A count without labels.',
      '# TYPE m_plain_total counter',
      'm_plain_total 0',
      '# HELP z_calls_total Calls.',
      '# TYPE z_calls_total counter',
      'z_calls_total{way="a",code="200"} 1',
      'z_calls_total{way="a",code="500"} 3',
      'z_calls_total{way="b",code="200"} 1',
      '',
    ].join('\n'),
  )
})

test('a registry without metrics is an empty text', () => {
  expect(createRegistry().text()).toBe('')
})

test('the same labels are the same series', () => {
  const registry = createRegistry()
  const counter = registry.counter('calls_total', 'Calls.', ['way'])
  expect(counter.labels('api')).toBe(counter.labels('api'))
  expect(counter.labels('api')).not.toBe(counter.labels('gateway'))
})

test('a series created after a scrape is in the next one', () => {
  const registry = createRegistry()
  const counter = registry.counter('calls_total', 'Calls.', ['way'])
  counter.labels('b').inc()
  expect(readMetrics(registry.text()).get('calls_total')?.samples.size).toBe(1)
  counter.labels('a').inc()
  const [, , first] = registry.text().split('\n')
  expect(first).toBe('calls_total{way="a"} 1')
})

const anyText = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({
    unit: fc.constantFrom('\\', '\n', '\r', '"', 'n', '{', '}', ' ', ',', '=', '\u2028'),
  }),
)

test('label values and help texts are escaped so that they read back unchanged', () => {
  fc.assert(
    fc.property(anyText, anyText, fc.integer(), (value, help, count) => {
      const registry = createRegistry()
      registry.gauge('g', help, 'sum', () => [[[value, 'x'], count]], ['one', 'two'])
      const read = readMetrics(registry.text())
      expect(read.get('g')?.help).toBe(help)
      expect(valueOf(read, 'g', { one: value, two: 'x' })).toBe(count)
    }),
  )
})

test('infinities and NaN are written as Prometheus reads them', () => {
  const registry = createRegistry()
  registry.gauge(
    'g',
    'G.',
    'sum',
    () => [
      [['a'], Infinity],
      [['b'], -Infinity],
      [['c'], Number.NaN],
    ],
    ['label'],
  )
  expect(registry.text()).toContain('g{label="a"} +Inf\ng{label="b"} -Inf\ng{label="c"} NaN\n')
})

test('a total is read at each scrape', () => {
  const registry = createRegistry()
  let dropped = 1
  registry.total('dropped_total', 'Lines.', () => dropped)
  expect(valueOf(readMetrics(registry.text()), 'dropped_total')).toBe(1)
  dropped = 5
  expect(valueOf(readMetrics(registry.text()), 'dropped_total')).toBe(5)
})

test('a metric that cannot be read does not hide the others', () => {
  const registry = createRegistry()
  registry.gauge('broken', 'Broken.', 'sum', () => {
    throw new Error('gone')
  })
  registry.gauge('sound', 'Sound.', 'sum', () => 1)
  const read = readMetrics(registry.text())
  expect(read.get('broken')?.samples.size).toBe(0)
  expect(valueOf(read, 'sound')).toBe(1)
})

test('invalid names are refused at registration', () => {
  const registry = createRegistry()
  const counter = (name: string, labels: string[] = []) => registry.counter(name, 'Help.', labels)
  expect(() => counter('9_total')).toThrow('metric 9_total: accepted: letters')
  expect(() => counter('a-b_total')).toThrow('accepted: letters')
  expect(() => counter(`${'a'.repeat(200)}_total`)).toThrow('accepted: letters')
  expect(() => counter('calls')).toThrow('accepted: a name that ends in _total')
  expect(() => registry.total('calls', 'Help.', () => 1)).toThrow('ends in _total')
  expect(() => counter('calls_total', ['a b'])).toThrow('label a b: accepted')
  expect(() => counter('calls_total', ['__name__'])).toThrow('label __name__: accepted')
  expect(() => counter('calls_total', ['a', 'a'])).toThrow('label a: named twice')
  counter('calls_total')
  expect(() => counter('calls_total')).toThrow('metric calls_total: registered twice')
})

test('a wrong number of label values is refused', () => {
  const counter = createRegistry().counter('calls_total', 'Calls.', ['way'])
  expect(() => counter.labels()).toThrow('found 0 label values; accepted: 1 (way)')
  expect(() => counter.labels('a', 'b')).toThrow('found 2 label values')
})
