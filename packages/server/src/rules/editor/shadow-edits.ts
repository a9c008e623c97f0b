/** Edits of timed shadows: start, and end early. */
import { parseDuration } from '@sluice/core'
import {
  type ShadowDocument,
  type ShadowEntry,
  SHADOW_MS_MAX,
  SHADOW_MS_MIN,
} from '../store/records.js'
import { type EditContext, requireRule } from './edit-plan.js'
import { Draft } from './draft.js'
import type { Editor } from './editor.js'
import { makeProblem, invalidError } from './edit-errors.js'

type ShadowEdits = Pick<Editor, 'shadow' | 'endShadow'>

export function shadowEdits({ commits, clock }: EditContext): ShadowEdits {
  return {
    async shadow({ rule, duration }, meta) {
      const forMs = readDuration(duration)
      return commits.run(meta, (catalog) => {
        if (rule !== undefined) requireRule(catalog, rule, undefined)
        const nowMs = clock.now()
        const entry = { until: new Date(nowMs + forMs).toISOString(), forMs }
        const draft = new Draft(catalog)
        draft.setShadow(withEntry(withoutPast(draft.shadow, nowMs), rule, entry))
        return {
          changes: draft.changes(),
          result: (version) => ({ version, until: entry.until, rule }),
        }
      })
    },

    async endShadow(rule, meta) {
      return commits.run(meta, (catalog) => {
        if (rule !== undefined) requireRule(catalog, rule, undefined)
        const draft = new Draft(catalog)
        if (rule === undefined) draft.setShadow(undefined)
        else draft.endShadow(rule)
        return { changes: draft.changes(), result: (version) => version }
      })
    },
  }
}

function readDuration(text: string): number {
  const ms = parseDuration(text)
  if (ms !== undefined && ms >= SHADOW_MS_MIN && ms <= SHADOW_MS_MAX) return ms
  const problem = makeProblem({
    code: 'bad-duration',
    field: 'for',
    found: JSON.stringify(text.slice(0, 64)),
    accepted: 'a duration from 1m to 24h, such as 15m',
  })
  throw invalidError('rules_invalid', [problem])
}

function withEntry(
  shadow: ShadowDocument,
  rule: string | undefined,
  entry: ShadowEntry,
): ShadowDocument {
  if (rule === undefined) return { ...shadow, all: entry }
  return { ...shadow, rules: { ...shadow.rules, [rule]: entry } }
}

/** Removes entries that are over by any clock: nothing else would ever remove them. */
function withoutPast({ all, rules = {} }: ShadowDocument = {}, nowMs: number): ShadowDocument {
  const isKept = ({ until }: ShadowEntry) => Date.parse(until) + SHADOW_MS_MAX > nowMs
  const kept = Object.entries(rules).filter(([, entry]) => isKept(entry))
  return {
    ...(all !== undefined && isKept(all) && { all }),
    ...(kept.length > 0 && { rules: Object.fromEntries(kept) }),
  }
}
