import { expect, test } from 'vitest'
import { createCatalog } from '../../rules/sync/rule-catalog.js'
import { MAIN_ID, type StoredRecord } from '../../rules/store/records.js'
import { describeInFlight, InFlightPeaks, mergeInFlight } from './in-flight.js'
import type { InFlightSnapshot, NodeSnapshot } from './node-snapshot.js'
import { makeNode } from './stats.test-helper.js'

const BACKEND = {
  rule: 'backend',
  max: 80,
  isPerNode: true,
  isPerCaller: false,
  ceilings: [],
}

function catalogOf(rule: Readonly<Record<string, unknown>>) {
  const catalog = createCatalog()
  const set = { routes: [], strictPaths: false, priorities: ['critical', 'writes', 'reads'] }
  const records: readonly StoredRecord[] = [
    { kind: 'rule', id: 'backend', body: { id: 'backend', ...rule }, version: 1 },
    { kind: 'set', id: MAIN_ID, body: { ...set, order: ['backend'] }, version: 1 },
  ]
  catalog.addChunk({ isWhole: true, records, position: { version: 1, mark: '', lineage: '' } })
  return catalog
}

test('calls in flight have the ceilings of priorities, unless each caller has a limit of its own', () => {
  const headroom = { critical: '10%', writes: '10%' }
  const limits = [{ algorithm: 'concurrency', max: 80 }]
  const rule = { limits, headroom, coordination: 'node' }
  const catalog = catalogOf({ by: [], ...rule })
  const calls = new Map([
    ['backend', { inFlight: 30, max: 80 }],
    ['unknown', { inFlight: 1, max: 5 }],
  ])
  expect(describeInFlight(calls, catalog)).toEqual([
    {
      rule: 'backend',
      inFlight: 30,
      max: 80,
      isPerNode: true,
      isPerCaller: false,
      ceilings: [
        { priority: 'writes', ceiling: 72 },
        { priority: 'reads', ceiling: 64 },
      ],
    },
  ])
  const perUser = { isPerNode: true, isPerCaller: true, ceilings: [] }
  expect(describeInFlight(calls, catalogOf({ by: ['user'], ...rule }))).toMatchObject([perUser])
})

test('the peak of an hour is the most that a tick saw in it', () => {
  const peaks = new InFlightPeaks()
  const record = (minute: number, inFlight: number) =>
    peaks.record([{ ...BACKEND, inFlight }], minute)
  record(100, 30)
  record(100, 20)
  record(159, 10)
  expect(peaks.get('backend', 159)).toBe(30)
  expect(peaks.get('backend', 160)).toBe(10)
  record(160, 5)
  expect(peaks.get('backend', 160)).toBe(10)
  expect(peaks.get('backend', 219)).toBe(5)
  peaks.record([], 220)
  expect(peaks.get('backend', 220)).toBe(0)
})

const nodeWith = (inFlight: readonly InFlightSnapshot[]): NodeSnapshot => ({
  ...makeNode().snapshot(),
  inFlight,
})

test('the calls of a shared limit are summed, of one for each node the busiest is shown', () => {
  const shared = { rule: 'shared', max: 20, isPerNode: false, isPerCaller: false, ceilings: [] }
  const merged = mergeInFlight([
    nodeWith([
      { ...BACKEND, inFlight: 30, peak: 40 },
      { ...shared, inFlight: 4, peak: 6 },
    ]),
    nodeWith([
      { ...BACKEND, inFlight: 50, peak: 50 },
      { ...shared, inFlight: 12, peak: 12 },
    ]),
    { ...makeNode().snapshot(), inFlight: undefined },
  ])
  expect(merged).toEqual([
    { ...shared, inFlight: 16, peak: 18 },
    { ...BACKEND, inFlight: 50, peak: 50 },
  ])
})
