import { describe, expect, test } from 'vitest'
import { ALGORITHM_NAMES } from '../algorithms/index.js'
import { parseRules } from './parse-rules.js'
import type { Rule } from './rule.js'

const COORDINATIONS = ['exact', 'leased', 'local', 'split', 'node'] as const
const LEAST = { id: 'r', by: [], limits: ['1000/minute'] }

function read(fields: object): Rule | undefined {
  return parseRules([{ ...LEAST, ...fields }]).rules?.rules[0]
}

const problemsOf = (fields: object) =>
  parseRules([{ ...LEAST, ...fields }]).errors.map(({ code, field }) => `${code} ${field}`)

const warningsOf = (fields: object) =>
  parseRules([{ ...LEAST, ...fields }]).warnings.map(({ code, field }) => `${code} ${field}`)

describe('coordination supported by each algorithm', () => {
  const cases = COORDINATIONS.flatMap((coordination) =>
    ALGORITHM_NAMES.map((algorithm) => [coordination, algorithm] as const),
  )
  test.each(cases)('%s, %s', (coordination, algorithm) => {
    const isMerged = coordination === 'leased' || coordination === 'local'
    const isUnmerged = ['leaky-bucket', 'sliding-window-log', 'concurrency'].includes(algorithm)
    const window = algorithm === 'concurrency' ? {} : { window: '1m' }
    const limits = [{ algorithm, max: 10, ...window }]
    const conflicts = (field: string) =>
      isMerged && isUnmerged ? [`coordination-conflict ${field}.algorithm`] : []
    expect(problemsOf({ coordination, limits })).toEqual(conflicts('limits[0]'))
    expect(problemsOf({ coordination, tiers: { plan: { pro: limits } } })).toEqual(
      conflicts('tiers.plan.pro[0]'),
    )
    expect(problemsOf({ coordination, candidate: { limits } })).toEqual(
      conflicts('candidate.limits[0]'),
    )
    expect(problemsOf({ coordination, overrides: [{ caller: {}, limits }] })).toEqual(
      conflicts('overrides[0].limits[0]'),
    )
  })

  test.each(COORDINATIONS)('%s, fixed-window with start: call', (coordination) => {
    const limits = [{ algorithm: 'fixed-window', start: 'call', max: 10, window: '1m' }]
    const isSupported = coordination === 'exact' || coordination === 'node'
    const expected = isSupported ? [] : ['coordination-conflict limits[0].start']
    expect(problemsOf({ coordination, limits })).toEqual(expected)
  })
})

describe('fields of one coordination only', () => {
  const beside = (coordination: string, allowed: string, field: string) =>
    coordination === allowed ? [] : [`coordination-conflict ${field}`]

  test.each(COORDINATIONS)('%s', (coordination) => {
    expect(problemsOf({ coordination, maxStranded: 0.1 })).toEqual(
      beside(coordination, 'leased', 'maxStranded'),
    )
    expect(problemsOf({ coordination, syncEvery: '1s' })).toEqual(
      beside(coordination, 'local', 'syncEvery'),
    )
    expect(problemsOf({ coordination, hedge: true })).toEqual(
      beside(coordination, 'exact', 'hedge'),
    )
    expect(problemsOf({ coordination, hedge: false })).toEqual([])
  })

  test('coordination is exact by default', () => {
    expect(problemsOf({ maxStranded: 0.1, syncEvery: '1s' })).toEqual([
      'coordination-conflict maxStranded',
      'coordination-conflict syncEvery',
    ])
    expect(problemsOf({ hedge: true })).toEqual([])
  })

  test('the fields are not reported beside an invalid coordination', () => {
    const fields = { coordination: 'gossip', maxStranded: 0.1, syncEvery: '1s', hedge: true }
    expect(problemsOf(fields)).toEqual(['unknown-value coordination'])
  })
})

describe('maxStranded', () => {
  test.each([
    [undefined, 0.05],
    [0.05, 0.05],
    ['5%', 0.05],
    ['5 %', 0.05],
    ['0.1%', 0.001],
    ['2.5%', 0.025],
    ['7%', 0.07],
    ['29%', 0.29],
    ['050%', 0.5],
    [0.5, 0.5],
    ['50%', 0.5],
  ])('%o is %d', (maxStranded, share) => {
    expect(read({ coordination: 'leased', maxStranded })?.maxStranded).toBe(share)
  })

  test.each([
    [0, 'bad-number'],
    [-0.1, 'bad-number'],
    [0.500001, 'bad-number'],
    [5, 'bad-number'],
    [Number.NaN, 'bad-number'],
    ['0%', 'bad-number'],
    ['51%', 'bad-number'],
    ['999%', 'bad-number'],
    ['-5%', 'wrong-type'],
    ['5', 'wrong-type'],
    ['5  %', 'wrong-type'],
    ['5e1%', 'wrong-type'],
    ['%', 'wrong-type'],
    [true, 'wrong-type'],
    [['5%'], 'wrong-type'],
  ])('%o is refused', (maxStranded, code) => {
    expect(problemsOf({ coordination: 'leased', maxStranded })).toEqual([`${code} maxStranded`])
  })
})

