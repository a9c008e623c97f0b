/** Every member of a ring is a store, whichever member holds a counter. */
import { describe, test } from 'vitest'
import { manualClock } from '../testing/manual-clock.js'
import { storeConformance } from '../testing/store-conformance.js'
import { openRing } from './ring.test-helper.js'

describe.each([
  ['a ring of one', ['a']],
  ['the first of a ring of three', ['a', 'b', 'c']],
  ['the second of a ring of three', ['b', 'a', 'c']],
  ['the third of a ring of three', ['c', 'a', 'b']],
])('%s', (_, names) => {
  const cases = storeConformance(async () => {
    const clock = manualClock()
    const ring = await openRing(names, { clock })
    const [store] = ring.stores
    if (store === undefined) throw new Error('found no store')
    return { store: { ...bound(store), close: () => ring.close() }, clock }
  })
  for (const { name, run } of cases) test(name, run)
})

/** The store as an object whose `close` may be replaced. */
function bound(store: Awaited<ReturnType<typeof openRing>>['stores'][number]) {
  return {
    take: store.take.bind(store),
    peek: store.peek.bind(store),
    give: store.give.bind(store),
    charge: store.charge.bind(store),
    reset: store.reset.bind(store),
    health: store.health.bind(store),
    remote: store.remote,
    inspector: store.inspector,
    exchange: store.exchange,
  }
}
