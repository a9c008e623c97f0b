import { expect, test } from 'vitest'
import { priorityFigures } from './priority-figures.js'

const five = (value: number) => Array.from({ length: 5 }, () => value)

test('figures of a priority are rates over the last ten seconds', () => {
  const stats = {
    priority: 'reads',
    admitted: [900, ...five(60)],
    shed: [0, ...five(20)],
    shadowShed: [0, ...five(2)],
  }
  expect(priorityFigures(stats, 2000)).toEqual({
    priority: 'reads',
    admitted: 30,
    shed: 10,
    shadowShed: 1,
    share: 0.25,
  })
})

test('a priority without requests has shed none of them', () => {
  const stats = { priority: 'test', admitted: [], shed: [], shadowShed: [] }
  expect(priorityFigures(stats, 2000)).toMatchObject({ admitted: 0, shed: 0, share: 0 })
})
