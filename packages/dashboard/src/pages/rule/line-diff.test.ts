import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { diffLines, hunksOf } from './line-diff.js'

const show = (before: string, after: string) =>
  diffLines(before, after).map(
    ({ kind, text }) => `${{ same: ' ', removed: '-', added: '+' }[kind]}${text}`,
  )

describe('diffLines', () => {
  test('equal texts have no changed lines', () => {
    expect(show('a\nb\n', 'a\nb\n')).toEqual([' a', ' b'])
    expect(show('', '')).toEqual([])
  })

  test('removed lines come before added lines', () => {
    expect(show('a\nb\nc\n', 'a\nB\nc\n')).toEqual([' a', '-b', '+B', ' c'])
    expect(show('', 'a')).toEqual(['+a'])
    expect(show('a', '')).toEqual(['-a'])
  })

  test('a line added among equal lines is one added line', () => {
    expect(show('x\nx\nx', 'x\nx\nx\nx').filter((line) => line.startsWith('+'))).toHaveLength(1)
  })

  test('lines far from every change are omitted', () => {
    const lines = Array.from({ length: 20 }, (_, i) => `line ${i}`)
    const hunks = hunksOf(
      diffLines(lines.join('\n'), [...lines.slice(0, 19), 'other'].join('\n')),
      2,
    )
    expect(hunks.map((line) => line?.text ?? '…')).toEqual([
      '…',
      'line 17',
      'line 18',
      'line 19',
      'other',
    ])
  })
})

const text = fc.array(fc.constantFrom('a', 'b', 'c', ''), { maxLength: 12 })

test('both texts can be rebuilt from their difference', () => {
  fc.assert(
    fc.property(text, text, (before, after) => {
      const lines = diffLines(before.join('\n'), after.join('\n'))
      const linesOf = (kind: string) =>
        lines.filter((each) => each.kind === 'same' || each.kind === kind)
      const joined = (list: readonly { readonly text: string }[]) =>
        list.map((each) => each.text).join('\n')
      const ended = (list: readonly string[]) => list.join('\n').replace(/\n$/, '')
      expect(joined(linesOf('removed'))).toBe(ended(before))
      expect(joined(linesOf('added'))).toBe(ended(after))
    }),
  )
})
