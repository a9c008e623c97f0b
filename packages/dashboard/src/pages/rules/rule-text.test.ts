import { expect, test } from 'vitest'
import { ceilingsText } from './rule-text.js'

test('the ceiling of a priority is what more important ones leave', () => {
  const priorities = ['critical', 'writes', 'reads', 'test']
  expect(ceilingsText({ critical: '20%', reads: 0.07 }, priorities)).toBe(
    'critical 100 %, writes 80 %, reads 80 %, test 73 %',
  )
  expect(ceilingsText('nonsense', ['reads'])).toBe('reads 100 %')
})
