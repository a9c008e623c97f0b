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

test('before the first number all of it is there, and 0', () => {
  const registry = createRegistry()
  registry.histogram('seconds', 'Times.', [1])
  const read = readMetrics(registry.text())
  expect(valueOf(read, 'seconds_bucket', { le: '1' })).toBe(0)
  expect(valueOf(read, 'seconds_bucket', { le: '+Inf' })).toBe(0)
  expect([valueOf(read, 'seconds_sum'), valueOf(read, 'seconds_count')]).toEqual([0, 0])
})

test('a number may stand for many', () => {
  const registry = createRegistry()
  registry.histogram('seconds', 'Times.', [1]).observe(0.5, 64)
  const read = readMetrics(registry.text())
  expect([valueOf(read, 'seconds_sum'), valueOf(read, 'seconds_count')]).toEqual([32, 64])
})

test('buckets hold exactly the numbers up to their bounds', () => {
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

test('bounds and names are looked at when they are registered', () => {
  const registry = createRegistry()
  const histogram = (name: string, bounds: number[]) => registry.histogram(name, 'H.', bounds)
  expect(() => histogram('a', [])).toThrow('1 to 64 bounds')
  expect(() => histogram('a', [1, 1])).toThrow('each above the one before')
  expect(() => histogram('a', [1, Infinity])).toThrow('metric a: accepted')
  expect(() => histogram('a_bucket', [1])).toThrow('does not end as those of histograms do')
  histogram('a', [1])
  expect(() => histogram('a', [1])).toThrow('registered twice')
})