describe('syncEvery', () => {
  test.each([
    [undefined, 100],
    ['10ms', 10],
    ['1s', 1000],
    ['10s', 10_000],
  ])('%s is %d ms', (syncEvery, ms) => {
    expect(read({ coordination: 'local', syncEvery })?.syncEveryMs).toBe(ms)
  })

  test.each([
    ['9ms', 'bad-duration'],
    ['10001ms', 'bad-duration'],
    ['1m', 'bad-duration'],
    [100, 'bad-duration'],
    ['often', 'bad-duration'],
    [null, 'wrong-type'],
  ])('%o is refused', (syncEvery, code) => {
    expect(problemsOf({ coordination: 'local', syncEvery })).toEqual([`${code} syncEvery`])
  })
})

describe('a limit too small to lease', () => {
  const small = (limit: string | object, more: object = {}) =>
    warningsOf({ coordination: 'leased', limits: [limit], ...more })

  test('gives a warning if the share is below two units', () => {
    expect(small('40/minute')).toEqual([])
    expect(small('39/minute')).toEqual(['small-lease limits[0]'])
    expect(small('39/minute', { maxStranded: 0.5 })).toEqual([])
    expect(small('4/minute', { maxStranded: '50%' })).toEqual([])
    expect(small('3/minute', { maxStranded: '50%' })).toEqual(['small-lease limits[0]'])
  })

  test('is judged by its capacity, not by its rate', () => {
    expect(small({ max: 1000, window: '1s', burst: 39 })).toEqual(['small-lease limits[0]'])
    expect(small({ max: 1, window: '1s', burst: 40 })).toEqual([])
    expect(small({ algorithm: 'gcra', max: 1000, window: '1s' })).toEqual(['small-lease limits[0]'])
    expect(small({ algorithm: 'gcra', max: 1000, window: '1s', burst: 40 })).toEqual([])
  })

  test('would lease with the suggested max or share', () => {
    for (let max = 1; max < 400; max++) {
      for (const maxStranded of [0.005, 0.0073, 0.01, 0.05, 0.07, 0.29]) {
        const fields = { coordination: 'leased', limits: [`${max}/minute`] }
        const [warning] = parseRules([{ ...LEAST, ...fields, maxStranded }]).warnings
        if (warning === undefined) continue
        const [, least] = /max: (\d+)/.exec(warning.accepted) ?? []
        const [, share] = /maxStranded: ([\d.]+)/.exec(warning.accepted) ?? []
        expect(small(`${least}/minute`, { maxStranded })).toEqual([])
        expect(small(`${Number(least) - 1}/minute`, { maxStranded })).toHaveLength(1)
        if (share === undefined) expect(max).toBeLessThan(4)
        else expect(small(`${max}/minute`, { maxStranded: Number(share) })).toEqual([])
      }
    }
  })

  test('gives no warning if it refuses all, charges refusals, or is of one caller', () => {
    expect(small('0/minute')).toEqual([])
    expect(small({ max: 1, window: '1s', onRefusal: 'charge' })).toEqual([])
    const overrides = [{ caller: {}, limits: ['1/minute'] }]
    expect(small('1000/minute', { overrides })).toEqual([])
  })

  test('gives no warning if the rule is not leased', () => {
    for (const coordination of ['exact', 'local', 'split']) {
      expect(warningsOf({ coordination, limits: ['1/minute'] })).toEqual([])
    }
    expect(small('1/minute', { mode: 'off' })).toEqual([])
  })
})

test('a syncEvery of more than half a window gives a warning', () => {
  const slow = (syncEvery: string, limit: string | object) =>
    warningsOf({ coordination: 'local', syncEvery, limits: [limit] })
  expect(slow('500ms', '10/second')).toEqual([])
  expect(slow('501ms', '10/second')).toEqual(['slow-sync limits[0]'])
  expect(slow('125ms', '10/250ms')).toEqual([])
  expect(slow('126ms', '10/250ms')).toEqual(['slow-sync limits[0]'])
  expect(slow('10s', '0/second')).toEqual([])
  expect(slow('10s', { max: 1, window: '1s', onRefusal: 'charge' })).toEqual([])
})
