/** What an explanation says about the rule in question: whether it matches, and what it does. */
import type { Attributes } from '@sluice/client'
import type { Explanation, RuleExplanation } from './explanation.js'

export interface RuleVerdict {
  readonly tone: 'refused' | 'degraded' | 'neutral'
  readonly text: string
  /** Why the rule does not match. */
  readonly why?: string
}

export function ruleVerdict(
  rule: string,
  answer: Explanation,
  attributes: Attributes,
): RuleVerdict {
  const unmatched = answer.unmatched.find((each) => each.rule === rule)
  if (unmatched !== undefined) {
    const text = `This request does not match ${rule}, so it does not explain why that rule refused.`
    return { tone: 'degraded', text, ...(unmatched.why === null ? {} : { why: unmatched.why }) }
  }
  const matched = answer.matched.find((each) => each.rule === rule)
  if (matched === undefined) {
    return {
      tone: 'degraded',
      text: `Rule ${rule} no longer exists, so this request does not explain it.`,
    }
  }
  if (answer.refusedBy === rule) {
    return { tone: 'refused', text: `This request matches ${rule}, which refuses it.` }
  }
  const truncated = Object.entries(attributes).find(([, value]) =>
    value.endsWith(TRUNCATION_MARK),
  )?.[0]
  if (truncated !== undefined) {
    const text = `The value of ${truncated} is truncated in lists, so this is the result for another caller. Enter the full value.`
    return { tone: 'degraded', text }
  }
  return { tone: 'neutral', text: `This request matches ${rule}, ${budgetText(matched, answer)}.` }
}

/** The server ends truncated caller names with this character. */
const TRUNCATION_MARK = '…'

function budgetText({ limits, mode }: RuleExplanation, { isAllowed }: Explanation): string {
  const own = limits.filter(({ isCandidate }) => !isCandidate)
  if (own.length === 0) return 'which has no limit for this caller'
  if (own.every(({ retryAfterMs }) => retryAfterMs === 0)) return 'which has budget for it now'
  if (mode === 'shadow') return 'which would refuse it but is in shadow'
  return isAllowed ? 'which has no budget for it' : 'which has no budget for it either'
}
