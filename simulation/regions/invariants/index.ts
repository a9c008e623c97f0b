/** All invariants of several regions, cheapest first. */
import { knownInTime } from './known-in-time.js'
import { overAdmission } from './over-admission.js'
import { refusals } from './refusals.js'
import type { MakeRegionInvariant } from './region-invariant.js'
import { toldOnce } from './told-once.js'
import { toldTime } from './told-time.js'
import { waits } from './waits.js'

export const allRegionInvariants: readonly MakeRegionInvariant[] = [
  toldOnce,
  toldTime,
  knownInTime,
  refusals,
  waits,
  overAdmission,
]
