import { expect, test } from 'vitest'
import { hashOf } from './caller-tracker.test-helper.js'
import { RuleTop } from './rule-top.js'
import { RULES_TOP_MAX, SketchSlots } from './sketch-slots.js'

function count(top: RuleTop, times: number): void {
  const { hi, lo } = hashOf(1)
  for (let i = 0; i < times; i++) top.add(hi, lo, 1, 0)
}

/** Every slot is taken by a rule with this many decisions. */
function setUp(activity: number) {
  const places = new SketchSlots()
  const held = Array.from({ length: RULES_TOP_MAX }, () => new RuleTop(places))
  for (const top of held) count(top, activity)
  const waiting = Array.from({ length: 20 }, () => new RuleTop(places))
  return { places, held, waiting }
}

test('a released slot goes to the busiest waiting rule, not to the first one that is called', () => {
  const { places, held, waiting } = setUp(10)
  for (const top of waiting) count(top, 1)
  const busy = waiting[7]
  if (busy !== undefined) count(busy, 1000)
  places.tick()
  for (const top of waiting) count(top, 1)
  expect(waiting.filter(({ hasSketch }) => hasSketch)).toEqual([busy])
  expect(held.filter(({ hasSketch }) => hasSketch)).toHaveLength(RULES_TOP_MAX - 1)
  expect(places.used).toBe(RULES_TOP_MAX)
})

test('several far busier rules get slots at one tick, up to a bound', () => {
  const { places, waiting } = setUp(10)
  for (const top of waiting) count(top, 100)
  places.tick()
  for (const top of waiting) count(top, 1)
  expect(waiting.filter(({ hasSketch }) => hasSketch)).toHaveLength(8)
  expect(places.used).toBe(RULES_TOP_MAX)
})
