/** All invariants. */
import { admissions } from './admissions.js'
import { allOrNothing } from './all-or-nothing.js'
import { blocks } from './blocks.js'
import { callDeadline } from './call-deadline.js'
import { callsInFlight } from './calls-in-flight.js'
import { chargeAccounting } from './charge-accounting.js'
import { debts } from './debts.js'
import { expiry } from './expiry.js'
import { freePlaces } from './free-places.js'
import { gates } from './gates.js'
import { leaseShare } from './lease-share.js'
import type { MakeInvariant } from './invariant.js'
import { knownClock } from './known-clock.js'
import { leaseTime } from './lease-time.js'
import { localBound } from './local-bound.js'
import { localKnown } from './local-known.js'
import { postureShare } from './posture-share.js'
import { receipts } from './receipts.js'
import { refusals } from './refusals.js'
import { reportWindow } from './report-window.js'
import { reservationCharges } from './reservation-charges.js'
import { reservationExpiry } from './reservation-expiry.js'
import { reservationHandles } from './reservation-handles.js'
import { reservationOnce } from './reservation-once.js'
import { shadow } from './shadow.js'
import { spentOnce } from './spent-once.js'
import { splitBound } from './split-bound.js'
import { storeBound } from './store-bound.js'

export const allInvariants: readonly MakeInvariant[] = [
  spentOnce,
  leaseTime,
  storeBound,
  admissions,
  localBound,
  localKnown,
  splitBound,
  postureShare,
  leaseShare,
  knownClock,
  receipts,
  refusals,
  reportWindow,
  allOrNothing,
  blocks,
  gates,
  debts,
  callsInFlight,
  freePlaces,
  reservationHandles,
  reservationOnce,
  reservationCharges,
  reservationExpiry,
  shadow,
  callDeadline,
  chargeAccounting,
  expiry,
]
