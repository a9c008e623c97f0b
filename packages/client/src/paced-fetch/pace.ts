/**
 * The pace of one limit: when the next call may be sent, learnt from what the answers say is left.
 */
import type { RateLimitPolicy } from './read-rate-limit.js'

export interface Pace {
  limit: number
  windowMs: number
  kind: 'window' | 'bucket' | 'sliding'
  /** The latest answer: units left, when it arrived, and the number of its call. */
  left: number
  at: number
  seen: number
  /** The number of calls sent, and when the last one was. */
  sent: number
  sentAt: number
  /** The latest instant at which the present window can end. */
  edge: number
  /** No call before this instant. */
  until: number
  /** Units that all callers used, and own calls in the same time; both fade. */
  used: number
  calls: number
  /** Redrawn with every call that is sent. */
  random: number
}

export interface Sent {
  readonly number: number
  readonly sentAt: number
  readonly left: number
  readonly at: number
  readonly seen: number
}

const T = {
  prior: 4,
  fade: 0.9,
  pow: 0.98,
  margin: 0.02,
  marginMin: 1,
  bucket: 0.3,
  slide: 0.03,
  slideMin: 1.5,
  max: 3,
  jit: 0.2,
  refuse: 1.5,
  credit: 0.5,
}

export function createPace(): Pace {
  return {
    limit: 0,
    windowMs: 0,
    kind: 'window',
    left: 0,
    at: -1,
    seen: 0,
    sent: 0,
    sentAt: -Infinity,
    edge: -Infinity,
    until: 0,
    used: T.prior,
    calls: 1,
    random: 0.5,
  }
}

export function noteSend(pace: Pace, now: number, random: number): Sent {
  const { left, at, seen } = pace
  pace.random = random
  pace.sentAt = now
  return { number: ++pace.sent, sentAt: now, left, at, seen }
}

const perCall = (p: Pace) => (p.used / p.calls) ** T.pow

export function noteAnswer(
  p: Pace,
  policy: RateLimitPolicy,
  now: number,
  refused: boolean,
  call: Sent = { number: p.seen, sentAt: now, left: 0, at: -1, seen: 0 },
) {
  const { remaining, resetMs } = policy
  const limit = (p.limit = policy.limit ?? Math.max(p.limit, remaining))
  p.windowMs = policy.windowMs ?? Math.max(p.windowMs, resetMs ?? 0)
  if (policy.kind) p.kind = policy.kind
  if (call.number < p.seen) return
  if (refused) {
    if (remaining < 1) {
      p.used = Math.min(p.used * T.refuse, p.calls * limit * 100)
      if (resetMs !== undefined) p.until = Math.max(p.until, now + resetMs)
    }
    if (p.edge <= now) p.edge = now + (resetMs ?? p.windowMs)
    if (p.seen < call.number) {
      p.left = remaining
      p.at = now
      p.seen = call.number
    }
    return
  }
  const w = p.windowMs
  const rate = w ? limit / w : 0
  const reset = resetMs ?? 0
  if (resetMs !== undefined && policy.windowMs && resetMs > w && p.kind !== 'bucket')
    p.kind = 'sliding'
  // compare with reference
  if (call.at >= 0) {
    const own = call.number - call.seen
    const elapsed = now - call.at
    const rise = remaining - call.left + own
    if (p.kind === 'window') {
      const passed = p.edge <= now
      if (rise > 0) {
        if (rise > limit / 2 || elapsed >= w) {
          // A new window: began between the two answers.
          p.edge = now + w
        } else if (!(call.at < p.edge && p.edge <= now)) {
          p.kind = 'bucket'
        } else p.edge = now + w
      } else {
        sample(p, call.left - remaining, own)
      }
      void passed
    } else {
      sample(p, Math.max(own, call.left - remaining + rate * elapsed), own)
    }
  }
  if (p.kind === 'window') {
    if (p.edge <= now) p.edge = now + reset
    p.edge = Math.min(p.edge, now + reset)
    if (p.edge < call.sentAt + reset - 2000) {
      // The window ends later than it can: it is none.
      p.kind = 'bucket'
    }
  }
  p.left = remaining
  p.at = now
  p.seen = call.number
  if (remaining < 1 && p.kind === 'window') p.until = Math.max(p.until, now + reset)
}

function sample(p: Pace, used: number, own: number) {
  p.used = p.used * T.fade + used
  p.calls = p.calls * T.fade + own
}

export function dueAt(p: Pace, now: number): number {
  if (p.at < 0 || p.limit === 0) return p.until
  return Math.max(p.until, p.kind === 'window' ? dueInWindow(p, now) : dueOfBucket(p, now))
}

const jitter = (p: Pace) => 1 - T.jit / 2 + T.jit * p.random

function dueInWindow(p: Pace, now: number): number {
  const { limit, windowMs: w } = p
  const m = perCall(p)
  let { left, edge } = p
  let inFlight = p.sent - p.seen
  let last = p.sentAt
  if (edge <= now) {
    if (!w) return 0
    const passed = edge + Math.floor((now - edge) / w) * w
    edge = passed + w
    left = limit
    if (last < passed) {
      last = passed
      inFlight = 0
      // first of a new window
    }
  }
  const margin = Math.max(T.marginMin, T.margin * limit)
  const budget = left - margin - m * inFlight
  const time = edge - last
  const gap = (time * m) / budget
  if (budget > 0 && gap <= time) {
    const surplus = left - m * inFlight - (limit * (edge - now)) / (w || time)
    return last + gap * jitter(p) - (surplus > 0 ? (gap * surplus * T.credit) / m : 0)
  }
  const progress = Math.max(0, Math.min(1, budget / m))
  return edge + ((1 - progress) * m * w * p.random) / limit
}

function dueOfBucket(p: Pace, now: number): number {
  const { limit, windowMs: w } = p
  if (!w) return 0
  const rate = limit / w
  const m = perCall(p)
  const left = Math.min(limit, p.left + rate * (now - p.at)) - m * (p.sent - p.seen)
  const target =
    p.kind === 'bucket' ? Math.max(1.5, T.bucket * limit) : Math.max(T.slideMin, T.slide * limit)
  const speed = rate * Math.max(0.05, Math.min(T.max, left / target))
  return p.sentAt + (m / speed) * jitter(p)
}
