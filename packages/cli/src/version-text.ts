/** Versions of the past in a few words. */
import type { PastChangeView, VersionView } from '@sluice/client'

const SHOWN_MAX = 3

/** `rule per-user changed, 12 overrides added`. */
export function whatChanged({ changes, changeCount }: VersionView): string {
  const counts = new Map<string, { count: number; readonly id: string }>()
  for (const change of changes) {
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
  if (changeCount > changes.length) words.push(`${changeCount - changes.length} more`)
  else if (told.length > SHOWN_MAX) words.push('more')
  return words.join(', ')
}

function verbOf({ before, after }: PastChangeView): string {
  if (before === null) return 'added'
  return after === null ? 'removed' : 'changed'
}
