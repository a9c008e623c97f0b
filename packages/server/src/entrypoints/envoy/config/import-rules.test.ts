import fc from 'fast-check'
import { type Call, compileRules, matchRules, parseRules, sipKey, writeYaml } from '@sluice/core'
import { describe, expect, test } from 'vitest'
import { propertyRuns } from '../../../../../../tools/property-runs.js'
import type { DescriptorEntry } from '../rate-limit-messages.js'
import { compositeOf, type DescriptorConfig, type DomainConfig } from './domain-config.js'
import { importRules } from './import-rules.js'
import { LimitTree } from './limit-tree.js'
import { parseDomainFile } from './parse-domain-file.js'

function parse(text: string): DomainConfig {
  const { config, errors } = parseDomainFile(text, { file: 'f' })
  expect(errors).toEqual([])
  if (config === undefined) throw new Error('there is no configuration')
  return config
}

const LIMIT = 'rate_limit: { unit: minute, requests_per_unit: 5 }'

function reasonsOf(descriptors: string): readonly string[] {
  const { notes } = importRules([parse(`domain: d\ndescriptors:\n${descriptors}`)])
  return notes.flatMap(({ path, kind, reasons }) =>
    reasons.map((why) => `${path}: ${kind}: ${why}`),
  )
}

describe('what has a rule', () => {
  test('a key, a value and levels below each other become conditions and attributes', () => {
    const config = parse(`
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: second, requests_per_unit: 50, name: per-user }
  - key: user
    value: gold
    shadow_mode: true
    rate_limit: { unit: month, requests_per_unit: 0 }
    descriptors:
      - key: action
        rate_limit: { unit: week, requests_per_unit: 7 }
`)
    const { rules, notes } = importRules([config])
    expect(notes).toEqual([])
    expect(rules).toEqual([
      {
        id: 'shop-user',
        description: 'Imported from shop.user',
        match: { where: { domain: ['shop'], user: { not: ['gold'] }, action: null } },
        by: ['user'],
        limits: [{ algorithm: 'fixed-window', max: 50, window: '1s', name: 'per-user' }],
      },
      {
        id: 'shop-user-gold',
        description: 'Imported from shop.user_gold',
        match: { where: { domain: ['shop'], user: ['gold'], action: null } },
        by: [],
        limits: [{ algorithm: 'fixed-window', max: 0, window: '30d' }],
        mode: 'shadow',
      },
      {
        id: 'shop-user-gold-action',
        description: 'Imported from shop.user_gold.action',
        match: { where: { domain: ['shop'], user: ['gold'] } },
        by: ['action'],
        limits: [{ algorithm: 'fixed-window', max: 7, window: '7d' }],
      },
    ])
    expect(parseRules(writeYaml({ rules })).errors).toEqual([])
  })

  test('every unit is a window of the same length', () => {
    const units = ['second', 'minute', 'hour', 'day', 'week', 'month', 'year']
    const lines = units.map(
      (unit) =>
        `  - { key: ${unit}, rate_limit: { unit: ${unit}, requests_per_unit: 4294967295 } }`,
    )
    const { rules } = importRules([parse(`domain: d\ndescriptors:\n${lines.join('\n')}`)])
    const parsed = parseRules(writeYaml({ rules }))
    expect(parsed.errors).toEqual([])
    const seconds = parsed.rules?.rules.map(({ limits }) => (limits[0]?.windowMs ?? 0) / 1000)
    expect(seconds).toEqual([1, 60, 3600, 86_400, 604_800, 2_592_000, 31_536_000])
  })

  test('two descriptors with the same words have ids of their own', () => {
    const { rules } = importRules([
      parse(`domain: d\ndescriptors:\n  - { key: a.b, ${LIMIT} }\n  - { key: a-b, ${LIMIT} }`),
    ])
    expect(rules.map(({ id }) => id)).toEqual(['d-a-b', 'd-a-b-2'])
  })
})

describe('what has no rule, and why', () => {
  test.each([
    [
      `  - { key: user, value: a*, ${LIMIT} }`,
      ['d.user_a*: skipped: the pattern "user_a*": rules have no patterns'],
    ],
    [
      `  - { key: user, value: a* }\n  - { key: user, ${LIMIT} }`,
      ['d.user: skipped: values that match "user_a*" beside it: a rule cannot exclude a pattern'],
    ],
    [
      `  - { key: user, quota_mode: true, ${LIMIT} }`,
      ['d.user: skipped: quota_mode: rules have no alternatives'],
    ],
    [
      `  - { key: a, rate_limit: { unit: day, requests_per_unit: 1, name: x } }
  - { key: b, rate_limit: { unlimited: true, replaces: [{ name: x }] } }`,
      [
        'd.a: skipped: another limit replaces "x": a rule cannot be switched off by another',
        'd.b: skipped: replaces: a rule cannot switch off another one',
      ],
    ],
    [
      `  - { key: user, rate_limit: { unlimited: true } }`,
      ['d.user: unlimited: what no rule matches is not limited'],
    ],
    [
      `  - { key: User, ${LIMIT} }`,
      [
        'd.User: skipped: the key "User": attributes of rules are named by a-z, 0-9, "_", "." and "-"',
      ],
    ],
    [
      `  - { key: path, ${LIMIT} }`,
      [
        'd.path: skipped: the key "path" has a meaning of its own in rules: a canonical path there, compared with patterns',
      ],
    ],
    [
      `  - { key: a, descriptors: [{ key: a, ${LIMIT} }] }`,
      ['d.a.a: skipped: a key twice: a call has each attribute once'],
    ],
    [
      `  - { key: a, descriptors: [{ key: b, ${LIMIT} }] }\n  - { key: b, descriptors: [{ key: a }] }`,
      ['d.a.b: skipped: the same keys in another order: attributes of a call have no order'],
    ],
    [
      `  - { key: a }\n  - { key: a_b, ${LIMIT} }`,
      ['d.a_b: skipped: key and value are joined by _, so "a" with "b" means it too'],
    ],
    [
      `  - { key: a, detailed_metric: true, metadata: { x: 1 }, rate_limit: { unit: day, requests_per_unit: 1, name: A } }`,
      [
        'd.a: dropped: metadata: rules have none',
        'd.a: dropped: detailed_metric: metrics of rules name no values',
        'd.a: dropped: the name "A": limits are named by a-z, 0-9 and "-"',
      ],
    ],
  ])('%s', (descriptors, reasons) => {
    expect(reasonsOf(descriptors)).toEqual(reasons)
  })
})

