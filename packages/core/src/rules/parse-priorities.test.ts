import { describe, expect, test } from 'vitest'
import { diffRules } from './diff.js'
import { RuleCache } from './incremental-parse.js'
import { parseOverride } from './parse-override.js'
import { parseRules } from './parse-rules.js'

const fleet = (more: object) => ({ id: 'fleet', by: [], limits: ['100/second'], ...more })

const messagesOf = (set: object) =>
  parseRules({ priorities: ['critical', 'writes', 'reads'], rules: [], ...set }).errors.map(
    ({ message }) => message,
  )

describe('priorities', () => {
  test.each<[object, string]>([
    [
      { priorities: [] },
      'priorities: found an empty list. Accepted: one or more names, the most important first',
    ],
    [{ priorities: 'critical' }, 'priorities: found "critical". Accepted: a list of priorities'],
    [{ priorities: ['a', 'a'] }, 'priorities[1]: "a" is given twice. Accepted: each value once'],
    [
      { priorities: Array.from({ length: 9 }, (_, i) => `p${i}`) },
      'priorities: too many: 9 priorities. Accepted: up to 8 priorities',
    ],
    [
      { priorities: undefined, classify: [{ as: 'critical' }] },
      'classify[0].as: unknown priority "critical". Accepted: priorities: a list of names, beside rules',
    ],
    [
      { classify: [{ match: { method: 'GET' } }] },
      'classify[0].as: missing. Accepted: critical, writes, reads',
    ],
    [
      { classify: [{ as: 'reads' }, { match: { method: 'GET' }, as: 'writes' }] },
      'classify[1]: matches no call: classify[0] matches every call before it. Accepted: a line without match last',
    ],
    [
      { classify: [{ match: { where: { priority: 'reads' } }, as: 'reads' }] },
      'classify[0].match: "priority" has a field of its own. Accepted: as, which sets the priority',
    ],
    [
      { classify: [{ match: { paht: '/x' }, as: 'reads' }] },
      'classify[0].match.paht: unknown key "paht"; did you mean "path"? Accepted: method, path, where',
    ],
    [
      { rules: [fleet({ headroom: { critcal: '20%' } })] },
      'rule "fleet": headroom.critcal: unknown priority "critcal"; did you mean "critical"? Accepted: critical, writes',
    ],
    [
      { rules: [fleet({ headroom: { critical: '60%', writes: '31%' } })] },
      'rule "fleet": headroom: found 91% reserved in all. Accepted: up to 90% in all',
    ],
    [
      {
        rules: [
          fleet({
            headroom: { critical: '20%' },
            limits: [{ max: 100, window: '1m', block: '15m' }],
          }),
        ],
      },
      'rule "fleet": limits[0]: found block beside headroom. Accepted: either of them, because a block holds for all priorities',
    ],
    [
      { rules: [fleet({ headroom: {} })] },
      'rule "fleet": headroom: found an empty map. Accepted: one or more priorities',
    ],
    [
      { rules: [fleet({ headroom: { critical: '0%' } })] },
      'rule "fleet": headroom.critical: number "0%" is out of range. Accepted: a percentage above 0%, up to 90%, in steps of 0.01%, such as 20%, or as a number 0.2',
    ],
    [
      { rules: [fleet({ headroom: { critical: 0.00001 } })] },
      'rule "fleet": headroom.critical: number 0.00001 is out of range. Accepted: a percentage above 0%, up to 90%, in steps of 0.01%, such as 20%, or as a number 0.2',
    ],
    [
      { priorities: undefined, shed: { loop: '50ms' } },
      'priorities: missing. Accepted: priorities: a list of names, beside rules',
    ],
    [{ shed: { keep: [] } }, 'shed.loop: missing. Accepted: a duration from 10ms to 10s'],
    [
      { shed: { loop: '1ms' } },
      'shed.loop: bad duration "1ms". Accepted: a duration from 10ms to 10s',
    ],
    [
      { shed: { loop: '50ms', keep: ['critcal'] } },
      'shed.keep[0]: unknown priority "critcal"; did you mean "critical"? Accepted: critical, writes, reads',
    ],
    [
      { shed: { loop: '50ms', most: '100%' } },
      'shed.most: number "100%" is out of range. Accepted: a percentage above 0%, up to 99%, in steps of 0.01%, such as 90%, or as a number 0.9',
    ],
    [
      { rules: [fleet({ protects: 'callers' })] },
      'rule "fleet": protects: unknown value "callers". Accepted: capacity',
    ],
  ])('%j is refused with an exact message', (set, message) => {
    expect(messagesOf(set)).toEqual([message])
  })

  test('a priority that does not exist is reported beside every other problem of the rules', () => {
    const unknown =
      'unknown priority "critcal"; did you mean "critical"? Accepted: critical, writes'
    const block = { max: 100, window: '1m', block: '15m' }
    const rules = [
      fleet({ headroom: { critcal: '60%', writes: '31%' } }),
      fleet({ id: 'blocks', headroom: { critcal: 0.2 }, limits: [block] }),
      fleet({ id: 'none', headroom: { critcal: 20 } }),
      fleet({ id: 'last', headroom: { reads: '5%' } }),
    ]
    expect(messagesOf({ rules })).toEqual([
      'rule "fleet": headroom: found 91% reserved in all. Accepted: up to 90% in all',
      'rule "blocks": limits[0]: found block beside headroom. Accepted: either of them, because a block holds for all priorities',
      'rule "none": headroom.critcal: number 20 is out of range. Accepted: a percentage above 0%, up to 90%, in steps of 0.01%, such as 20%, or as a number 0.2',
      `rule "fleet": headroom.critcal: ${unknown}`,
      `rule "blocks": headroom.critcal: ${unknown}`,
      `rule "none": headroom.critcal: ${unknown}`,
      'rule "last": headroom.reads: found "reads", the last priority, from which nobody takes. Accepted: critical, writes',
    ])
  })

  test('priorities that are invalid themselves make none of a rule unknown', () => {
    const rules = [fleet({ headroom: { critical: '20%' } })]
    expect(messagesOf({ priorities: ['Critical'], rules })).toEqual([
      'priorities[0]: bad priority "Critical"; did you mean "critical"? Accepted: 1 to 32 of a-z, 0-9 and "-", such as critical',
    ])
  })

  test('shares are read without rounding, as percentages and as numbers', () => {
    const headroom = { critical: '7%', writes: 0.07 }
    const { rules } = parseRules({
      priorities: ['critical', 'writes', 'reads'],
      rules: [fleet({ headroom, protects: 'capacity' })],
    })
    expect(rules?.rules[0]).toMatchObject({
      headroom: new Map([
        ['critical', 700],
        ['writes', 700],
      ]),
      protects: 'capacity',
    })
  })

  test('an override that would leave nothing to others is refused', () => {
    const { rules } = parseRules({
      priorities: ['critical', 'reads'],
      rules: [fleet({ by: ['user'], headroom: { critical: '20%' } })],
    })
    const rule = rules?.rules[0]
    if (rule === undefined) throw new Error('no rule')
    const limits = ['1/second']
    const { errors } = parseOverride(rule, { caller: { user: 'u1' }, limits })
    expect(errors.map(({ code }) => code)).toEqual(['headroom-too-large'])
  })

  test('headroom that was parsed before is checked again with other priorities', () => {
    const cache = new RuleCache()
    const rules = Array.from({ length: 600 }, (_, i) =>
      fleet({
        id: `fleet-${i}`,
        match: { where: { plan: String(i) } },
        headroom: { critical: '20%' },
      }),
    )
    const parse = (priorities: readonly string[]) =>
      parseRules({ priorities, rules }, { cache, compare: false })
    expect(parse(['critical', 'reads']).errors).toEqual([])
    expect(parse(['urgent', 'reads']).errors[0]).toMatchObject({
      rule: 'fleet-0',
      code: 'unknown-priority',
    })
  })

  test('a diff names what changes', () => {
    const parse = (set: object) => {
      const { rules } = parseRules(set)
      if (rules === undefined) throw new Error('no rules')
      return rules
    }
    const before = parse({ rules: [fleet({})] })
    const after = parse({
      priorities: ['critical', 'reads'],
      classify: [{ match: { method: 'GET', path: '/v1/*', where: { plan: 'free' } }, as: 'reads' }],
      shed: { loop: '50ms', keep: ['critical'] },
      rules: [fleet({ headroom: { critical: '20%' }, protects: 'capacity' })],
    })
    const { set, rules } = diffRules(before, after)
    expect(set).toEqual([
      { field: 'priorities', before: '', after: '[critical, reads]' },
      { field: 'classify', before: '', after: '["GET /v1/* where plan is [free]: reads"]' },
      {
        field: 'shed',
        before: '',
        after: '{ loop: 50ms, keep: [critical], most: 90%, mode: enforce }',
      },
    ])
    expect(rules[0]?.fields).toEqual([
      { field: 'headroom', before: '', after: '{ critical: 20% }' },
      { field: 'protects', before: '', after: 'capacity' },
    ])
  })
})
