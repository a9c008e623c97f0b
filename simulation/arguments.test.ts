import { expect, test } from 'vitest'
import { readArguments } from './arguments.js'

test('without arguments a thousand seeds run, from the first on', () => {
  expect(readArguments([])).toEqual({
    kind: 'many',
    from: 0,
    seeds: 1000,
    world: 'fleet',
    mutation: undefined,
  })
})

test('the number of seeds, the first seed and a mutation can be chosen', () => {
  const command = readArguments(['--seeds', '10000', '--from', '5', '--mutation', 'late-lease'])
  expect(command).toEqual({
    kind: 'many',
    from: 5,
    seeds: 10_000,
    world: 'fleet',
    mutation: 'late-lease',
  })
})

test('a single seed can be replayed', () => {
  const command = readArguments(['--seed', '42', '--world', 'regions'])
  expect(command).toEqual({ kind: 'one', seed: 42, world: 'regions', mutation: undefined })
})

test.each([
  [['--seeds', 'many'], '--seeds: found "many"; accepted: a whole number from 0 on'],
  [['--seed', '-1'], /--seed/],
  [['--from', '1.5'], '--from: found "1.5"; accepted: a whole number from 0 on'],
  [['--mutation', 'bug'], /--mutation: found "bug"; accepted: lost-give-back, late-lease/],
  [['--world', 'flat'], '--world: found "flat"; accepted: fleet, regions'],
  [['--world', 'regions', '--mutation', 'late-lease'], /accepted: told-twice/],
  [['--speed'], /--speed/],
])('invalid arguments %j are rejected', (args, problem) => {
  const command = readArguments(args)
  expect(command.kind).toBe('wrong')
  if (command.kind === 'wrong') expect(command.problem).toMatch(problem)
})
