/** What is reserved for a priority stays free for it, however nodes share the counter. */
import { describe, expect, test } from 'vitest'
import { type Node, nodeOf } from './node.test-helper.js'

const LIMITS = [
  { algorithm: 'fixed-window', max: 100, window: '1h' },
  { algorithm: 'sliding-window-counter', max: 100, window: '1h' },
  { algorithm: 'token-bucket', max: 100, window: '1h' },
]

const fleet = (limit: object, more: object = {}) => ({
  priorities: ['critical', 'writes', 'reads'],
  rules: [{ id: 'fleet', by: [], limits: [limit], headroom: { critical: '20%' }, ...more }],
})

/** How many of `count` calls of a priority are admitted. */
async function admitted(node: Node, priority: string, count = 150): Promise<number> {
  let allowed = 0
  for (let i = 0; i < count; i++) {
    const decision = await node.limiter.check({ attributes: { priority } })
    if (decision.allowed) allowed += 1
  }
  return allowed
}

describe.each(['exact', 'leased', 'local', 'split'])('with coordination %s', (coordination) => {
  test.each(LIMITS)(
    'others stop at the ceiling, and $algorithm keeps the reserve',
    async (limit) => {
      const node = await nodeOf(fleet(limit, { coordination }))
      expect(await admitted(node, 'reads')).toBe(80)
      expect(await admitted(node, 'writes')).toBe(0)
      expect(await admitted(node, 'critical')).toBe(20)
      expect(await admitted(node, 'reads')).toBe(0)
    },
  )

  test.each(LIMITS)('critical calls may use all of $algorithm', async (limit) => {
    const node = await nodeOf(fleet(limit, { coordination }))
    expect(await admitted(node, 'critical', 60)).toBe(60)
    expect(await admitted(node, 'reads')).toBe(20)
    expect(await admitted(node, 'critical')).toBe(20)
    expect(await admitted(node, 'reads')).toBe(0)
  })
})

test('a node with a part of the limit has a part of the reserve', async () => {
  const [limit = {}] = LIMITS
  const node = await nodeOf(fleet(limit, { coordination: 'split' }))
  node.store.nodes = 2
  expect(await admitted(node, 'reads')).toBe(40)
  expect(await admitted(node, 'critical')).toBe(10)
})

test.each(LIMITS)(
  'while the store is silent, the share of $algorithm has a reserve',
  async (limit) => {
    const node = await nodeOf(fleet(limit))
    node.store.nodes = 2
    node.store.take = async (groups) => groups.map((takes) => takes.map(() => 'unknown' as const))
    expect(await admitted(node, 'reads')).toBe(40)
    expect(await admitted(node, 'critical')).toBe(10)
    expect(await admitted(node, 'reads')).toBe(0)
  },
)

test('the refusal of a low priority is not remembered for a higher one', async () => {
  const [limit = {}] = LIMITS
  const node = await nodeOf(fleet(limit))
  expect(await admitted(node, 'reads')).toBe(80)
  const remembered = await node.limiter.check({ attributes: { priority: 'reads' } })
  expect(remembered).toMatchObject({ allowed: false, source: 'deny-cache', limit: 80 })
  const critical = await node.limiter.check({ attributes: { priority: 'critical' } })
  expect(critical).toMatchObject({ allowed: true, source: 'store', limit: 100, remaining: 19 })
})
