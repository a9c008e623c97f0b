/** Versions of the past in a few words. */
import type { PastChangeView, VersionView } from '@sluice/client'
import { isRecord } from './records.js'
import { instantText } from './rule-text.js'

const SHOWN_MAX = 3

/** `rule per-user changed, 12 overrides added`. */
export function whatChanged({ changes, changeCount }: VersionView): string {
  const counts = new Map<string, { count: number; readonly id: string }>()
  const shadows = changes.flatMap(shadowChanges)
  for (const change of changes) {
    if (isShadowOnly(change)) continue
    // The set has the order of rules: it is told of only where nothing else is.
    const what = `${change.kind} ${verbOf(change)}`
    const seen = counts.get(what)
    if (seen === undefined) counts.set(what, { count: 1, id: change.id })
    else seen.count++
  }
  const told = [...counts].filter(([what]) => counts.size === 1 || !what.startsWith('set '))
  const words = told.slice(0, SHOWN_MAX).map(([what, { count, id }]) => {
    const [kind = '', verb = ''] = what.split(' ')
    return count === 1 ? `${kind} ${id} ${verb}` : `${count} ${kind}s ${verb}`
  })
  words.unshift(...shadows.slice(0, SHOWN_MAX))
  if (changeCount > changes.length) words.push(`${changeCount - changes.length} more`)
  else if (told.length > SHOWN_MAX) words.push('more')
  return words.join(', ')
}

function verbOf({ before, after }: PastChangeView): string {
  if (before === null) return 'added'
  return after === null ? 'removed' : 'changed'
}

/** What a version changed of timed shadows: `all rules in shadow until 2026-01-02T03:04:05Z`. */
function shadowChanges({ kind, before, after }: PastChangeView): readonly string[] {
  if (kind !== 'set') return []
  const [was, is] = [endsOf(before), endsOf(after)]
  const begun = [...is].filter(([rule, until]) => was.get(rule) !== until)
  const ended = [...was.keys()].filter((rule) => !is.has(rule))
  return [
    ...begun.map(([rule, until]) => `${rule} in shadow until ${instantText(until)}`),
    ...ended.map((rule) => `shadow of ${rule} ended`),
  ]
}

/** By rule, the end of its timed shadow. */
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

/** Such a change is no part of what a rollback takes back. */
export function isShadowOnly(change: PastChangeView): boolean {
  if (shadowChanges(change).length === 0) return false
  const rest = (set: unknown) => JSON.stringify(isRecord(set) ? { ...set, shadow: null } : set)
  return rest(change.before) === rest(change.after)
}
