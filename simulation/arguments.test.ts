import { expect, test } from 'vitest'
import { readArguments } from './arguments.js'

test('without arguments a thousand seeds run, from the first on', () => {
  expect(readArguments([])).toEqual({ kind: 'many', from: 0, seeds: 1000, mutation: undefined })
})

test('the number of seeds, the first seed and a mutation can be chosen', () => {
  const command = readArguments(['--seeds', '10000', '--from', '5', '--mutation', 'late-lease'])
  expect(command).toEqual({ kind: 'many', from: 5, seeds: 10_000, mutation: 'late-lease' })
})

test('a single seed can be replayed', () => {
  expect(readArguments(['--seed', '42'])).toEqual({ kind: 'one', seed: 42, mutation: undefined })
})

test.each([
  [['--seeds', 'many'], '--seeds: found "many"; accepted: a whole number from 0 on'],
  [['--seed', '-1'], /--seed/],
  [['--from', '1.5'], '--from: found "1.5"; accepted: a whole number from 0 on'],
  [['--mutation', 'bug'], /--mutation: found "bug"; accepted: lost-give-back, late-lease/],
  [['--speed'], /--speed/],
])('invalid arguments %j are rejected', (args, problem) => {
  const command = readArguments(args)
  expect(command.kind).toBe('wrong')
  if (command.kind === 'wrong') expect(command.problem).toMatch(problem)
})
