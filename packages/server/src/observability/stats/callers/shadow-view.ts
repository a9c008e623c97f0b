/** What a node tells of callers that rules in shadow and candidates would have refused. */
import { formatHash, type Hash64 } from '@sluice/core'
import type { ShadowCallerSnapshot } from '../node-snapshot.js'
import { parseLabel } from './caller-label.js'
import type { TrackedRule } from './rule-callers.js'

/** Where a node knows more, it leaves whole rules out, those with fewest would-be refusals. */
export const SHADOW_VIEW_MAX = 1000

export function viewShadowCallers(
  rules: readonly TrackedRule[],
  limit: number,
): readonly ShadowCallerSnapshot[] {
  const callers: ShadowCallerSnapshot[] = []
  const known = rules.filter(
    (rule) => rule.shadowRefusals.hasSketch || rule.candidateRefusals.hasSketch,
  )
  for (const rule of known.toSorted((a, b) => activityOf(b) - activityOf(a))) {
    const first = new Map<string, Hash64>()
    for (const top of [rule.shadowRefusals, rule.candidateRefusals]) {
      for (const caller of top.highest(limit)) first.set(formatHash(caller), caller)
    }
    if (callers.length + first.size > SHADOW_VIEW_MAX) break
    for (const [hash, caller] of first) callers.push(viewShadowCaller(rule, hash, caller))
  }
  return callers
}

function activityOf({ shadowRefusals, candidateRefusals }: TrackedRule): number {
  return shadowRefusals.recentActivity + candidateRefusals.recentActivity
}

function viewShadowCaller(
  rule: TrackedRule,
  hash: string,
  { hi, lo }: Hash64,
): ShadowCallerSnapshot {
  const { shadowRefusals, candidateRefusals } = rule
  const shadow = shadowRefusals.estimate(hi, lo)
  const candidate = candidateRefusals.estimate(hi, lo)
  return {
    rule: rule.rule,
    hash,
    ...parseLabel(rule.by, rule.knownLabelOf({ hi, lo })),
    ...(rule.isEverybody && { isEverybody: true }),
    shadowRefusals: shadow.count,
    shadowRefusalsError: shadow.error,
    candidateRefusals: candidate.count,
    candidateRefusalsError: candidate.error,
    lastRefusedCall: shadowRefusals.callOf(hi, lo) ?? candidateRefusals.callOf(hi, lo) ?? null,
    lastSeenMs: Math.max(shadowRefusals.lastMsOf(hi, lo), candidateRefusals.lastMsOf(hi, lo)),
  }
}
