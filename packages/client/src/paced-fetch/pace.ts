/**
 * The pace of one limit: when the next call may be sent, learnt from what the answers say is left.
 *
 * Other clients may use the same limit. How many they are is not known, but what all of them use
 * while this one makes one call is: the fall of what is left between two answers. Each client
 * takes its part of the rate that the limit allows, so together they take all of it.
 */
import type { RateLimitPolicy } from './read-rate-limit.js'

/**
 * A window resets at once; a bucket regains units steadily; a sliding window regains what was used
 * one window ago, so that what is left stays small however steadily it is used.
 */
type Kind = 'window' | 'bucket' | 'sliding'

export interface Pace {
  limit: number
  windowMs: number
  kind: Kind
  /** Evidence of a bucket, below zero of a window. */
  evidence: number
  /** The latest answer: units left, when it arrived, and the number of its call. */
  left: number
  at: number
  answered: number
  /** The number of calls sent, and when the last one was. */
  sent: number
  sentAt: number
  /** When the present window ends, at the latest. */
  edge: number
  /** No call before this instant. */
  until: number
  /** Units that all callers used, and own calls in the same time; both fade. */
  used: number
  calls: number
  /** Drawn anew with every call. */
  random: number
}

/** A call that was sent, and the latest answer then: what changed since is known exactly. */
export interface CountedCall {
  readonly number: number
  readonly sentAt: number
  readonly left: number
  readonly at: number
  readonly answered: number
}

/**
 * What all callers use per own call, before it is known: this much, but at most this share of the
 * limit. High, so that newcomers start slowly.
 */
const USED_AT_FIRST = 4
const SHARE_AT_FIRST = 0.1
/** By how much older calls count less. */
const FADE = 0.9
/** Below 1, so that clients with a small part of the rate gain on those with a large one. */
const EQUALITY = 0.98
/** The share of a window that is left unused, because others send at the same moment. */
const MARGIN = 0.03
/** The share that is kept in a bucket. It costs nothing, as a bucket only has to stay unfilled. */
const BUCKET_KEPT = 0.2
/** The same for a sliding window, where what is kept is lost. */
const SLIDING_KEPT = 0.03
/** How much faster than the limit's own rate a client gets while much is left. */
const BUCKET_SPEED_MAX = 3
const SLIDING_SPEED_MAX = 1.25
const SPEED_MIN = 0.05
/** How far apart, as a share of the gap between calls, two clients drift in one call. */
const JITTER = 0.2
/** By how much a refusal raises the estimate of what others use. */
const REFUSAL_FACTOR = 1.5
/** The estimate stays below this many limits per own call. */
const LIMITS_PER_CALL_MAX = 10
/** The part of what an idle time left over that is used up early. */
const SURPLUS_PART = 0.5
/** A rise by less than this share of the limit begins no window. */
const JUMP_MIN = 0.05
const EVIDENCE_MAX = 9
/** Two roundings to whole seconds: of the time itself, and of the `Date` it is compared with. */
const ROUNDING_MS = 2000
/** The wait where nothing is left, and no time is known. */
const UNKNOWN_WAIT_MS = 1000

export function createPace(): Pace {
  return {
    limit: 0,
    windowMs: 0,
    kind: 'window',
    evidence: 0,
    left: 0,
    at: -1,
    answered: 0,
    sent: 0,
    sentAt: 0,
    edge: 0,
    until: 0,
    used: 1,
    calls: 1,
    random: 0,
  }
}

export function recordSend(pace: Pace, now: number, random: number): CountedCall {
  const { left, at, answered } = pace
  pace.random = random
  pace.sentAt = now
  return { number: ++pace.sent, sentAt: now, left, at, answered }
}

/**
 * Learns from an answer; without `call` it is the answer to another client. `retryAfterMs` is the
 * time for which a refusal asks to wait.
 */
