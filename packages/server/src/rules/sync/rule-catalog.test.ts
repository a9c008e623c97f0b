import { describe, expect, test } from 'vitest'
import type { StoredRecord } from '../store/records.js'
import { createCatalog } from './rule-catalog.js'

const at = (version: number) => ({ version, mark: `m${version}`, lineage: 'l' })
const rule = (id: string, version: number, fields: object = {}): StoredRecord => ({
  kind: 'rule',
  id,
  version,
  body: { id, limits: ['10/second'], ...fields },
})
const set = (order: readonly string[], version: number): StoredRecord => ({
  kind: 'set',
  id: 'main',
  version,
  body: { routes: [], strictPaths: false, order },
})
const override = (id: string, version: number, max = 5): StoredRecord => ({
  kind: 'override',
  id,
  version,
  body: { caller: { user: id.slice(id.indexOf('=') + 1) }, limits: [`${max}/second`] },
})
const gone = (kind: 'rule' | 'candidate' | 'override' | 'token', id: string, version: number) =>
  ({ kind, id, version, body: null }) as StoredRecord

function catalogOf(...records: readonly StoredRecord[]) {
  const catalog = createCatalog()
  catalog.addChunk({ isWhole: true, records, position: at(1) })
  return catalog
}

describe('reads', () => {
  test('nothing of a read is visible before its last chunk', () => {
    const catalog = createCatalog()
    expect(
      catalog.addChunk({ isWhole: true, records: [rule('a', 1)], position: undefined }),
    ).toBeUndefined()
    expect(catalog.position).toBeUndefined()
    expect(catalog.rules()).toEqual([])
    const news = catalog.addChunk({ isWhole: false, records: [rule('b', 1)], position: at(1) })
    expect(news).toMatchObject({ isWhole: true, rulesChanged: true })
    expect(catalog.rules().map(({ document }) => document.id)).toEqual(['a', 'b'])
    expect(catalog.position).toEqual(at(1))

    catalog.addChunk({ isWhole: false, records: [gone('rule', 'a', 2)], position: undefined })
    expect(catalog.rules()).toHaveLength(2)
    catalog.addChunk({ isWhole: false, records: [], position: at(2) })
    expect(catalog.rules()).toHaveLength(1)
  })

  test('an incomplete read leaves nothing behind', () => {
    const catalog = catalogOf(rule('a', 1))
    catalog.addChunk({ isWhole: true, records: [rule('b', 2)], position: undefined })
    catalog.discardChunks()
    catalog.addChunk({ isWhole: false, records: [rule('c', 2)], position: undefined })
    catalog.discardChunks()
    catalog.addChunk({ isWhole: false, records: [rule('d', 2)], position: at(2) })
    expect(catalog.rules().map(({ document }) => document.id)).toEqual(['a', 'd'])
  })

  test('a whole read removes records that are not in it', () => {
    const token = { hash: '0', name: 'ci', role: 'read', createdAt: '' } as const
    const catalog = catalogOf(
      rule('a', 1),
      override('a/user=1', 1),
      { kind: 'token', id: 't', version: 1, body: token },
      { kind: 'secret', id: 'main', version: 1, body: { secret: 'ab' } },
    )
    expect(catalog.tokens()).toEqual([{ id: 't', document: token, version: 1 }])
    expect(catalog.keySecret).toBe('ab')
    const news = catalog.addChunk({ isWhole: true, records: [rule('b', 2)], position: at(2) })
    expect(catalog.rule('a')).toBeUndefined()
    expect(catalog.override('a', 'user=1')).toBeUndefined()
    expect(catalog.tokens()).toEqual([])
    expect(catalog.keySecret).toBeUndefined()
    expect([...(news?.overrides() ?? [])]).toMatchObject([{ key: 'a/user=1', after: undefined }])
  })

  test('an update lists what changed, with the documents before', () => {
    const catalog = catalogOf(rule('a', 1), override('a/user=1', 1), override('a/user=2', 1))
    const news = catalog.addChunk({
      isWhole: false,
      records: [override('a/user=1', 2, 9), gone('override', 'a/user=2', 2)],
      position: at(2),
    })
    expect(news).toMatchObject({ isWhole: false, rulesChanged: false })
    expect([...(news?.overrides() ?? [])]).toMatchObject([
      { key: 'a/user=1', before: { limits: ['5/second'] }, after: { limits: ['9/second'] } },
      { key: 'a/user=2', before: { limits: ['5/second'] }, after: undefined },
    ])
  })
})

