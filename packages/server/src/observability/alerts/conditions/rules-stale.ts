/** Reports active rules that the rule store has not confirmed for too long. */
import { durationText, show } from '@sluice/core'
import type { Finding } from '../alert.js'

const PROBLEM_SHOWN_MAX = 250

interface RulesStatus {
  readonly rulesAgeSeconds: number
  readonly rulesProblem: string | undefined
}

export function findStaleRules(
  { rulesAgeSeconds, rulesProblem }: RulesStatus,
  staleMs: number,
): readonly Finding[] {
  if (rulesAgeSeconds * 1000 <= staleMs) return []
  const ageSeconds = Math.floor(rulesAgeSeconds)
  const lasted = durationText(ageSeconds * 1000, 'down')
  const problem = rulesProblem === undefined ? undefined : show(rulesProblem, PROBLEM_SHOWN_MAX)
  const why = problem === undefined ? '' : `: ${problem}`
  const summary =
    `The active rules have not been confirmed for ${lasted}${why}. ` +
    'Changes do not reach this node.'
  const past =
    `The active rules were not confirmed for ${lasted}${why}. ` + 'Changes did not reach this node.'
  const details = { ageSeconds, ...(problem !== undefined && { problem }) }
  return [{ subject: '', summary, past, details }]
}
