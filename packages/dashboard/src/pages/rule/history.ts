/** Summarizes the versions of a rule, and shows each change as two texts. */
import type { HistoryChangeView, VersionView } from '@sluice/client'
import { isRecord } from '@sluice/core/text'
import { writeRuleYaml, writeYaml } from '@sluice/core/text'

const NAMES: Readonly<Record<HistoryChangeView['kind'], string>> = {
  set: 'the rule order or routes',
  rule: 'the rule',
  candidate: 'its candidate',
  override: 'an override',
  key: 'a key',
  token: 'a token',
  secret: 'a secret',
}

/** The changes of a version: `changed the rule, added its candidate`. */
export function versionSummary({ changes, changeCount }: VersionView): string {
  const kinds = new Map<string, number>()
  for (const { kind, before, after } of changes) {
    const verb = before === null ? 'added' : after === null ? 'removed' : 'changed'
    // A change of the candidate also writes the rule, unchanged.
    if (verb === 'changed' && JSON.stringify(before) === JSON.stringify(after)) continue
    const what = `${verb} ${NAMES[kind] ?? kind}`
    kinds.set(what, (kinds.get(what) ?? 0) + 1)
  }
  const words = [...kinds].map(([what, number]) => (number === 1 ? what : `${what} (${number})`))
  if (changeCount > changes.length) words.push(`and ${changeCount - changes.length} more`)
  return words.length === 0 ? 'no changes' : words.join(', ')
}

export interface TextChange {
  readonly title: string
  readonly before: string
  readonly after: string
}

/** Each change that differs, as text before and after. */
export function textChanges({ changes }: VersionView): readonly TextChange[] {
  return changes.flatMap(({ kind, id, before, after }) => {
    const texts = { before: bodyText(before), after: bodyText(after) }
    if (texts.before === texts.after) return []
    const of = kind === 'override' ? `override ${id}` : (NAMES[kind] ?? kind)
    return { title: of, ...texts }
  })
}

function bodyText(body: unknown): string {
  if (body === null || body === undefined) return ''
  return isRecord(body) ? writeRuleYaml(body) : writeYaml(body, 'compact')
}
