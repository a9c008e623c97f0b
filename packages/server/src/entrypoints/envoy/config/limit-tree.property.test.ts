/** Compares the selection of limits with a plain model that walks the configuration itself. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { propertyRuns } from '../../../../../../tools/property-runs.js'
import type { DescriptorEntry } from '../rate-limit-messages.js'
import { compositeOf, type DescriptorConfig, type DomainConfig } from './domain-config.js'
import { LimitTree } from './limit-tree.js'

const configuredKey = fc.constantFrom('a', 'b', 'a_b', 'b_*', 'k')
const configuredValue = fc.constantFrom(
  'x',
  'xy',
  'x_y',
  'x*',
  '*',
  'x*y',
  '*y*',
  'b',
  '10.0.0.1',
  'b_x',
)
const requested = fc.constantFrom('', 'x', 'y', 'xy', 'xay', 'x_y', 'b', 'b_x', '10.0.0.1', 'x*')

const flag = fc.boolean()
const someLimit = fc.record({
  unit: fc.constantFrom('second' as const, 'minute' as const),
  requestsPerUnit: fc.nat(10),
  isUnlimited: fc.constant(false),
  name: fc.constant(''),
  replaces: fc.constant([]),
})

function listOf(depth: number): fc.Arbitrary<readonly DescriptorConfig[]> {
  const descriptor = fc
    .record({
      key: configuredKey,
      value: fc.option(configuredValue, { nil: undefined }),
      limit: fc.option(someLimit, { nil: undefined }),
      isShadow: flag,
      isQuota: flag,
      detailedMetric: flag,
      valueToMetric: flag,
      shareThreshold: flag,
      metadata: fc.constant(undefined),
      descriptors: depth === 0 ? fc.constant([]) : listOf(depth - 1),
    })
    .map((each) => ({
      ...each,
      // As the parser ensures.
      shareThreshold: each.shareThreshold && compositeOf(each).includes('*'),
    }))
  return fc.uniqueArray(descriptor, { selector: compositeOf, maxLength: 5 })
}

const config: fc.Arbitrary<DomainConfig> = listOf(2).map((descriptors) => ({
  domain: 'd',
  descriptors,
}))
const entries = fc.array(
  fc.record({ key: fc.constantFrom('a', 'b', 'a_b', 'b_c', 'k'), value: requested }),
  { maxLength: 4 },
)

function matchesGlob(pattern: string, text: string): boolean {
  const parts = pattern.split('*').map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
  return new RegExp(`^${parts.join('.*')}$`, 's').test(text)
}

interface Found {
  readonly at: DescriptorConfig
  readonly how: 'exact' | 'pattern' | 'key'
}

function findIn(list: readonly DescriptorConfig[], entry: DescriptorEntry): Found | undefined {
  const wanted = `${entry.key}_${entry.value}`
  const exact = list.find((each) => compositeOf(each) === wanted)
  if (exact !== undefined) return { at: exact, how: 'exact' }
  const pattern = list.find(
    (each) => compositeOf(each).includes('*') && matchesGlob(compositeOf(each), wanted),
  )
  if (pattern !== undefined) return { at: pattern, how: 'pattern' }
  const alone = list.find((each) => compositeOf(each) === entry.key)
  return alone && { at: alone, how: 'key' }
}

function selectPlainly({ domain, descriptors }: DomainConfig, wanted: readonly DescriptorEntry[]) {
  let list = descriptors
  const steps: (Found & { readonly entry: DescriptorEntry })[] = []
  for (const entry of wanted) {
    const found = findIn(list, entry)
    if (found === undefined) return undefined
    steps.push({ ...found, entry })
    list = found.at.descriptors
  }
  const last = steps.at(-1)?.at
  if (last?.limit === undefined) return undefined
  const named = (key: string, value: string) => (value === '' ? key : `${key}_${value}`)
  const patternOf = ({ at, entry }: (typeof steps)[number]) => {
    const composite = compositeOf(at)
    const start = `${entry.key}_`
    return composite.startsWith(start) ? composite.slice(start.length) : composite
  }
  const isShared = (step: (typeof steps)[number]) =>
    step.how === 'pattern' && step.at.shareThreshold
  const counter = steps.flatMap((step) => [
    step.entry.key,
    isShared(step) ? patternOf(step) : step.entry.value,
  ])
  const ordinary = steps.map((step) => {
    const { key, value } = step.entry
    if (isShared(step)) return named(key, patternOf(step))
    if (step.how === 'exact' || step.at.valueToMetric) return named(key, value)
    return step.how === 'pattern' ? `${key}_${patternOf(step)}` : key
  })
  const detailed = steps.map((step) => {
    const { key, value } = step.entry
    if (isShared(step)) return named(key, patternOf(step))
    return steps.some(isShared) ? named(key, value) : `${key}_${value}`
  })
  const path = [domain, ...(last.detailedMetric ? detailed : ordinary)].join('.')
  return {
    limit: last.limit,
    counter,
    metricPath: path.replace(/10\.0\.0\.1/g, '10_0_0_1'),
    path: [domain, ...steps.map(({ at }) => compositeOf(at))].join('.'),
  }
}

test('a limit tree selects what a plain walk through the configuration selects', () => {
  fc.assert(
    fc.property(config, fc.array(entries, { minLength: 1, maxLength: 20 }), (domain, requests) => {
      const tree = new LimitTree(domain)
      for (const wanted of requests) {
        const selected = tree.select(wanted)
        const expected = selectPlainly(domain, wanted)
        if (expected === undefined) {
          expect(selected).toBeUndefined()
          continue
        }
        expect(selected?.node.limit).toBe(expected.limit)
        expect(selected?.counter).toEqual(expected.counter)
        expect(selected?.metricPath).toBe(expected.metricPath)
        expect(selected?.node.path.replace(/~\d+$/, '')).toBe(expected.path)
      }
    }),
    { numRuns: propertyRuns(2000) },
  )
})

test('every limit of a tree is listed once, in order, under a path of its own', () => {
  const limitsOf = (list: readonly DescriptorConfig[]): readonly unknown[] =>
    list.flatMap((each) => [
      ...(each.limit === undefined ? [] : [each.limit]),
      ...limitsOf(each.descriptors),
    ])
  fc.assert(
    fc.property(config, (domain) => {
      const { nodes } = new LimitTree(domain)
      expect(nodes.map((node) => node.limit)).toEqual(limitsOf(domain.descriptors))
      expect(new Set(nodes.map(({ path }) => path)).size).toBe(nodes.length)
    }),
    { numRuns: propertyRuns(500) },
  )
})

test('two descriptors with the same path have limits with different paths', () => {
  const plain = {
    value: undefined,
    isShadow: false,
    isQuota: false,
    detailedMetric: false,
    valueToMetric: false,
    shareThreshold: false,
    metadata: undefined,
  }
  const limit = {
    unit: 'second',
    requestsPerUnit: 1,
    isUnlimited: false,
    name: '',
    replaces: [],
  } as const
  const below = { ...plain, key: 'b', limit, descriptors: [] }
  const { nodes } = new LimitTree({
    domain: 'd',
    descriptors: [
      { ...plain, key: 'a.b', limit, descriptors: [] },
      { ...plain, key: 'a', limit: undefined, descriptors: [below] },
    ],
  })
  expect(nodes.map(({ path }) => path)).toEqual(['d.a.b', 'd.a.b~2'])
})
