/** What a caller is told of its limits, whatever it calls. */
import {
  type Call,
  type Outcome,
  type Plan,
  type Policy,
  planCall,
  policyOf,
  type Snapshot,
  rulesOfCaller,
} from '@sluice/core'

const CALLER_LIMITS_MAX = 1000
const NO_ATTRIBUTES = {}

export interface CallerLimitsPlan extends Plan {
  /** Beside each take of the first group: whose counter it is, where its rule counts by route. */
  readonly routes: readonly (string | undefined)[]
}

export function planCallerLimits(snapshot: Snapshot, call: Call, wallMs: number): CallerLimitsPlan {
  const callerLimits = rulesOfCaller(snapshot, call, wallMs, CALLER_LIMITS_MAX)
  // A cost that an attribute tells is not known here; what is left does not depend on it.
  const whole = planCall(callerLimits, { attributes: NO_ATTRIBUTES })
  const routes = callerLimits.flatMap(({ limits, route }) => limits.map(() => route))
  return { ...whole, groups: [(whole.groups[0] ?? []).slice(0, CALLER_LIMITS_MAX)], routes }
}

export function policiesOf(
  { groups, routes }: CallerLimitsPlan,
  outcomes: readonly (readonly Outcome[])[],
): readonly Policy[] {
  return (groups[0] ?? []).flatMap((take, index) => {
    const outcome = outcomes[0]?.[index]
    if (outcome === undefined) return []
    const policy = policyOf(take, outcome)
    const route = routes[index]
    return route === undefined ? policy : { ...policy, route }
  })
}
