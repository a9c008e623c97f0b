/** Holds the validator of snapshots, which is written by hand, to the schema of @sluice/api. */
import {
  ALERT_DETAILS_MAX,
  LATENCY_BOUNDS_MAX,
  LEFT_BOUNDS,
  MINUTE_BUCKETS,
  type NodeSnapshot,
  nodeSnapshot,
  SNAPSHOT_ALERTS_MAX,
  SNAPSHOT_RULES_MAX,
  STORE_NODES_MAX,
  TIME_MAX,
} from '@sluice/api/node-snapshots'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { propertyRuns } from '../../../../../tools/property-runs.js'
import { makeNode } from './stats.test-helper.js'
import { isNodeSnapshot } from './validate-snapshot.js'

const IDENTITY = { rule: 'tight', hash: '00ff', caller: { user: 'u1' }, plan: null, lastSeenMs: 9 }

const ALERT = {
  id: 'breaker-open',
  alert: 'breaker-open',
  severity: 'page',
  subject: 'store',
  summary: 'The store does not answer.',
  details: { rules: ['a'], count: 1, state: 'open' },
  since: '2026-01-01T00:00:00.000Z',
  resolvedAt: null,
  node: 'n1',
  runbook: 'https://example.com',
} as const

function wholeSnapshot(): NodeSnapshot {
  const node = makeNode()
  node.pass(30, () => node.call('u1', 3, { plan: 'trial' }))
  const snapshot = node.snapshot()
  const [rule] = snapshot.rules
  const storeNode = { address: 'a', isAnswering: true, isBreakerOpen: false, clockOffsetMs: -1.5 }
  const counted = { refusals: 3, refusalsError: 0, use: 2.5, useError: 1 }
  const shadow = { shadowRefusals: 3, shadowRefusalsError: 1 }
  const candidate = { candidateRefusals: 0, candidateRefusalsError: 0 }
  return {
    ...snapshot,
    problem: null,
    decisions: { bounds: [0.001, 0.01], steps: [[0, 3, 2, 1], []] },
    storeHealth: { ...snapshot.storeHealth, nodes: [storeNode] },
    rules: rule === undefined ? [] : [rule, { ...rule, refusingSinceMs: 5, sketch: 'AA==' }],
    callers: [
      { ...IDENTITY, ...counted, zeroSinceMs: 5, hours: 1, isRefilled: true, isEverybody: false },
    ],
    priorities: [{ priority: 'reads', series: snapshot.total }],
    inFlight: [
      {
        rule: 'backend',
        inFlight: 7,
        peak: 9,
        max: 40,
        isPerNode: true,
        isPerCaller: false,
        ceilings: [{ priority: 'reads', ceiling: 36 }],
      },
    ],
    shadowCallers: [{ ...IDENTITY, ...shadow, ...candidate, lastRefusedCall: 'GET /' }],
    alerts: { active: [ALERT], recent: [{ ...ALERT, resolvedAt: ALERT.since }] },
    sealedNames: 'x',
  }
}

type Step = string | number
const JSON_TEXT = JSON.stringify(wholeSnapshot())

/** The path of every value inside a value, itself included. */
function pathsOf(value: unknown, path: readonly Step[] = []): readonly (readonly Step[])[] {
  if (typeof value !== 'object' || value === null) return [path]
  const steps: readonly Step[] = Array.isArray(value) ? [...value.keys()] : Object.keys(value)
  const inner = steps.map((step) => (value as Readonly<Record<Step, unknown>>)[step])
  return [path, ...steps.flatMap((step, i) => pathsOf(inner[i], [...path, step]))]
}

/** The snapshot with one value replaced; undefined: left out. */
function withChange(path: readonly Step[], change: (value: unknown) => unknown): unknown {
  const root = { snapshot: JSON.parse(JSON_TEXT) as unknown }
  let holder = root as Record<Step, unknown>
  let last: Step = 'snapshot'
  for (const step of path) {
    holder = holder[last] as Record<Step, unknown>
    last = step
  }
  holder[last] = change(holder[last])
  const text = JSON.stringify(root)
  return (JSON.parse(text) as { snapshot?: unknown }).snapshot
}

const agree = (value: unknown) => isNodeSnapshot(value) === nodeSnapshot.safeParse(value).success

const PATHS = pathsOf(JSON.parse(JSON_TEXT)).filter((path) => !/^\d{2,}$/.test(String(path.at(-1))))
const REPLACEMENTS: readonly unknown[] = JSON.parse(`[
  null, true, false, "", "x", "page", "degraded", [], {}, [1], ["x"], [1, 2, 3], {"a": 1},
  {"a": "x"}, 0, 1, 2, -1, -0.5, 1.5, 9007199254740992, 1e300, ${TIME_MAX}, ${TIME_MAX + 1}
]`) as readonly unknown[]

const repeated = (count: number) => (list: unknown) =>
  Array.from({ length: count }, () => (list as readonly unknown[])[0])

const LISTS: readonly (readonly [string, number, readonly Step[]])[] = [
  ['rules', SNAPSHOT_RULES_MAX, ['rules']],
  ['places', LEFT_BOUNDS.length, ['rules', 0, 'left']],
  ['bounds', LATENCY_BOUNDS_MAX, ['decisions', 'bounds']],
  ['pairs', 2 * (LATENCY_BOUNDS_MAX + 1), ['decisions', 'steps', 0]],
  ['buckets of latencies', MINUTE_BUCKETS, ['decisions', 'steps']],
  ['store nodes', STORE_NODES_MAX, ['storeHealth', 'nodes']],
  ['active alerts', SNAPSHOT_ALERTS_MAX, ['alerts', 'active']],
  ['resolved alerts', SNAPSHOT_ALERTS_MAX, ['alerts', 'recent']],
  ['details', ALERT_DETAILS_MAX, ['alerts', 'active', 0, 'details', 'rules']],
]

describe('the validator of snapshots', () => {
  test('accepts a snapshot with every field, as the schema does', () => {
    const snapshot: unknown = JSON.parse(JSON_TEXT)
    expect([isNodeSnapshot(snapshot), nodeSnapshot.safeParse(snapshot).success]).toEqual([
      true,
      true,
    ])
  })

  test.each(LISTS)('agrees with the schema about the longest list of %s', (_name, most, path) => {
    const longest = withChange(path, repeated(most))
    const tooLong = withChange(path, repeated(most + 2))
    expect([isNodeSnapshot(longest), agree(longest)]).toEqual([true, true])
    expect([isNodeSnapshot(tooLong), agree(tooLong)]).toEqual([false, true])
  })

  test('agrees with the schema about snapshots in which one value is replaced', () => {
    const change = fc.tuple(fc.constantFrom(...PATHS), fc.constantFrom(undefined, ...REPLACEMENTS))
    let accepted = 0
    fc.assert(
      fc.property(change, ([path, value]) => {
        const changed = withChange(path, () => value)
        if (isNodeSnapshot(changed)) accepted++
        if (!agree(changed)) throw new Error(`${path.join('.')} = ${JSON.stringify(value)}`)
      }),
      { numRuns: propertyRuns(5000) },
    )
    expect(accepted).toBeGreaterThan(0)
  })
})
