import { expect, test } from 'vitest'
import type { Alert } from '../alerts/alert.js'
import { FleetStats } from './fleet-stats.js'
import { CLEAR, HASHED, SEALED } from './name-protection.test-helper.js'
import type { NameProtection } from './name-protection.js'
import type { NodeSnapshot, CallerSnapshot, ShadowCallerSnapshot } from './node-snapshot.js'
import { hideNames, revealNames } from './published-names.js'
import { TextSealer } from './sealed-text.js'
import { decodeSnapshot, encodeSnapshot } from './node-snapshot-codec.js'
import { BEGAN_MS, makeNode } from './stats.test-helper.js'

const NAMES = /alice|gold|bob/

const HASH = '00112233aabbccdd'
const CALLER: CallerSnapshot = {
  rule: 'tight',
  hash: HASH,
  caller: { user: 'alice' },
  plan: 'gold',
  refusals: 9,
  refusalsError: 0,
  use: 1,
  useError: 0,
  zeroSinceMs: BEGAN_MS,
  lastRefusedCall: 'GET /people/alice',
  lastSeenMs: BEGAN_MS,
  hours: 1,
}
const SHADOW_CALLER: ShadowCallerSnapshot = {
  rule: 'tried',
  hash: 'ff112233aabbccdd',
  caller: { user: 'bob' },
  plan: null,
  shadowRefusals: 3,
  shadowRefusalsError: 0,
  candidateRefusals: 0,
  candidateRefusalsError: 0,
  lastRefusedCall: 'GET /people/bob',
  lastSeenMs: BEGAN_MS,
}
const ALERT: Alert = {
  id: `caller-exhausted:tight/${HASH}`,
  alert: 'caller-exhausted',
  severity: 'ticket',
  subject: `tight/${HASH}`,
  summary: `Caller ${HASH} of rule "tight" has had nothing left for 6 minutes.`,
  details: {
    rule: 'tight',
    hash: HASH,
    caller: ['user=alice'],
    lastRefusedCall: 'GET /people/alice',
  },
  since: new Date(BEGAN_MS).toISOString(),
  resolvedAt: null,
  node: 'n2',
  runbook: 'runbook.md#caller-exhausted',
}

function snapshotOf(more: Partial<NodeSnapshot> = {}): NodeSnapshot {
  return {
    ...makeNode({ id: 'n2' }).snapshot(),
    callers: [CALLER, { ...CALLER, hash: '01', caller: {}, plan: null, lastRefusedCall: null }],
    shadowCallers: [SHADOW_CALLER],
    alerts: { active: [ALERT], recent: [{ ...ALERT, resolvedAt: ALERT.since }] },
    ...more,
  }
}

const published = (names: NameProtection, snapshot = snapshotOf()) =>
  encodeSnapshot(snapshot, { hide: (whole) => hideNames(whole, names) })

test('a node with the secret restores a snapshot with sealed names completely', async () => {
  const text = await published(SEALED)
  const read = await decodeSnapshot(text)
  expect(JSON.stringify({ ...read, sealedNames: '' })).not.toMatch(NAMES)
  expect(read && revealNames(read, HASHED)).toEqual(snapshotOf())
})

test.each([SEALED, HASHED])(
  'a snapshot published as $form has hashes and no names',
  async (names) => {
    const read = await decodeSnapshot(await published(names))
    expect(JSON.stringify(read)).not.toMatch(NAMES)
    // A node of an earlier release reads everything except the names.
    expect(read).toMatchObject({
      callers: [{ hash: HASH, caller: {}, plan: null, refusals: 9 }, { hash: '01' }],
      shadowCallers: [{ hash: 'ff112233aabbccdd', caller: {}, shadowRefusals: 3 }],
      alerts: { active: [{ id: ALERT.id, details: { rule: 'tight', hash: HASH } }] },
    })
  },
)

test('a snapshot published in clear, as by earlier releases, is unchanged', async () => {
  const read = await decodeSnapshot(await published(CLEAR))
  expect(read && revealNames(read, SEALED)).toEqual(snapshotOf())
})

