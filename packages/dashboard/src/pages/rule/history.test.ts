import type { HistoryChangeView, VersionView } from '@sluice/client'
import { expect, test } from 'vitest'
import { textChanges, versionSummary } from './history.js'

const version = (
  changes: readonly HistoryChangeView[],
  changeCount = changes.length,
): VersionView => ({
  version: 7,
  at: '2026-01-02T03:04:05Z',
  by: 'ann',
  why: null,
  changeCount,
  changes,
})
const rule = { id: 'a', limits: ['1/day'] }

test('a version is summarized by its changes', () => {
  expect(
    versionSummary(
      version([
        { kind: 'rule', id: 'a', before: rule, after: rule },
        { kind: 'candidate', id: 'a', before: null, after: { limits: ['2/day'] } },
      ]),
    ),
  ).toBe('added its candidate')
  const override = { kind: 'override', id: 'a/user=u', before: {}, after: null } as const
  expect(versionSummary(version([override, override], 150))).toBe(
    'removed an override (2), and 148 more',
  )
  expect(versionSummary(version([]))).toBe('no changes')
})

test('changes are texts before and after, without equal ones', () => {
  const after = { ...rule, limits: ['2/day'] }
  expect(
    textChanges(
      version([
        { kind: 'rule', id: 'a', before: rule, after },
        { kind: 'rule', id: 'a', before: rule, after: rule },
        { kind: 'override', id: 'a/user=u', before: { limits: [] }, after: null },
      ]),
    ),
  ).toEqual([
    { title: 'the rule', before: 'id: a\nlimits: [1/day]\n', after: 'id: a\nlimits: [2/day]\n' },
    { title: 'override a/user=u', before: 'limits: []\n', after: '' },
  ])
})
