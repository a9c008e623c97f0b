/** Versions of the past in a few words. */
import type { FieldChange, PastChangeView, RuleChange, VersionView } from '@sluice/client'
import { isRecord, wordOf } from './records.js'

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

/**
 * What undoing these versions changes, newest first as they are told: each record from how it is
 * now to how it was before the oldest of them. Of counters nothing is known here; the server tells.
 */
export function undoing(versions: readonly VersionView[]): readonly RuleChange[] {
  const byRule = new Map<string, PastChangeView[]>()
  for (const record of netChanges(versions)) {
    const [id = ''] = record.id.split('/')
    const records = byRule.get(id)
    if (!['rule', 'candidate', 'override'].includes(record.kind)) continue
    if (records === undefined) byRule.set(id, [record])
    else records.push(record)
  }
  return [...byRule].flatMap(([id, records]) => undoingRule(id, records))
}

/** Each record once, with how it was before all of these versions and how it is after them. */
function netChanges(versions: readonly VersionView[]): Iterable<PastChangeView> {
  const records = new Map<string, PastChangeView>()
  for (const { kind, id, before, after } of versions.flatMap(({ changes }) => changes)) {
    const key = `${kind}/${id}`
    const newer = records.get(key)
    records.set(key, { kind, id, before, after: newer === undefined ? after : newer.after })
  }
  return records.values()
}

function undoingRule(id: string, records: readonly PastChangeView[]): readonly RuleChange[] {
  const rule = records.find(({ kind }) => kind === 'rule')
  const candidate = records.find(({ kind }) => kind === 'candidate')
  const fields = [
    ...(rule === undefined ? [] : fieldsOf(rule.after, rule.before)),
    ...(candidate === undefined
      ? []
      : fieldsOf({ candidate: candidate.after }, { candidate: candidate.before })),
  ]
  const turns = records.flatMap((record) => (record.kind === 'override' ? turnOf(record) : []))
  const many = (turn: RuleChange['change']) => turns.filter((each) => each === turn).length
  const overrides = { added: many('added'), changed: many('changed'), removed: many('removed') }
  const [change = 'changed'] = rule === undefined ? [] : turnOf(rule)
  const isNothing = change === 'changed' && fields.length === 0 && turns.length === 0
  return isNothing ? [] : [{ id, change, fields, counters: [], overrides }]
}

/** What going back does to a record; nothing, if it neither was there nor is. */
function turnOf({ before, after }: PastChangeView): readonly RuleChange['change'][] {
  if (before === null) return after === null ? [] : ['removed']
  return after === null ? ['added'] : ['changed']
}

/** The fields in which two documents differ; a rule that comes or goes is told of as a whole. */
function fieldsOf(now: unknown, then: unknown): readonly FieldChange[] {
  if (!isRecord(now) || !isRecord(then)) return []
  const names = [...new Set([...Object.keys(now), ...Object.keys(then)])]
  return names.flatMap((field) => {
    const change = { field, before: wordOf(now[field]), after: wordOf(then[field]) }
    return change.before === change.after ? [] : [change]
  })
}
