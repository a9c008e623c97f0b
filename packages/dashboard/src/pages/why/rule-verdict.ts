/** What an answer says of the one rule that somebody asks about: met or not, and what it does. */
import type { Attributes } from '@sluice/client'
import type { Explanation, RuleExplanation } from './explanation.js'

export interface RuleVerdict {
  readonly tone: 'refused' | 'degraded' | 'neutral'
  readonly text: string
  /** Why the rule is not met. */
  readonly why?: string
}

export function ruleVerdict(
  rule: string,
  answer: Explanation,
  attributes: Attributes,
): RuleVerdict {
  const unmatched = answer.unmatched.find((each) => each.rule === rule)
  if (unmatched !== undefined) {
    const text = `This call does not meet ${rule}, so it does not say why that rule refused.`
    return { tone: 'degraded', text, ...(unmatched.why === null ? {} : { why: unmatched.why }) }
  }
  const matched = answer.matched.find((each) => each.rule === rule)
  if (matched === undefined) {
    return { tone: 'degraded', text: `There is no rule ${rule} now, so this does not explain it.` }
  }
  if (answer.refusedBy === rule) {
    return { tone: 'refused', text: `This call meets ${rule}, which refuses it.` }
  }
  const truncated = Object.entries(attributes).find(([, value]) =>
    value.endsWith(TRUNCATION_MARK),
  )?.[0]
  if (truncated !== undefined) {
    const text = `The ${truncated} is cut short in lists, so this is the answer to another caller. Put in the whole of it.`
    return { tone: 'degraded', text }
  }
  return { tone: 'neutral', text: `This call meets ${rule}, ${budgetText(matched, answer)}.` }
}

/** Names of callers that are too long to be kept end so. */
const TRUNCATION_MARK = '…'

function budgetText({ limits, mode }: RuleExplanation, { isAllowed }: Explanation): string {
  const own = limits.filter(({ isCandidate }) => !isCandidate)
  if (own.length === 0) return 'which has no limit for this caller'
  if (own.every(({ retryAfterMs }) => retryAfterMs === 0)) return 'which has room for it just now'
  if (mode === 'shadow') return 'which would refuse it, and refuses nobody in shadow'
  return isAllowed ? 'which has no room for it' : 'which has no room for it either'
}