const KEYS = ['a', 'b', 'c', 'a_x']
const VALUES = ['x', 'y', 'x_y', 'z']

function listOf(depth: number): fc.Arbitrary<readonly DescriptorConfig[]> {
  const someLimit = fc.record({
    unit: fc.constant('minute' as const),
    requestsPerUnit: fc.nat(10),
    isUnlimited: fc.constant(false),
    name: fc.constantFrom('', 'n', 'm'),
    replaces: fc.oneof({ weight: 9, arbitrary: fc.constant([]) }, fc.constant(['n'])),
  })
  const descriptor = fc.record({
    key: fc.constantFrom(...KEYS),
    value: fc.option(
      fc.oneof(
        { weight: 8, arbitrary: fc.constantFrom(...VALUES) },
        { weight: 1, arbitrary: fc.constantFrom('x*', '*') },
      ),
      { nil: undefined },
    ),
    limit: fc.option(someLimit, { nil: undefined }),
    isShadow: fc.boolean(),
    isQuota: fc.constant(false),
    detailedMetric: fc.constant(false),
    valueToMetric: fc.constant(false),
    shareThreshold: fc.constant(false),
    metadata: fc.constant(undefined),
    descriptors: depth === 0 ? fc.constant([]) : listOf(depth - 1),
  })
  return fc.uniqueArray(descriptor, { selector: compositeOf, maxLength: 4 })
}

/** Every sequence of keys that the configuration nests. */
function sequencesOf(list: readonly DescriptorConfig[]): readonly (readonly string[])[] {
  return list.flatMap(({ key, descriptors }) => [
    [key],
    ...sequencesOf(descriptors).map((below) => [key, ...below]),
  ])
}

/** Every request with these keys. */
function requestsOf(keys: readonly string[]): readonly (readonly DescriptorEntry[])[] {
  const [key, ...rest] = keys
  if (key === undefined) return [[]]
  return VALUES.flatMap((value) => requestsOf(rest).map((below) => [{ key, value }, ...below]))
}

test('imported rules limit what the configuration limits, where they say that they do', () => {
  fc.assert(
    fc.property(listOf(2), (descriptors) => {
      const config = { domain: 'd', descriptors }
      const tree = new LimitTree(config)
      const imported = importRules([config])
      const skipped = new Set(
        imported.notes.filter(({ kind }) => kind === 'skipped').map(({ path }) => path),
      )
      const parsed = parseRules(writeYaml({ rules: imported.rules }))
      expect(parsed.errors).toEqual([])
      if (parsed.rules === undefined) return
      const snapshot = compileRules(parsed.rules, { secret: sipKey(new Uint8Array(16)) })
      const callers = new Map<string, string>()
      for (const wanted of sequencesOf(descriptors).flatMap(requestsOf)) {
        // A call cannot have an attribute twice; nothing is imported for such requests.
        if (new Set(wanted.map(({ key }) => key)).size < wanted.length) continue
        const attributes: Call['attributes'] = {
          domain: 'd',
          ...Object.fromEntries(wanted.map(({ key, value }) => [key, value])),
        }
        const matched = matchRules(snapshot, { attributes })
        const selected = tree.select(wanted)
        const isImported = selected !== undefined && !skipped.has(selected.node.path)
        expect(matched.map(({ rule }) => rule.rule.description)).toEqual(
          isImported ? [`Imported from ${selected.node.path}`] : [],
        )
        const [match] = matched
        if (match === undefined || selected === undefined) continue
        expect(match.rule.rule.limits[0]?.max).toBe(selected.node.limit.requestsPerUnit)
        expect(match.rule.rule.mode).toBe(selected.node.isShadow ? 'shadow' : 'enforce')
        // The same counter here and there, and no other request shares it.
        const counter = `${selected.node.path} ${selected.counter.join(' ')}`
        const caller = `${match.rule.rule.id} ${JSON.stringify(match.caller)}`
        expect(callers.get(caller) ?? counter).toBe(counter)
        callers.set(caller, counter)
      }
    }),
    { numRuns: propertyRuns(1000) },
  )
})

test('requests of another domain meet no imported rule', () => {
  const { rules } = importRules([parse(`domain: d\ndescriptors:\n  - { key: user, ${LIMIT} }`)])
  const parsed = parseRules(writeYaml({ rules }))
  if (parsed.rules === undefined) throw new Error('the rules are invalid')
  const snapshot = compileRules(parsed.rules, { secret: sipKey(new Uint8Array(16)) })
  const attributes = { domain: 'other', user: 'u1' }
  expect(matchRules(snapshot, { attributes })).toEqual([])
})
