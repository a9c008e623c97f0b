/** What a caller is told of its limits, whatever it calls. */
import { type Call, type Plan, planCall, type Snapshot, standingOf } from '@sluice/core'

const LIMITS_TOLD_MAX = 1000
const NO_ATTRIBUTES = {}

export function planStanding(snapshot: Snapshot, call: Call, wallMs: number): Plan {
  const standing = standingOf(snapshot, call, wallMs)
  // A cost that an attribute tells is not known here; what is left does not depend on it.
  const whole = planCall(standing, { attributes: NO_ATTRIBUTES })
  return { ...whole, groups: [(whole.groups[0] ?? []).slice(0, LIMITS_TOLD_MAX)] }
}
