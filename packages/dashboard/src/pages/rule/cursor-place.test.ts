import type { ProblemView } from '@sluice/client'
import { describe, expect, test } from 'vitest'
import { problemMessage, placeOffset, problemPlace, validationSummary } from './cursor-place.js'

const problem = (more: Partial<ProblemView>): ProblemView => ({
  code: 'bad-value',
  message: '',
  field: 'mode',
  found: '',
  accepted: '',
  ...more,
})
const TEXT = 'id: a\nlimits:\n  - 1/day\nmode: x\n'

describe('a problem of a rule', () => {
  test('the place is the reported one, else the line of the field, else unknown', () => {
    expect(problemPlace(problem({ line: 3, column: 5 }), TEXT)).toEqual({ line: 3, column: 5 })
    expect(problemPlace(problem({}), TEXT)).toEqual({ line: 4, column: 1 })
    expect(problemPlace(problem({ field: 'limits[0].max' }), TEXT)).toEqual({ line: 2, column: 1 })
    expect(problemPlace(problem({ field: 'hedge' }), TEXT)).toBeUndefined()
  })

  test('the offset of a place never exceeds the text', () => {
    expect(TEXT.slice(placeOffset({ line: 3, column: 5 }, TEXT)).startsWith('1/day')).toBe(true)
    expect(placeOffset({ line: 99, column: 1 }, TEXT)).toBe(TEXT.length)
  })

  test('the message has neither position nor rule', () => {
    const message = '4:7: rule "a": mode: unknown value "x"'
    expect(problemMessage(problem({ rule: 'a', message }))).toBe('mode: unknown value "x"')
  })
})

test('the validation summary counts errors and warnings', () => {
  expect(validationSummary(0, 0)).toBe('Valid')
  expect(validationSummary(1, 0)).toBe('1 error')
  expect(validationSummary(2, 1)).toBe('2 errors, 1 warning')
  expect(validationSummary(0, 2)).toBe('Valid, with 2 warnings')
})