export function recordAnswer(
  pace: Pace,
  policy: RateLimitPolicy,
  now: number,
  isRefusal: boolean,
  call: CountedCall = { number: pace.answered, sentAt: now, left: 0, at: -1, answered: 0 },
  retryAfterMs?: number,
): void {
  const { remaining, resetMs } = policy
  // The server decided in the order in which calls were sent, or nearly.
  if (call.number < pace.answered) return
  pace.limit = policy.limit ?? Math.max(pace.limit, remaining)
  pace.kind = policy.kind ?? pace.kind
  pace.windowMs = windowOf(pace, policy)
  if (pace.at < 0) pace.used = Math.max(1, Math.min(USED_AT_FIRST, pace.limit * SHARE_AT_FIRST))
  if (isRefusal) {
    if (remaining < 1) {
      const most = pace.calls * pace.limit * LIMITS_PER_CALL_MAX
      pace.used = Math.max(pace.used, Math.min(pace.used * REFUSAL_FACTOR, most))
    }
    if (pace.edge <= now) pace.edge = now + (resetMs ?? pace.windowMs)
  } else {
    if (call.at >= 0) compare(pace, remaining, now, call)
    findKind(pace, policy, now, call.sentAt)
  }
  pace.left = remaining
  pace.at = now
  pace.answered = call.number
  if (remaining < 1 && (isRefusal || pace.kind === 'window')) {
    pace.until = Math.max(pace.until, now + waitOf(pace, policy, retryAfterMs))
  }
}

/** The wait where nothing is left. Of a bucket the reset may be the time until it is full. */
function waitOf({ kind, limit, windowMs }: Pace, policy: RateLimitPolicy, retryAfterMs?: number) {
  if (kind === 'bucket' && retryAfterMs !== undefined) return retryAfterMs
  if (policy.kind && limit) return windowMs / limit
  return policy.resetMs ?? (windowMs || UNKNOWN_WAIT_MS)
}

/** The window; of a bucket the time in which it fills, known from how long the rest takes. */
function windowOf({ windowMs, limit, kind }: Pace, policy: RateLimitPolicy): number {
  const { resetMs = 0, remaining } = policy
  const part = (limit - remaining) / limit
  if (kind !== 'bucket' || !(part > 0)) {
    return policy.windowMs ?? Math.max(windowMs, policy.kind ? 0 : resetMs)
  }
  // The burst of a bucket may exceed what it regains in its window.
  if (policy.windowMs) return Math.max(policy.windowMs, (resetMs - ROUNDING_MS / 2) / part)
  return resetMs / part || windowMs
}

/** Learns from the difference to an earlier answer how much is used, and whether a window began. */
function compare(pace: Pace, remaining: number, now: number, call: CountedCall): void {
  const { limit, windowMs, kind } = pace
  const own = call.number - call.answered
  const elapsed = now - call.at
  const rise = remaining - call.left + own
  const regained = windowMs ? (limit * elapsed) / windowMs : 0
  if (rise > 2 * regained + Math.max(2, JUMP_MIN * limit)) {
    // No bucket regains so much: a window began between the two answers.
    pace.evidence = Math.max(-EVIDENCE_MAX, pace.evidence - 5)
    pace.edge = Math.min(now + windowMs, Math.max(call.at + windowMs, edgeAfter(pace, now)))
    return
  }
  if (rise > 0 && elapsed < windowMs / 4) pace.evidence++
  const share = kind === 'sliding' ? (limit - remaining) / limit : 1
  const used = call.left - remaining + (kind === 'window' ? 0 : regained * share)
  if (kind === 'window' && rise > 0) return
  pace.used = pace.used * FADE + Math.max(own, used)
  pace.calls = pace.calls * FADE + own
}

/** Windows of one limit follow each other without a gap. */
function edgeAfter({ edge, windowMs }: Pace, now: number): number {
  if (edge > now || !windowMs) return edge
  return edge + (Math.floor((now - edge) / windowMs) + 1) * windowMs
}

