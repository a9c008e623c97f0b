import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { RuleCache } from './incremental-parse.js'
import { parseOverride } from './parse-override.js'
import { parseRules } from './parse-rules.js'
import type { Rule } from './rule.js'

const ruleSource = (more: object = {}) => ({
  id: 'r',
  by: ['user'],
  limits: ['10/second'],
  ...more,
})

function ruleOf(more: object = {}): Rule {
  const [rule] = parseRules([ruleSource(more)]).rules?.rules ?? []
  if (rule === undefined) throw new Error('no rule')
  return rule
}

const messagesOf = (source: object, more: object = {}) =>
  parseOverride(ruleOf(more), source).errors.map(({ message }) => message)

describe('one override', () => {
  test('is parsed as in its rule', () => {
    const source = {
      caller: { user: 17 },
      limits: ['100/second', { max: 5, window: '1h', name: 'hourly' }],
      until: '2030-01-01T00:00:00Z',
    }
    const [inline] = ruleOf({ overrides: [source] }).overrides
    expect(parseOverride(ruleOf(), source)).toEqual({ override: inline, errors: [] })
    expect(inline?.caller).toEqual(new Map([['user', '17']]))
  })

  test('may have no limit, and no end', () => {
    const { override } = parseOverride(ruleOf({ by: [] }), { caller: {}, limits: [] })
    expect(override).toEqual({ caller: new Map(), limits: [], untilMs: undefined })
  })

  test.each([
    [
      { caller: { usr: 'a' }, limits: [] },
      'rule "r": caller.usr: "usr" is not in by; did you mean "user"? Accepted: user, all of them',
    ],
    [
      { caller: { user: 'a' }, limits: [{ max: -1, window: '1s' }] },
      'rule "r": limits[0].max: number -1 is out of range. Accepted: a whole number from 0 to 999999999999999',
    ],
    [
      { caller: { user: 'a' }, limits: ['5/second', '2/1s'] },
      'rule "r": limits[1]: limit name "token-bucket-1s" is taken by limits[0]. Accepted: a name of its own for each limit of a rule',
    ],
    [
      { caller: { user: 'a' }, limits: [], until: 'tomorrow' },
      'rule "r": until: bad time "tomorrow". Accepted: a date and time with its zone, such as 2026-12-31T18:00:00Z or ...T18:00:00+01:00',
    ],
    [
      { caller: { user: 'a' } },
      'rule "r": limits: missing. Accepted: a list of limits; [] for no limit',
    ],
    [['a'], 'rule "r": rule: found a list of 1. Accepted: a map with caller, limits, until'],
  ])('%o is refused', (source, message) => {
    expect(messagesOf(source)).toContain(message)
  })

  test('below the cost of its rule is refused, each time', () => {
    const cache = new RuleCache()
    const rule = ruleOf({ cost: 8 })
    const small = { caller: { user: 'a' }, limits: ['9/second', '5/minute'] }
    for (let i = 0; i < 2; i++) {
      expect(parseOverride(rule, small, { cache }).errors.map(({ message }) => message)).toEqual([
        'rule "r": limits[1]: cost 8 is above the 5 that this limit holds at most, so no call would pass. Accepted: a cost up to 5, or a larger limit or burst',
      ])
    }
    expect(parseOverride(rule, { caller: { user: 'a' }, limits: ['8/second'] }).errors).toEqual([])
  })

  test('with an algorithm that does not support the coordination is refused, each time', () => {
    const cache = new RuleCache()
    const queue = { algorithm: 'leaky-bucket', max: 5, window: '1s' }
    const source = { caller: { user: 'a' }, limits: ['9/second', queue] }
    for (const coordination of ['leased', 'local']) {
      const rule = ruleOf({ coordination })
      for (let i = 0; i < 2; i++) {
        expect(parseOverride(rule, source, { cache }).errors.map(({ message }) => message)).toEqual(
          [
            `rule "r": limits[1].algorithm: leaky-bucket does not go with coordination: ${coordination}. Accepted: token-bucket, gcra, fixed-window or sliding-window-counter here, or coordination: exact, split or node`,
          ],
        )
      }
    }
    for (const coordination of ['exact', 'split']) {
      expect(messagesOf(source, { coordination })).toEqual([])
    }
  })

  test('with a cyclic object is refused', () => {
    const circle: { caller: object; limits: unknown[] } = { caller: { user: 'a' }, limits: [] }
    circle.limits.push(circle)
    expect(messagesOf(circle)[0]).toMatch(/nested too deeply/)
  })

  test('overrides with equal limits share one list object of the cache', () => {
    const rule = ruleOf()
    const cache = new RuleCache()
    const read = (user: string, max: number) => {
      const source = { caller: { user }, limits: [{ max, window: '1s' }] }
      return parseOverride(rule, source, { cache }).override?.limits
    }
    expect(read('a', 5)).toBe(read('b', 5))
    expect(read('a', 5)).not.toEqual(read('b', 6))
  })

  const limit = fc.oneof(
    fc.constantFrom('1/second', '20/second', '7/hour', '0/second', 'nonsense', null, 5),
    fc.record(
      {
        algorithm: fc.constantFrom('token-bucket', 'leaky-bucket', 'gcra', 'none'),
        max: fc.constantFrom(0, 1, 7, 1e16, NaN),
        window: fc.constantFrom('1s', '1h', '2d', 10),
        burst: fc.constantFrom(1, 9),
        name: fc.constantFrom('a', 'b', 'B!'),
      },
      { requiredKeys: ['max', 'window'] },
    ),
  )
  const source = fc.record(
    {
      caller: fc.dictionary(fc.constantFrom('user', 'ip', 'usr'), fc.constantFrom('a', '', '::1')),
      limits: fc.array(limit, { maxLength: 3 }),
      until: fc.constantFrom('2030-01-01T00:00:00Z', '2030-02-30T00:00:00Z', 7),
      unknown: fc.constant(1),
    },
    { requiredKeys: [] },
  )

  test('has the same problems as in its rule', () => {
    const shapes = fc.record({
      by: fc.constantFrom(['user'], ['ip'], ['user', 'ip']),
      cost: fc.constantFrom(1, 5, 50),
      coordination: fc.constantFrom('exact', 'leased', 'local', 'split'),
    })
    fc.assert(
      fc.property(shapes, source, (shape, each) => {
        const more = { ...shape, limits: ['100/second'] }
        const { override, errors } = parseOverride(ruleOf(more), each)
        const whole = parseRules([ruleSource({ ...more, overrides: [each] })])
        const plain = (text: string) => text.replace(/overrides\[0\](\.|(?=:))/g, inItself)
        // In a rule the cost is checked last; for a single override it is reported with the rest.
        const isLast = whole.errors.every(({ code }) => code === 'cost-above-limit')
        const reported = errors.filter(({ code }) => isLast || code !== 'cost-above-limit')
        expect(reported.map(({ message }) => message)).toEqual(
          whole.errors.map(({ message }) => plain(message)),
        )
        expect(override).toEqual(whole.rules?.rules[0]?.overrides[0])
      }),
      { numRuns: 500 },
    )
  })
})

/** Maps `overrides[0].until` to `until`, and `overrides[0]` to the whole override. */
function inItself(_: string, dot: string): string {
  return dot === '.' ? '' : 'rule'
}
