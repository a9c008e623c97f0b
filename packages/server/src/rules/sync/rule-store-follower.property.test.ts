import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { memoryRuleStore } from '../store/memory-rule-store.test-helper.js'
import { type Change, overrideKey } from '../store/records.js'
import type { RuleCatalog } from './rule-catalog.js'
import {
  closeNodes,
  commit,
  keyOf,
  limitOf,
  newStore,
  overrideOf,
  ruleOf,
  setOf,
  startNode,
  type TestNode,
} from './rule-store-follower.test-helper.js'
import { propertyRuns } from '../../../../../tools/property-runs.js'

const IDS = ['a', 'b', 'c']
const USERS = ['u1', 'u2', 'u3']
const BYS = [['user'], ['user', 'plan'], []]

const id = fc.constantFrom(...IDS)
const user = fc.constantFrom(...USERS)
const max = fc.integer({ min: 1, max: 900 })

/** What one commit changes; of the same record the last counts. */
const change: fc.Arbitrary<Change> = fc.oneof(
  { weight: 3, arbitrary: fc.tuple(id, max).map(([rule, most]) => ruleWith(rule, most)) },
  fc.tuple(id, fc.constantFrom(...BYS)).map(([rule, by]) => ruleOf(rule, { by })),
  id.map((rule) => ({ kind: 'rule', id: rule, body: null }) as const),
  fc.shuffledSubarray(IDS).map((order) => setOf(...order)),
  id.map((rule) => ({ kind: 'candidate', id: rule, body: { limits: ['3/second'] } }) as const),
  id.map((rule) => ({ kind: 'candidate', id: rule, body: null }) as const),
  {
    weight: 4,
    arbitrary: fc.tuple(id, user, max).map(([rule, who, most]) => overrideOf(rule, who, most)),
  },
  fc
    .tuple(id, user)
    .map(([rule, who]) => ({ kind: 'override', id: `${rule}/user=${who}`, body: null }) as const),
  fc.tuple(user, max).map(([key, plan]) => keyOf(key, `p${plan}`)),
  user.map((key) => ({ kind: 'key', id: key, body: null }) as const),
)

const ruleWith = (rule: string, most: number) => ruleOf(rule, { limits: [`${most}/second`] })

const step = fc.oneof(
  { weight: 6, arbitrary: fc.array(change, { minLength: 1, maxLength: 5 }) },
  fc.constantFrom('adopt', 'time', 'deaf', 'hears', 'down', 'up', 'cut'),
)

function catalogText(catalog: RuleCatalog): unknown {
  const overrides = catalog
    .rules()
    .flatMap(({ document }) =>
      catalog
        .overrides(document.id, undefined, 100)
        .map((override) => [overrideKey(document.id, override.id), override]),
    )
  const { position, rulesVersion, set, keySecret } = catalog
  return { position, rulesVersion, set, keySecret, rules: catalog.rules(), overrides }
}

async function decisionsOf(node: TestNode): Promise<unknown> {
  const plans = [{}, { plan: 'x' }]
  const callers = USERS.flatMap((who) => plans.map((plan) => [who, plan] as const))
  return Promise.all(callers.map(([who, plan]) => limitOf(node, who, plan)))
}

async function take(node: TestNode, what: string | readonly Change[]): Promise<void> {
  const { store, scheduler } = node
  if (typeof what !== 'string') {
    const changes = new Map(what.map((one) => [`${one.kind} ${one.id}`, one]))
    // A removed record no longer has a version, so every editor changes the set with it.
    const isLess = what.some(({ kind, body }) => body === null && kind !== 'key')
    if (isLess && !changes.has('set main')) changes.set('set main', setOf(...IDS))
    await commit(store, ...changes.values())
  }
  if (what === 'adopt') await store.adopt(0, 'test', undefined)
  if (what === 'time') await scheduler.advance(300)
  if (what === 'deaf') store.isDeaf = true
  if (what === 'hears') store.isDeaf = false
  if (what === 'down') store.fault = 'refused'
  if (what === 'cut') store.fault = 'cut'
  if (what === 'up') store.fault = 'none'
}

test('after any changes and lost notifications, a node has the state of one that starts now', async () => {
  const property = fc.asyncProperty(
    fc.array(step, { maxLength: 25 }),
    fc.boolean(),
    async (steps, isForgetful) => {
      const target = isForgetful ? memoryRuleStore({ recentChangesMax: 5 }) : newStore()
      const node = await startNode(target)
      for (const one of steps) await take(node, one)
      node.store.fault = 'none'
      node.store.isDeaf = false
      // The next notification makes up for lost ones.
      await commit(target, keyOf('last', 'p'))
      await node.scheduler.advance(10_000)

      const fresh = await startNode(target)
      expect(catalogText(node.follower.catalog)).toEqual(catalogText(fresh.follower.catalog))
      expect(await decisionsOf(node)).toEqual(await decisionsOf(fresh))
      expect(node.follower.version()).toBe(fresh.follower.version())
      expect(isDeepStrictEqual(node.keys.inUse, fresh.keys.inUse)).toBe(true)
      await closeNodes()
    },
  )
  await fc.assert(property, { numRuns: propertyRuns(150) })
})
