import { deflateRawSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import type { NodeSnapshot, CallerSnapshot, ShadowCallerSnapshot } from './node-snapshot.js'
import { decodeSnapshot, encodeSnapshot } from './node-snapshot-codec.js'
import { makeNode } from './stats.test-helper.js'

function snapshotOf(more: Partial<NodeSnapshot> = {}): NodeSnapshot {
  const node = makeNode()
  node.pass(30, () => node.call('u1', 3, { plan: 'trial' }))
  return { ...node.snapshot(), ...more }
}

const textOf = (value: unknown) => deflateRawSync(JSON.stringify(value)).toString('base64')

const CALLER: CallerSnapshot = {
  rule: 'tight',
  hash: '00ff',
  caller: { user: '<b>ünï</b>' },
  plan: null,
  refusals: 3,
  refusalsError: 0,
  use: 2,
  useError: 1,
  zeroSinceMs: 5,
  lastSeenMs: 9,
  hours: 1,
}

const SHADOW_CALLER: ShadowCallerSnapshot = {
  rule: 'tight',
  hash: '00ff',
  caller: { user: 'u1' },
  plan: null,
  shadowRefusals: 3,
  shadowRefusalsError: 1,
  candidateRefusals: 0,
  candidateRefusalsError: 0,
  lastSeenMs: 9,
}

describe('an encoded snapshot', () => {
  test('is decoded unchanged', async () => {
    const snapshot = snapshotOf({ callers: [CALLER], shadowCallers: [SHADOW_CALLER] })
    expect(await decodeSnapshot(await encodeSnapshot(snapshot))).toEqual(snapshot)
  })

  test('is much shorter than its JSON', async () => {
    const snapshot = snapshotOf()
    expect((await encodeSnapshot(snapshot)).length).toBeLessThan(
      JSON.stringify(snapshot).length / 2,
    )
  })

  test('leaves out the least busy rules with their callers if it would be too long', async () => {
    const snapshot = snapshotOf()
    const [rule] = snapshot.rules
    if (rule === undefined) throw new Error('no rule')
    // Text that does not compress well.
    const sketch = (i: number) => Buffer.from(`${Math.sin(i)}${Math.cos(i)}`).toString('base64')
    const many = {
      ...snapshot,
      rules: Array.from({ length: 100 }, (_, i) => ({ ...rule, rule: `r${i}`, sketch: sketch(i) })),
      callers: Array.from({ length: 100 }, (_, i) => ({ ...CALLER, rule: `r${99 - i}` })),
    }
    const text = await encodeSnapshot(many, { lengthMax: 4000 })
    expect(text.length).toBeLessThanOrEqual(4000)
    const read = await decodeSnapshot(text)
    const kept = read?.rules.length ?? 0
    expect(kept).toBeGreaterThan(5)
    expect(read?.rules).toEqual(many.rules.slice(0, kept))
    expect(read?.callers).toEqual(many.callers.slice(-kept))
    expect(read?.total).toEqual(snapshot.total)
  })

  test('leaves out shadow callers before any rule if it would be too long', async () => {
    const snapshot = snapshotOf({ callers: [CALLER] })
    const crowd = Array.from({ length: 1000 }, (_, i) => ({
      ...SHADOW_CALLER,
      hash: `${Math.sin(i)}`,
    }))
    const room = (await encodeSnapshot(snapshot)).length + 100
    const read = await decodeSnapshot(
      await encodeSnapshot({ ...snapshot, shadowCallers: crowd }, { lengthMax: room }),
    )
    expect(read).toEqual({ ...snapshot, shadowCallers: [] })
  })

  test('is refused if it is too long without any rules', async () => {
    await expect(encodeSnapshot(snapshotOf(), { lengthMax: 10 })).rejects.toThrow(
      'node snapshot too long even without rules',
    )
  })

  test.each([
    ['nothing', ''],
    ['no base64', '\u0000ß'],
    ['nothing compressed', Buffer.from('{"format":1}').toString('base64')],
    ['no JSON', deflateRawSync('{"format":').toString('base64')],
    ['null', textOf(null)],
    ['a list', textOf([])],
  ])('is left out if it is %s', async (_, text) => {
    expect(await decodeSnapshot(text)).toBeUndefined()
  })

  test('is ignored if it has another format or is truncated', async () => {
    const snapshot = snapshotOf()
    expect(await decodeSnapshot(textOf(snapshot))).toEqual(snapshot)
    expect(await decodeSnapshot(textOf({ ...snapshot, format: 2 }))).toBeUndefined()
    const text = textOf(snapshot)
    expect(await decodeSnapshot(text.slice(0, text.length / 2))).toBeUndefined()
    // Nodes of earlier releases publish less.
    const later = ['problem', 'shadowCallers', 'priorities', 'inFlight']
    const fields = Object.entries(snapshot).filter(([field]) => !later.includes(field))
    const needed = Object.fromEntries(fields)
    expect(await decodeSnapshot(textOf(needed))).toEqual(needed)
    for (const field of Object.keys(needed)) {
      expect(
        await decodeSnapshot(textOf({ ...snapshot, [field]: undefined })),
        field,
      ).toBeUndefined()
    }
  })

  test.each([
    [
      'a count below 0',
      { total: { ...snapshotOf().total, allowed: snapshotOf().total.allowed.with(0, -1) } },
    ],
    ['lists of two lengths', { total: { ...snapshotOf().total, refused: [] } }],
    ['a count that is a text', { atMs: '5' }],
    ['a problem that is no text', { problem: 5 }],
    ['a time that no date has', { callers: [{ ...CALLER, lastSeenMs: 1e16 }] }],
    ['a step that is no whole number', { minutes: { ...snapshotOf().minutes, end: 0.5 } }],
    ['a place without a count', { decisions: { bounds: [1], steps: [[0]] } }],
    ['a rule without a name', { rules: [{ ...snapshotOf().rules[0], rule: 7 }] }],
    ['a caller that is a text', { callers: [{ ...CALLER, caller: 'u1' }] }],
    ['a caller whose attribute is a list', { callers: [{ ...CALLER, caller: { user: [] } }] }],
    ['would-be refusals below 0', { shadowCallers: [{ ...SHADOW_CALLER, shadowRefusals: -1 }] }],
    ['would-be refusals that are no list', { shadowCallers: {} }],
    ['a store without nodes', { storeHealth: { ...snapshotOf().storeHealth, nodes: null } }],
  ])('is left out if it has %s', async (_, damage) => {
    expect(await decodeSnapshot(textOf({ ...snapshotOf(), ...damage }))).toBeUndefined()
  })

  test('with an alert of another release is decoded without that alert', async () => {
    const alert = {
      id: 'store-slow:10.0.0.1:6379',
      alert: 'store-slow',
      severity: 'ticket',
      subject: '10.0.0.1:6379',
      summary: 'slow',
      details: {},
      since: '2027-01-15T08:00:00.000Z',
      resolvedAt: null,
      node: 'n1',
      runbook: 'runbook.md#store-slow',
    } as const
    const snapshot = snapshotOf()
    const later = { ...alert, alert: 'of-a-later-release' }
    const alerts = { active: [later, alert], recent: [later] }
    const read = await decodeSnapshot(textOf({ ...snapshot, alerts }))
    expect(read?.alerts).toEqual({ active: [alert], recent: [] })
    expect(
      await decodeSnapshot(textOf({ ...snapshot, alerts: { active: [{}], recent: [] } })),
    ).toBe(undefined)
  })

  test('that would expand too much is not decompressed', async () => {
    const bomb = deflateRawSync(Buffer.alloc(64 * 1024 * 1024)).toString('base64')
    expect(await decodeSnapshot(bomb)).toBeUndefined()
  })
})