test('names are not applied to rows that they were not sealed for', async () => {
  const read = await decodeSnapshot(await published(SEALED))
  if (read === undefined) throw new Error('not read')
  const swapped = { ...read, callers: read.callers.toReversed() }
  expect(JSON.stringify(revealNames(swapped, SEALED))).not.toMatch(NAMES)
  const moved = { ...read, node: { ...read.node, id: 'n3' } }
  expect(JSON.stringify(revealNames(moved, SEALED))).not.toMatch(NAMES)
  const foreign = { form: 'sealed', sealer: new TextSealer(Buffer.alloc(16)) } as const
  expect(JSON.stringify(revealNames(read, foreign))).not.toMatch(NAMES)
})

test('a snapshot with names in an unknown format is read without names', () => {
  const { callers, shadowCallers, ...snapshot } = snapshotOf()
  const context = [snapshot.node.id, callers.length]
  const rows = [...callers, ...(shadowCallers ?? [])].map(({ rule, hash }) => `${rule} ${hash}`)
  const sealedNames = SEALED.sealer.seal('{"other":1}', [...context, ...rows].join('\n'))
  const read = { ...snapshot, callers, shadowCallers, sealedNames }
  expect(SEALED.sealer.open(sealedNames, [...context, ...rows].join('\n'))).toBe('{"other":1}')
  expect(revealNames(read, SEALED)).toEqual({ ...snapshot, callers, shadowCallers })
})

test('a snapshot that is too long is shortened with its names', async () => {
  const snapshot = snapshotOf()
  const [rule] = makeNode().snapshot().rules
  const rules = Array.from({ length: 100 }, (_, i) => ({
    rule: `r${i}`,
    series: { end: 0, allowed: [], refused: [], shadowRefused: [], degraded: [] },
    candidate: null,
    refusingSinceMs: null,
    sketch: `${Math.sin(i)}`,
    left: [],
  }))
  const callers = rules.map((each) => ({ ...CALLER, rule: each.rule }))
  const text = await encodeSnapshot(
    { ...snapshot, rules: rule === undefined ? rules : [rule, ...rules], callers },
    { hide: (whole) => hideNames(whole, SEALED), lengthMax: 4000 },
  )
  expect(text.length).toBeLessThanOrEqual(4000)
  const read = await decodeSnapshot(text)
  const opened = read && revealNames(read, SEALED)
  expect(opened?.callers.length).toBeGreaterThan(3)
  expect(opened?.callers).toEqual(callers.slice(0, opened?.callers.length))
})

/** A node that reads callers which another one published only by their hash. */
function readingNode(knows: boolean) {
  const node = makeNode({ id: 'n1' })
  const nameOf = () =>
    knows
      ? { caller: { user: 'alice' }, plan: 'gold', isEverybody: false, lastRefusedCall: null }
      : undefined
  return new FleetStats({
    own: { snapshot: () => node.snapshot(), rule: () => undefined, nameOf },
    exchange: { post: async () => {}, read: async () => [await published(HASHED)] },
    names: HASHED,
    clock: { now: () => node.nowMs },
  })
}

test('a caller published by its hash is named if this node knows it', async () => {
  const fleet = readingNode(true)
  const { callers } = await fleet.top('refusals', { limit: 1 })
  expect(callers).toMatchObject([{ hash: HASH, caller: { user: 'alice' }, plan: 'gold' }])
  const { active, recent } = await fleet.alerts()
  expect([...active, ...recent]).toMatchObject([
    { details: { hash: HASH, caller: ['user=alice'] } },
    { details: { hash: HASH, caller: ['user=alice'] } },
  ])
})

test('a caller published by its hash stays unnamed if this node does not know it', async () => {
  const fleet = readingNode(false)
  const { callers } = await fleet.top('refusals', { limit: 1 })
  expect(callers).toMatchObject([{ hash: HASH, caller: {}, plan: null, refusals: 9 }])
  expect((await fleet.alerts()).active).toMatchObject([{ id: ALERT.id }])
})
