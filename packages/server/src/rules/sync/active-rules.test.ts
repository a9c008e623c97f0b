import { createLimiter } from '@sluice/limiter'
import { expect, test } from 'vitest'
import { createMemoryLog } from '../../observability/log/memory-log.test-helper.js'
import { createCatalog } from './rule-catalog.js'
import { ActiveRules } from './active-rules.js'
import { ruleOf, setOf } from './rule-store-follower.test-helper.js'

test('rules that could not be read are activated with the next update, whatever it changes', async () => {
  const limiter = createLimiter({ rules: [] })
  const activeRules = new ActiveRules({ limiter, log: createMemoryLog().log })
  const catalog = createCatalog()
  const take = (version: number, records: readonly ReturnType<typeof ruleOf>[]) => {
    const position = { version, mark: '', lineage: '' }
    const stored = records.map((record) => ({ ...record, version }))
    const update = catalog.addChunk({ isWhole: version === 1, records: stored, position })
    if (update === undefined) throw new Error('found no news')
    return update
  }
  await activeRules.activate(catalog, take(1, [ruleOf('a'), setOf('a')]), () => {})
  const update = take(2, [ruleOf('a', { limits: ['20/second'] })])
  // A catalog that throws on every access.
  await expect(
    activeRules.activate(Object.create(catalog) as typeof catalog, update, () => {}),
  ).rejects.toThrow()
  expect(await activeRules.activate(catalog, take(3, []), () => {})).toBe(true)
  expect((await limiter.peek({ attributes: { user: 'u' } })).limit).toBe(20)
  await limiter.close()
})
