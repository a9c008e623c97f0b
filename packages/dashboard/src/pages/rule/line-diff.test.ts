import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { diffLines, hunksOf } from './line-diff.js'

const show = (before: string, after: string) =>
  diffLines(before, after).map(
    ({ kind, text }) => `${{ same: ' ', gone: '-', new: '+' }[kind]}${text}`,
  )

describe('the difference of two texts', () => {
  test('is nothing where they are the same', () => {
    expect(show('a\nb\n', 'a\nb\n')).toEqual([' a', ' b'])
    expect(show('', '')).toEqual([])
  })

  test('tells what went before what came', () => {
    expect(show('a\nb\nc\n', 'a\nB\nc\n')).toEqual([' a', '-b', '+B', ' c'])
    expect(show('', 'a')).toEqual(['+a'])
    expect(show('a', '')).toEqual(['-a'])
  })

  test('finds a line that was added among equal ones', () => {
    expect(show('x\nx\nx', 'x\nx\nx\nx').filter((line) => line.startsWith('+'))).toHaveLength(1)
  })

  test('leaves out what is far from every change', () => {
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

test('gives back both texts', () => {
  fc.assert(
    fc.property(text, text, (before, after) => {
      const lines = diffLines(before.join('\n'), after.join('\n'))
      const of = (kind: string) =>
        lines.filter((each) => each.kind === 'same' || each.kind === kind)
      const joined = (list: readonly { readonly text: string }[]) =>
        list.map((each) => each.text).join('\n')
      const ended = (list: readonly string[]) => list.join('\n').replace(/\n$/, '')
      expect(joined(of('gone'))).toBe(ended(before))
      expect(joined(of('new'))).toBe(ended(after))
    }),
  )
})