describe('documents', () => {
  test('a document stays the same object while it is equal, in changes and in whole reads', () => {
    const catalog = catalogOf(rule('a', 1), rule('b', 1))
    const documents = () => catalog.rules().map(({ document }) => document)
    const before = documents()
    const news = catalog.addChunk({ isWhole: false, records: [rule('a', 2)], position: at(2) })
    expect(news?.rulesChanged).toBe(false)
    expect(catalog.rule('a')?.version).toBe(2)
    expect(catalog.rulesVersion).toBe(2)
    catalog.addChunk({ isWhole: true, records: [rule('a', 2), rule('b', 1)], position: at(3) })
    for (const [i, document] of documents().entries()) expect(document).toBe(before[i])
    catalog.addChunk({ isWhole: false, records: [rule('a', 4, { mode: 'off' })], position: at(4) })
    expect(documents()[0]).not.toBe(before[0])
    expect(documents()[1]).toBe(before[1])
  })

  test('the list of rules is the same array until something in it changes', () => {
    const catalog = catalogOf(rule('a', 1), set(['a'], 1), override('a/user=1', 1))
    const records: readonly StoredRecord[] = [
      rule('b', 2),
      rule('a', 3, { mode: 'off' }),
      { kind: 'candidate', id: 'a', version: 4, body: { limits: ['5/second'] } },
      set(['b', 'a'], 5),
      override('a/user=1', 6, 9),
      gone('override', 'a/user=1', 7),
      gone('candidate', 'a', 8),
      gone('rule', 'b', 9),
    ]
    for (const record of records) {
      const before = catalog.rules()
      const whole = catalog.set
      expect(catalog.rules()).toBe(before)
      catalog.addChunk({ isWhole: false, records: [record], position: undefined })
      expect(catalog.rules()).toBe(before)
      expect(catalog.set).toBe(whole)
      catalog.addChunk({ isWhole: false, records: [], position: at(record.version) })
      expect(catalog.rules()).not.toBe(before)
      expect(catalog.set.order).toEqual(catalog.rules().map(({ document }) => document.id))
    }
    const before = catalog.rules()
    catalog.addChunk({ isWhole: true, records: [rule('a', 9, { mode: 'off' })], position: at(10) })
    expect(catalog.rules()).not.toBe(before)
  })

  test('a document written by hand gets the id of its record', () => {
    const body = ['no', 'rule'] as never
    const catalog = catalogOf(
      { kind: 'rule', id: 'a', version: 1, body: { id: 'b', limits: [] } },
      { kind: 'rule', id: 'c', version: 1, body },
    )
    expect(catalog.rules().map(({ document }) => document)).toEqual([
      { id: 'a', limits: [] },
      { id: 'c' },
    ])
  })
})

describe('the set', () => {
  test('the set has the stored order, with rules that it does not name at the end', () => {
    const catalog = catalogOf(rule('a', 1), rule('b', 1), rule('c', 1), set(['c', 'gone', 'a'], 1))
    expect(catalog.set.order).toEqual(['c', 'a', 'b'])
    expect(catalog.rules().map(({ document }) => document.id)).toEqual(['c', 'a', 'b'])
    const news = catalog.addChunk({
      isWhole: false,
      records: [set(['a', 'b', 'c'], 2)],
      position: at(2),
    })
    expect(news?.rulesChanged).toBe(true)
    expect(catalog.rules().map(({ document }) => document.id)).toEqual(['a', 'b', 'c'])
  })

  test('the version of the set changes with rules, candidates and order, and with nothing else', () => {
    const catalog = catalogOf(rule('a', 1))
    const body = { limits: ['5/second'] }
    const takes: readonly [StoredRecord, number][] = [
      [override('a/user=1', 2), 1],
      [{ kind: 'candidate', id: 'a', version: 3, body }, 3],
      [set(['a'], 4), 4],
      [gone('token', 't', 5), 4],
      [gone('candidate', 'a', 6), 6],
    ]
    for (const [record, rulesVersion] of takes) {
      catalog.addChunk({ isWhole: false, records: [record], position: at(record.version) })
      expect(catalog.rulesVersion).toBe(rulesVersion)
    }
    expect(catalog.rule('a')).toEqual({
      document: { id: 'a', limits: ['10/second'] },
      candidate: undefined,
      version: 1,
      overrideCount: 1,
    })
  })
})

describe('overrides', () => {
  test('overrides are paged in the order of ids, whatever is added and removed between pages', () => {
    const ids = Array.from({ length: 3000 }, (_, i) => `user=${(i * 7919) % 3000}`)
    const catalog = catalogOf(rule('a', 1), ...ids.map((id) => override(`a/${id}`, 1)))
    const all = () => {
      const found: string[] = []
      for (let after: string | undefined; ; after = found.at(-1)) {
        const page = catalog.overrides('a', after, 700).map(({ id }) => id)
        if (page.length === 0) return found
        found.push(...page)
      }
    }
    expect(all()).toEqual(ids.toSorted())
    expect(catalog.rule('a')?.overrideCount).toBe(3000)
    const records = [override('a/user=10x', 2), gone('override', 'a/user=5', 2)]
    catalog.addChunk({ isWhole: false, records, position: at(2) })
    expect(all()).toEqual([...ids.filter((id) => id !== 'user=5'), 'user=10x'].sort())
    expect(catalog.override('a', 'user=10x')?.version).toBe(2)
    expect([...catalog.allOverrides('a')]).toHaveLength(3000)
    expect(catalog.overrides('b', undefined, 10)).toEqual([])
  })
})
