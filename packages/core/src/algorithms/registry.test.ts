/** Checks that every algorithm defines all that stores, rules and coordination read from it. */
import { describe, expect, test } from 'vitest'
import { defineLimit, findLimitProblem, resizeLimit } from '../limit.js'
import type { Algorithm } from './algorithm.js'
import {
  ALGORITHM_NAMES,
  algorithmOf,
  layoutOf,
  MODULE_CHOICES,
  MODULE_NAMES,
  type ModuleName,
  moduleChoiceOf,
  moduleOf,
  modules,
  STORED_ALGORITHMS,
} from './index.js'

test('every algorithm has its own format number, from 1 on', () => {
  const formats = STORED_ALGORITHMS.map(({ format }) => format).toSorted((a, b) => a - b)
  expect(formats).toEqual(formats.map((_, index) => index + 1))
})

describe.each(MODULE_NAMES)('%s', (name) => {
  const algorithm = modules[name] as Algorithm<unknown>
  const choice = MODULE_CHOICES[name]
  const windowMs = algorithm.family === 'places' ? 0 : 1000
  const limit = defineLimit({ ...choice, max: 10, windowMs })

  test('the algorithm is registered under its own name and format', () => {
    expect(ALGORITHM_NAMES).toContain(algorithm.name)
    expect(algorithm.name).toBe(choice.algorithm)
    expect(moduleOf(choice)).toBe(algorithm)
    expect(moduleChoiceOf(limit)).toMatchObject(choice)
    expect(algorithmOf(limit)).toBe(algorithm)
    expect(layoutOf(limit)).toBe(algorithm.layout)
  })

  test('the algorithm defines the same members as every other, in the same order', () => {
    // One hidden class for all algorithms keeps calls of their functions fast.
    expect(Object.keys(algorithm)).toEqual(Object.keys(modules['token-bucket']))
  })

  test('the algorithm defines every trait', () => {
    expect(['bucket', 'queue', 'window', 'log', 'places']).toContain(algorithm.family)
    expect([0, 1, 2]).toContain(algorithm.windowsCounted)
    expect([0, 1]).toContain(algorithm.unitsBeyondCapacity)
    for (const trait of [
      'leasable',
      'mergeable',
      'splittable',
      'alignedToClock',
      'resetsAtOnce',
      'holdsMax',
    ] as const) {
      expect(algorithm[trait]).toBeTypeOf('boolean')
    }
    expect(algorithm.windowsCounted > 0).toBe(algorithm.family === 'window')
    expect(algorithm.alignedToClock && algorithm.family !== 'window').toBe(false)
    expect(algorithm.resetsAtOnce && !algorithm.alignedToClock).toBe(false)
  })

  test('the algorithm shares its Lua only with algorithms of the same state layout', () => {
    expect(modules[algorithm.lua as ModuleName].layout).toBe(algorithm.layout)
  })

  test('the algorithm accepts exactly the optional fields that it names', () => {
    for (const field of ['burst', 'waitMs', 'queue', 'maxWaitMs', 'leaseMs'] as const) {
      const spec = { ...choice, max: 10, windowMs, [field]: 5000 }
      const problem = findLimitProblem(spec)
      expect(problem === undefined).toBe(algorithm.fields.includes(field))
    }
  })

  test('resize changes the max of a limit and keeps the rest', () => {
    const resized = resizeLimit(limit, 5, 3)
    const { format, name: counter } = limit
    const { windowUs } = limit
    expect(resized).toMatchObject({ format, name: counter, max: 5, windowMs, windowUs })
    expect(resized?.capacity).toBe(['window', 'log', 'places'].includes(algorithm.family) ? 5 : 3)
    expect(resized?.maxWaitUs).toBe(limit.maxWaitUs)
  })

  test('a stored state reads back from memory and from a reply', () => {
    const { layout } = algorithm
    const { state } = algorithm.take(undefined, limit, 1, 5_000_000)
    if (layout === undefined) {
      expect(state).toBeInstanceOf(Array)
      return
    }
    const doubles = new Float64Array(5)
    layout.write(state, doubles, 1)
    expect(layout.read(doubles, 1)).toEqual(state)
    expect([doubles[0], doubles[4]]).toEqual([0, 0])
    const names = layout.fields.map((field) => field.name)
    expect(Object.keys(state as object)).toEqual(names)
    const numbers = names.map((field) => (state as Record<string, number>)[field] ?? 0)
    expect(layout.decode({ readCount: () => numbers.shift() ?? -1 })).toEqual(state)
    expect(numbers).toEqual([])
  })

  test('the layout of a state equals the format that value.lua packs', () => {
    const bytes = algorithm.layout?.fields.map((field) => field.bytes) ?? [7, 4]
    expect([2, 3, 4]).toContain(bytes.length)
    expect(bytes.slice(0, 2)).toEqual([7, 4])
    expect(bytes[3] ?? 2).toBe(2)
  })
})
