/**
 * The suite that every store must pass. It works with any test runner:
 *
 *     for (const { name, run } of storeConformance(makeStore)) test(name, run)
 */
import { groupCases } from './group-cases.js'
import { healthCases } from './health-cases.js'
import { meteredCases } from './metered-cases.js'
import type { ConformanceCase, MakeStore } from './conformance-kit.js'
import { placeCases } from './place-cases.js'
import { verbCases } from './verb-cases.js'

export type { ConformanceCase, StoreUnderTest } from './conformance-kit.js'

/** `makeStore` returns an empty store that reads its time from the clock returned with it. */
export function storeConformance(makeStore: MakeStore): readonly ConformanceCase[] {
  const cases = [...groupCases, ...meteredCases, ...verbCases, ...placeCases, ...healthCases]
  return cases.map(({ name, run }) => ({
    name,
    run: async () => {
      const store = await makeStore()
      try {
        await run(store)
      } finally {
        await store.store.close()
      }
    },
  }))
}
