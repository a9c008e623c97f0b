/** What an answer says of the one rule that somebody asks about: met or not, and what it does. */
import type { Attributes } from '@sluice/client'
import type { Answer, RuleAnswer } from './answer.js'

export interface About {
  readonly tone: 'refused' | 'degraded' | 'neutral'
  readonly said: string
  /** Why the rule is not met. */
  readonly why?: string
}

export function aboutRule(rule: string, answer: Answer, asked: Attributes): About {
  const unmet = answer.passed.find((each) => each.rule === rule)
  if (unmet !== undefined) {
    const said = `This call does not meet ${rule}, so it does not say why that rule refused.`
    return { tone: 'degraded', said, ...(unmet.why === null ? {} : { why: unmet.why }) }
  }
  const met = answer.matched.find((each) => each.rule === rule)
  if (met === undefined) {
    return { tone: 'degraded', said: `There is no rule ${rule} now, so this does not explain it.` }
  }
  if (answer.refusedBy === rule) {
    return { tone: 'refused', said: `This call meets ${rule}, which refuses it.` }
  }
  const cut = Object.entries(asked).find(([, value]) => value.endsWith(CUT))?.[0]
  if (cut !== undefined) {
    const said = `The ${cut} is cut short in lists, so this is the answer to another caller. Put in the whole of it.`
    return { tone: 'degraded', said }
  }
  return { tone: 'neutral', said: `This call meets ${rule}, ${stateOf(met, answer)}.` }
}

/** Names of callers that are too long to be kept end so. */
const CUT = '…'

function stateOf({ limits, mode }: RuleAnswer, { isAllowed }: Answer): string {
  const own = limits.filter(({ isCandidate }) => !isCandidate)
  if (own.length === 0) return 'which has no limit for this caller'
  if (own.every(({ retryAfterMs }) => retryAfterMs === 0)) return 'which has room for it just now'
  if (mode === 'shadow') return 'which would refuse it, and refuses nobody in shadow'
  return isAllowed ? 'which has no room for it' : 'which has no room for it either'
}
