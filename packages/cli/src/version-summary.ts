/** Summarizes versions of the history. */
import type { HistoryChangeView, VersionView } from '@sluice/client'
import { isRecord } from './guards.js'
import { instantText } from './time-format.js'

const SHOWN_MAX = 3

/** `rule per-user changed, 12 overrides added`. */
export function whatChanged({ changes, changeCount }: VersionView): string {
  const counts = new Map<string, { count: number; readonly id: string }>()
  const shadows = changes.flatMap(shadowChanges)
  for (const change of changes) {
    if (isShadowOnly(change)) continue
    // The set contains the order of rules: it is mentioned only if nothing else changed.
    const what = `${change.kind} ${verbOf(change)}`
    const entry = counts.get(what)
    if (entry === undefined) counts.set(what, { count: 1, id: change.id })
    else entry.count++
  }
  const shown = [...counts].filter(([what]) => counts.size === 1 || !what.startsWith('set '))
  const words = shown.slice(0, SHOWN_MAX).map(([what, { count, id }]) => {
    const [kind = '', verb = ''] = what.split(' ')
    return count === 1 ? `${kind} ${id} ${verb}` : `${count} ${kind}s ${verb}`
  })
  words.unshift(...shadows.slice(0, SHOWN_MAX))
  if (changeCount > changes.length) words.push(`${changeCount - changes.length} more`)
  else if (shown.length > SHOWN_MAX) words.push('more')
  return words.join(', ')
}

function verbOf({ before, after }: HistoryChangeView): string {
  if (before === null) return 'added'
  return after === null ? 'removed' : 'changed'
}

/** The timed shadows that a version changed: `all rules in shadow until 2026-01-02T03:04:05Z`. */
function shadowChanges({ kind, before, after }: HistoryChangeView): readonly string[] {
  if (kind !== 'set') return []
  const [previous, now] = [endsOf(before), endsOf(after)]
  const begun = [...now].filter(([rule, until]) => previous.get(rule) !== until)
  const ended = [...previous.keys()].filter((rule) => !now.has(rule))
  return [
    ...begun.map(([rule, until]) => `${rule} in shadow until ${instantText(until)}`),
    ...ended.map((rule) => `shadow of ${rule} ended`),
  ]
}

/** The end of each timed shadow, by rule. */
function endsOf(set: unknown): ReadonlyMap<string, string> {
  const shadow = isRecord(set) ? set['shadow'] : undefined
  if (!isRecord(shadow)) return new Map()
  const { all, rules } = shadow
  const entries = [['all rules', all] as const, ...Object.entries(isRecord(rules) ? rules : {})]
  return new Map(
    entries.flatMap(([rule, entry]) => {
      const until = isRecord(entry) ? entry['until'] : undefined
      return typeof until === 'string' ? [[rule, until] as const] : []
    }),
  )
}

/** A rollback does not revert such a change. */
export function isShadowOnly(change: HistoryChangeView): boolean {
  if (shadowChanges(change).length === 0) return false
  const rest = (set: unknown) => JSON.stringify(isRecord(set) ? { ...set, shadow: null } : set)
  return rest(change.before) === rest(change.after)
}
