import { expect, test } from 'vitest'
import { parseRules } from './parse-rules.js'

const LEAKY = `rules: [{ id: r, by: [], limits: [{ algorithm: leaky-bucket, max: 9, window: 1s }] }]`
const REGIONS = ['eu-west', 'us-east']

test('a rule that says nothing of regions is merged, within a default tolerance', () => {
  const { rules } = parseRules('rules: [{ id: r, by: [], limits: [1/second] }]')
  expect(rules?.rules[0]).toMatchObject({ regions: 'merged', tolerance: undefined })
  expect(rules?.shares).toBeUndefined()
})

test('shares and tolerance are read as ten-thousandths', () => {
  const { rules } = parseRules(`shares: { a: 33.33%, b: 0.6667 }
rules: [{ id: r, by: [], limits: [10/minute], tolerance: 0.5% }]`)
  expect([...(rules?.shares ?? [])]).toEqual([
    ['a', 3333],
    ['b', 6667],
  ])
  expect(rules?.rules[0]?.tolerance).toBe(50)
})

test('one region gives no warning, because the field does nothing there', () => {
  expect(parseRules(LEAKY).warnings).toEqual([])
  expect(parseRules(LEAKY, { regions: ['eu-west'] }).warnings).toEqual([])
})

test('the regions of the configuration give the warnings that shares in the rules give', () => {
  const { warnings } = parseRules(LEAKY, { regions: REGIONS })
  expect(warnings.map(({ code, message }) => [code, message])).toEqual([
    ['regions-apart', expect.stringContaining('2 x 9 in all')],
  ])
})

test('a rule that is off gives no warning', () => {
  const text = LEAKY.replace('id: r', 'id: r, mode: off')
  expect(parseRules(text, { regions: REGIONS }).warnings).toEqual([])
})

test('shares without a configured region are refused', () => {
  const text = 'shares: { eu-west: 100% }\nrules: []'
  const { errors } = parseRules(text, { regions: REGIONS })
  expect(errors.map(({ message }) => message)).toEqual([
    '1:9: shares.us-east: found no share. Accepted: a share for each region that is configured: eu-west, us-east',
  ])
})

test('shares may name a region that is not configured yet', () => {
  const text = 'shares: { eu-west: 50%, us-east: 50%, soon: 0% }\nrules: []'
  expect(parseRules(text, { regions: REGIONS }).errors).toEqual([])
})

test('shares of more regions than are possible are refused', () => {
  const names = Array.from({ length: 17 }, (_, i) => `r${i}: 1%`).join(', ')
  const { errors } = parseRules(`shares: { ${names} }\nrules: []`)
  expect(errors.map(({ code }) => code)).toEqual(['too-many'])
})
