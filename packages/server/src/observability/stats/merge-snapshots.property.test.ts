import { type Decision, type RuleOutcome, UNMATCHED } from '@sluice/core'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { callWith } from '../../lib/normalized-call.test-helper.js'
import { DistinctCallers } from './distinct-callers.js'
import { mergeStats, nodeViews, tickOf } from './merge-snapshots.js'
import { decodeSnapshot, encodeSnapshot } from './node-snapshot-codec.js'
import { makeNode } from './stats.test-helper.js'
import { propertyRuns } from '../../../../../tools/property-runs.js'

/** One decision: its node, its second, and the outcome of its only rule. */
interface Event {
  readonly node: number
  readonly second: number
  readonly rule: string
  readonly outcome: RuleOutcome
  readonly candidate: RuleOutcome | undefined
  readonly isDegraded: boolean
  readonly caller: number
  readonly left: number
  readonly tookMs: number
}

const NODES = 4
const SECONDS = 50
const RULES = ['one', 'two', 'three']

const events = fc.array(
  fc.record<Event>({
    node: fc.nat(NODES - 1),
    second: fc.nat(SECONDS - 1),
    rule: fc.constantFrom(...RULES),
    outcome: fc.constantFrom('allowed', 'refused', 'shadow_refused'),
    candidate: fc.constantFrom(undefined, 'allowed', 'shadow_refused'),
    isDegraded: fc.boolean(),
    caller: fc.nat(9),
    left: fc.constantFrom(-1, 0, 0.05, 0.2, 0.5, 0.7, 1),
    tookMs: fc.constantFrom(0.5, 5, 50),
  }),
  { maxLength: 200 },
)

function decisionOf(event: Event): Decision {
  const { rule, outcome, candidate, isDegraded, caller, left } = event
  const isShadow = outcome === 'shadow_refused' || candidate === 'shadow_refused'
  return {
    ...UNMATCHED,
    allowed: outcome !== 'refused',
    shadow: isShadow ? [rule] : [],
    ...(isDegraded ? { postures: { [rule]: 'open' } } : {}),
    degraded: (visit) => visit(rule, 'open'),
    eachRule(visit) {
      visit(rule, outcome)
      if (candidate !== undefined) visit(`${rule}:candidate`, candidate)
    },
    eachCaller: (visit) =>
      visit(rule, ['user'], { hi: caller, lo: caller * 7 }, outcome, left, 1, callWith(), 0),
  }
}

/** The snapshot of a node with the events of some nodes. */
function snapshotOf(id: string, all: readonly Event[]) {
  const node = makeNode({ id, deps: { distinct: new DistinctCallers() } })
  let second = 0
  node.pass(SECONDS, () => {
    for (const event of all.filter((each) => each.second === second)) {
      node.recordDecision(decisionOf(event), { attributes: {} })
      node.decisionTimes.observe(event.tookMs / 1000)
    }
    second++
  })
  return node.snapshot()
}

test('the merged statistics of several nodes equal those of one node with all decisions', async () => {
  await fc.assert(
    fc.asyncProperty(events, async (all) => {
      const snapshots = Array.from({ length: NODES }, (_, i) =>
        snapshotOf(
          `n${i}`,
          all.filter(({ node }) => node === i),
        ),
      )
      const read = await Promise.all(
        snapshots.map(async (snapshot) => decodeSnapshot(await encodeSnapshot(snapshot))),
      )
      expect(read).toEqual(snapshots)
      const [own, ...others] = snapshots
      if (own === undefined) throw new Error('no snapshot')
      const { atMs } = own
      const alone = await mergeStats({
        own: snapshotOf('alone', all),
        others: [],
        isWhole: true,
        atMs,
      })
      const snapshot = { own, others, isWhole: true, atMs }
      const merged = await mergeStats(snapshot)
      // The order of rules that have the same counts is by name in both.
      expect(merged).toEqual({ ...alone, nodes: NODES })
      expect(tickOf(merged)).toEqual({ ...tickOf(alone), nodes: NODES })
      for (const rule of RULES) {
        const { rules } = await mergeStats(snapshot, rule)
        expect(rules[0]).toEqual(alone.rules.find((each) => each.rule === rule))
      }
      const rates = nodeViews(snapshot).map((node) => node.decisionsPerSecond)
      const late = all.filter(({ second }) => second >= SECONDS - 10).length
      expect(rates.reduce((sum, rate) => sum + rate, 0)).toBeCloseTo(late / 10, 5)
    }),
    { numRuns: propertyRuns(60) },
  )
})
