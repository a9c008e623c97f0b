/** Plans and reads the limits that count a caller, for the verb `limits`. */
import {
  type Call,
  type Outcome,
  type Plan,
  planCall,
  type Policy,
  policyOf,
  rulesOfCaller,
  type Snapshot,
} from '@sluice/core'
import type { Groups } from './store.js'

/** The most limits that `limits` returns. */
const CALLER_LIMITS_MAX = 1000

interface CallerLimitsPlan extends Plan {
  /** The route of each take of the first group, where its rule counts by route. */
  readonly routes: readonly (string | undefined)[]
}

export function planCallerLimits(snapshot: Snapshot, call: Call, wallMs: number): CallerLimitsPlan {
  const callerLimits = rulesOfCaller(snapshot, call, wallMs, CALLER_LIMITS_MAX)
  // The remaining budget does not depend on a cost, which an attribute of a real call may set.
  const whole = planCall(callerLimits, { attributes: {} })
  const routes = callerLimits.flatMap(({ limits, route }) => limits.map(() => route))
  return { ...whole, groups: [(whole.groups[0] ?? []).slice(0, CALLER_LIMITS_MAX)], routes }
}

export function policiesOf(
  { groups, routes }: CallerLimitsPlan,
  outcomes: Groups<Outcome>,
): readonly Policy[] {
  return (groups[0] ?? []).flatMap((take, index) => {
    const outcome = outcomes[0]?.[index]
    if (outcome === undefined) return []
    const policy = policyOf(take, outcome)
    const route = routes[index]
    return route === undefined ? policy : { ...policy, route }
  })
}
