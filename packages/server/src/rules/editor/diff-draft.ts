/** Describes the changes of a draft: rules by their meaning, overrides by their number. */
import { diffRules, type RuleChange, type RuleDiff, type RuleSet } from '@sluice/core'
import type { Draft } from './draft.js'

/** Both sets have no overrides: the draft knows which of them changed. */
export function diffDraft(draft: Draft, before: RuleSet, after: RuleSet): RuleDiff {
  const diff = diffRules(before, after)
  const byId = new Map(diff.rules.map((change) => [change.id, change]))
  for (const id of draft.touchedOverrides().keys()) {
    const overrides = draft.countOverrides(id)
    if (overrides.added + overrides.changed + overrides.removed === 0) continue
    const known = byId.get(id) ?? changeOf(id, 'changed')
    byId.set(id, {
      ...known,
      change: known.change === 'moved' ? 'changed' : known.change,
      overrides,
    })
  }
  // A rule that was stored with errors is in neither set.
  for (const id of draft.touchedRules()) {
    if (draft.rule(id) !== undefined || byId.get(id)?.change === 'removed') continue
    byId.set(id, { ...changeOf(id, 'removed'), overrides: draft.countOverrides(id) })
  }
  // The diff is in the order of the set; rules that were added to it have to be sorted in.
  const ordered = byId.size === diff.rules.length ? diff.rules : after.rules
  const present = ordered
    .flatMap(({ id }) => byId.get(id) ?? [])
    .filter(({ change }) => change !== 'removed')
  const gone = [...byId.values()].filter(({ change }) => change === 'removed')
  return { set: diff.set, rules: [...present, ...gone] }
}

function changeOf(id: string, change: RuleChange['change']): RuleChange {
  const overrides = { added: 0, changed: 0, removed: 0 }
  return { id, change, fields: [], counters: [], overrides }
}
