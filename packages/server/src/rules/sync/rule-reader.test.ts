import { expect, test } from 'vitest'
import { MAIN_ID, type StoredRecord } from '../store/records.js'
import { createCatalog } from './rule-catalog.js'
import { RuleReader } from './rule-reader.js'
import { ruleOf } from './rule-store-follower.test-helper.js'

async function modesOf(shed: object, isShadowed: (id?: string) => boolean) {
  const catalog = createCatalog()
  const fields = { routes: [], strictPaths: false, priorities: ['reads'], shed }
  const records: readonly StoredRecord[] = [
    { ...ruleOf('a'), version: 1 },
    { kind: 'set', id: MAIN_ID, body: { ...fields, order: ['a'] }, version: 1 },
  ]
  catalog.addChunk({ isWhole: true, records, position: { version: 1, mark: '', lineage: '' } })
  const { parsed, fields: read } = await new RuleReader().read(catalog, new Map(), isShadowed)
  expect(read.shed).toEqual(shed)
  return { rule: parsed.rules?.rules[0]?.mode, shed: parsed.rules?.shed?.mode }
}

test('a timed shadow of all rules covers what a busy process sheds, and one of a rule does not', async () => {
  const shed = { loop: '50ms' }
  expect(await modesOf(shed, () => true)).toEqual({ rule: 'shadow', shed: 'shadow' })
  const onlyRule = (id?: string) => id !== undefined
  expect(await modesOf(shed, onlyRule)).toEqual({ rule: 'shadow', shed: 'enforce' })
  expect(await modesOf(shed, () => false)).toEqual({ rule: 'enforce', shed: 'enforce' })
  expect(await modesOf({ ...shed, mode: 'off' }, () => true)).toEqual({
    rule: 'shadow',
    shed: 'off',
  })
})
