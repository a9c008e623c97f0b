import { expect, test } from 'vitest'
import { boundLabels } from './bounded-labels.js'
import { readMetrics, valueOf } from './read-metrics.test-helper.js'
import { createRegistry } from './registry.js'

test('values beyond the bound share one series, and known ones keep theirs', () => {
  const registry = createRegistry()
  const labels = boundLabels(registry.counter('seen_total', 'Seen.', ['store']), 2)
  for (const value of ['a', 'b', 'c', 'd', 'a', 'c']) labels.get(value).inc()
  const read = readMetrics(registry.text())
  const count = (store: string) => valueOf(read, 'seen_total', { store })
  expect([count('a'), count('b'), count('c'), count('other')]).toEqual([2, 1, undefined, 3])
})