function findKind(pace: Pace, policy: RateLimitPolicy, now: number, sentAt: number): void {
  const { resetMs = 0 } = policy
  const latest = now + resetMs
  pace.edge = pace.edge ? Math.min(edgeAfter(pace, now), latest) : latest
  if (pace.edge < sentAt + resetMs - ROUNDING_MS) {
    // The end of a window does not move.
    pace.evidence += 2
    pace.edge = latest
  }
  pace.evidence = Math.min(EVIDENCE_MAX, pace.evidence)
  if (policy.kind) return
  if (policy.windowMs && resetMs > policy.windowMs && pace.kind === 'window') {
    // Only what was counted in the window before can take longer than one.
    pace.kind = 'sliding'
  } else if (pace.kind !== 'sliding') pace.kind = pace.evidence > 1 ? 'bucket' : 'window'
}

/** The earliest time at which the next call may be sent. */
export function dueAt(pace: Pace, now: number): number {
  if (pace.at < 0 || !pace.limit || !pace.windowMs) return pace.until
  const perCall = Math.max(1e-3, pace.used / pace.calls) ** EQUALITY
  const due = pace.kind === 'window' ? dueInWindow(pace, now, perCall) : dueInBucket(pace, perCall)
  return Math.max(pace.until, due)
}

const jitter = ({ random }: Pace) => 1 + JITTER * (random - 0.5)

/** Spreads what is left evenly over the rest of the window, and goes on into the next one. */
function dueInWindow(pace: Pace, now: number, perCall: number): number {
  const { limit, windowMs, random, edge, sentAt } = pace
  const steadyMs = (perCall * windowMs) / limit
  // Sent in a new window, and not yet answered.
  if (sentAt >= edge) return sentAt + steadyMs * jitter(pace)
  const left = pace.left - perCall * (pace.sent - pace.answered)
  const budget = left - Math.max(1, MARGIN * limit)
  if (now < edge && budget >= perCall) {
    const gap = ((edge - sentAt) * perCall) / budget
    const isKnown = now - pace.at < windowMs / 10
    const surplus = isKnown ? Math.max(0, left - (limit * (edge - now)) / windowMs) : 0
    return sentAt + (gap * jitter(pace)) / (1 + (surplus * SURPLUS_PART) / perCall)
  }
  // At random, because many clients wait for the same instant.
  return edge + Math.min(1, Math.max(0, 1 - budget / perCall)) * steadyMs * random
}

/**
 * Keeps a share of the units: faster while there are more, slower while there are less. What is
 * left rises during the wait, and with it the speed; the result is the instant at which the gap
 * since the last call is long enough for what is left then.
 */
function dueInBucket(pace: Pace, perCall: number): number {
  const { limit, windowMs, kind, sentAt, at } = pace
  const rate = limit / windowMs
  const inFlight = pace.sent - pace.answered
  const [kept, most] =
    kind === 'bucket' ? [BUCKET_KEPT, BUCKET_SPEED_MAX] : [SLIDING_KEPT, SLIDING_SPEED_MAX]
  // Others use what is regained as well.
  const regained = rate / Math.max(1, perCall)
  const left = Math.min(limit, pace.left + regained * (sentAt - at)) - perCall * inFlight
  // The gap at the limit's own rate; at a speed it is that part of it.
  const steadyMs = (perCall / rate) * jitter(pace)
  // The speed is (left + regained * gap) / kept, and the gap is steadyMs / speed: solved for gap.
  const product = steadyMs * Math.max(1.5, kept * limit)
  const gap = (Math.sqrt(left * left + 4 * regained * product) - left) / (2 * regained)
  const due = sentAt + Math.min(steadyMs / SPEED_MIN, Math.max(steadyMs / most, gap))
  // Whatever others do, there is no unit before this instant.
  return Math.max(due, at + (1 + inFlight - pace.left) / rate)
}
