import { createLimiter } from '@sluice/limiter'
import { expect, test } from 'vitest'
import { createMemoryLog } from '../log/memory-log.test-helper.js'
import { createBook } from './book.js'
import { RulesInForce } from './in-force.js'
import { ruleOf, setOf } from './store-source.test-helper.js'

test('what could not be read at all is put into force with the next news, whatever that is', async () => {
  const limiter = createLimiter({ rules: [] })
  const inForce = new RulesInForce({ limiter, log: createMemoryLog().log })
  const book = createBook()
  const take = (version: number, records: readonly ReturnType<typeof ruleOf>[]) => {
    const position = { version, mark: '', lineage: '' }
    const stored = records.map((record) => ({ ...record, version }))
    const news = book.take({ isWhole: version === 1, records: stored, position })
    if (news === undefined) throw new Error('found no news')
    return news
  }
  await inForce.put(book, take(1, [ruleOf('a'), setOf('a')]), () => {})
  const news = take(2, [ruleOf('a', { limits: ['20/second'] })])
  // A book that nothing can be asked of.
  await expect(inForce.put(Object.create(book) as typeof book, news, () => {})).rejects.toThrow()
  expect(await inForce.put(book, take(3, []), () => {})).toBe(true)
  expect((await limiter.peek({ attributes: { user: 'u' } })).limit).toBe(20)
  await limiter.close()
})
