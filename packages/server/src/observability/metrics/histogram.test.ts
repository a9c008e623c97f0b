import fc from 'fast-check'
import { expect, test } from 'vitest'
import { readMetrics, valueOf } from './read-metrics.test-helper.js'
import { createRegistry } from './registry.js'

test('a bucket counts all that is at most its bound, and the last counts everything', () => {
  const registry = createRegistry()
  const histogram = registry.histogram('seconds', 'Times.', [0.001, 0.01, 0.1])
  for (const value of [0.0001, 0.001, 0.0011, 0.05, 7]) histogram.observe(value)
  expect(registry.text()).toBe(
    [
      '# HELP seconds Times.',
      '# TYPE seconds histogram',
      'seconds_bucket{le="0.001"} 2',
      'seconds_bucket{le="0.01"} 3',
      'seconds_bucket{le="0.1"} 4',
      'seconds_bucket{le="+Inf"} 5',
      `seconds_sum ${0.0001 + 0.001 + 0.0011 + 0.05 + 7}`,
      'seconds_count 5',
      '',
    ].join('\n'),
  )
})

test('before the first value all samples exist and are 0', () => {
  const registry = createRegistry()
  registry.histogram('seconds', 'Times.', [1])
  const read = readMetrics(registry.text())
  expect(valueOf(read, 'seconds_bucket', { le: '1' })).toBe(0)
  expect(valueOf(read, 'seconds_bucket', { le: '+Inf' })).toBe(0)
  expect([valueOf(read, 'seconds_sum'), valueOf(read, 'seconds_count')]).toEqual([0, 0])
})

test('a value may count several times', () => {
  const registry = createRegistry()
  registry.histogram('seconds', 'Times.', [1]).observe(0.5, 64)
  const read = readMetrics(registry.text())
  expect([valueOf(read, 'seconds_sum'), valueOf(read, 'seconds_count')]).toEqual([32, 64])
})

test('buckets hold exactly the values up to their bounds', () => {
  const bounds = [-1, 0, 0.25, 10]
  fc.assert(
    fc.property(fc.array(fc.double({ min: -5, max: 20, noNaN: true })), (values) => {
      const registry = createRegistry()
      const histogram = registry.histogram('h', 'H.', bounds)
      for (const value of values) histogram.observe(value)
      const read = readMetrics(registry.text())
      for (const bound of bounds) {
        const below = values.filter((value) => value <= bound).length
        expect(valueOf(read, 'h_bucket', { le: String(bound) })).toBe(below)
      }
      expect(valueOf(read, 'h_count')).toBe(values.length)
    }),
  )
})

test('invalid bounds and names are refused at registration', () => {
  const registry = createRegistry()
  const histogram = (name: string, bounds: number[]) => registry.histogram(name, 'H.', bounds)
  expect(() => histogram('a', [])).toThrow('1 to 64 bounds')
  expect(() => histogram('a', [1, 1])).toThrow('each above the one before')
  expect(() => histogram('a', [1, Infinity])).toThrow('metric a: accepted')
  expect(() => histogram('a_bucket', [1])).toThrow('does not end as those of histograms do')
  histogram('a', [1])
  expect(() => histogram('a', [1])).toThrow('registered twice')
})

test('each list of label values has its own histogram, with adjacent buckets', () => {
  const registry = createRegistry()
  const seconds = registry.labelledHistogram('seconds', 'Times.', [1, 10], ['rule'])
  seconds.labels('b').observe(5)
  seconds.labels('a "b"').observe(0.5, 2)
  expect(seconds.labels('b')).toBe(seconds.labels('b'))
  expect(registry.text()).toBe(
    [
      '# HELP seconds Times.',
      '# TYPE seconds histogram',
      String.raw`seconds_bucket{rule="a \"b\"",le="1"} 2`,
      String.raw`seconds_bucket{rule="a \"b\"",le="10"} 2`,
      String.raw`seconds_bucket{rule="a \"b\"",le="+Inf"} 2`,
      String.raw`seconds_sum{rule="a \"b\""} 1`,
      String.raw`seconds_count{rule="a \"b\""} 2`,
      'seconds_bucket{rule="b",le="1"} 0',
      'seconds_bucket{rule="b",le="10"} 1',
      'seconds_bucket{rule="b",le="+Inf"} 1',
      'seconds_sum{rule="b"} 5',
      'seconds_count{rule="b"} 1',
      '',
    ].join('\n'),
  )
})

test('the label le is reserved, and each series needs all label values', () => {
  const registry = createRegistry()
  const labelled = (labels: string[]) => registry.labelledHistogram('h', 'H.', [1], labels)
  expect(() => labelled(['le'])).toThrow('metric h, label le: that of the bounds')
  const histogram = labelled(['rule'])
  expect(() => histogram.labels()).toThrow('found 0 label values; accepted: 1 (rule)')
  expect(() => labelled(['rule'])).toThrow('registered twice')
})

test('counts can be read by bucket, and the returned copy does not change', () => {
  const registry = createRegistry()
  const histogram = registry.histogram('seconds', 'Times.', [1, 10])
  for (const value of [0.5, 5, 5, 50]) histogram.observe(value)
  const counts = histogram.counts()
  histogram.observe(1, 3)
  expect([histogram.bounds, [...counts]]).toEqual([
    [1, 10],
    [1, 2, 1],
  ])
  expect([...histogram.counts()]).toEqual([4, 2, 1])
})
