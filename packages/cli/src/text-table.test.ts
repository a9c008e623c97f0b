import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { pairs, table, widthOf } from './text-table.js'
import { propertyRuns } from '../../../tools/property-runs.js'

describe('a table', () => {
  test('aligns columns, and numbers at their end', () => {
    const text = table(
      ['ID', 'LIMITS', 'VERSION'],
      [
        ['per-user', '10/second', 7],
        ['a', '', 12],
      ],
    )
    expect(text).toBe(
      [
        'ID        LIMITS     VERSION',
        'per-user  10/second        7',
        'a         -               12',
        '',
      ].join('\n'),
    )
  })

  test('is cut to the width, from its widest column', () => {
    const text = table(['ID', 'WHY'], [['per-user', 'because it was asked for by somebody']], 24)
    expect(text).toBe('ID        WHY\nper-user  because it wa…\n')
  })

  test('counts wide characters twice and marks not at all', () => {
    expect(widthOf('日本')).toBe(4)
    expect(widthOf('e\u0301')).toBe(1)
    expect(
      table(
        ['A', 'B'],
        [
          ['日本', 'x'],
          ['ab', 'y'],
        ],
      ),
    ).toBe('A     B\n日本  x\nab    y\n')
  })

  test('escapes characters that could move a cursor or begin a line', () => {
    const text = table(['ID'], [['\u001b[2J\nroot\u009b1m\u202e']])
    expect(text).toBe('ID\n\\u001b[2J\\u000aroot\\u009b1m\\u202e\n')
  })

  test('may have any number of rows', () => {
    const rows = Array.from({ length: 200_000 }, (_, i) => [i])
    expect(table(['N'], rows).endsWith('\n199999\n')).toBe(true)
  })

  test('never has a line above the width or a control character, whatever its values', () => {
    const cell = fc.oneof(fc.string({ unit: 'binary', maxLength: 60 }), fc.nat())
    const rows = fc.array(fc.tuple(cell, cell, cell), { maxLength: 5 })
    fc.assert(
      fc.property(rows, fc.integer({ min: 30, max: 120 }), (some, width) => {
        const lines = table(['ONE', 'TWO', 'THREE'], some, width).split('\n')
        expect(lines).toHaveLength(some.length + 2)
        for (const line of lines) {
          expect(widthOf(line)).toBeLessThanOrEqual(width)
          expect(line).not.toMatch(/\p{Cc}/u)
        }
      }),
      { numRuns: propertyRuns(100) },
    )
  })
})

test('pairs have their values in one column', () => {
  expect(
    pairs([
      ['id', 'k1'],
      ['remaining', 3],
      ['plan', undefined],
    ]),
  ).toBe('id         k1\nremaining  3\nplan       -\n')
})
