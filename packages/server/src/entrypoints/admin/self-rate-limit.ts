/**
 * Limits the admin API with Sluice itself: wrong tokens of an address, and calls and writes of a
 * token. Its rules and counters are its own, in this process: neither an edit of the users' rules
 * nor an unreachable store can lift them. A call that cannot be decided is refused.
 */
import { type Decision, flatRateLimitHeaders } from '@sluice/core'
import { createLimiter, memoryStore } from '@sluice/limiter'
import type { WallClock } from '../../lib/wall-clock.js'
import { TooManyError } from './admin-error.js'

const RULES = [
  {
    id: 'admin-failures',
    match: { where: { kind: ['failure'] } },
    by: ['ip'],
    limits: [{ algorithm: 'token-bucket', max: 20, window: '1m', burst: 20 }],
  },
  {
    id: 'admin-calls',
    match: { where: { kind: ['call', 'write'] } },
    by: ['token'],
    limits: [{ algorithm: 'token-bucket', max: 200, window: '1s', burst: 1000 }],
  },
  {
    id: 'admin-writes',
    match: { where: { kind: ['write'] } },
    by: ['token'],
    limits: [{ algorithm: 'token-bucket', max: 100, window: '1s', burst: 500 }],
  },
]

/** Counters of addresses with recent failures, and of tokens in use. */
const COUNTERS_MAX = 10_000

export interface SelfRateLimit {
  /**
   * Counts a wrong token; throws if its address has sent too many. Right tokens are not checked:
   * many clients may share an address, such as that of a proxy or of this machine, and a script
   * with an old token must not lock out an operator there. A token has too many bits to guess.
   */
  recordFailure(address: string): void
  /** Throws if the token has made too many calls; returns the headers to send. */
  checkCall(token: string, isWrite: boolean): Readonly<Record<string, string>>
  /** The headers of a refusal. */
  headersOf(decision: Decision): Readonly<Record<string, string>>
  close(): Promise<void>
}

/** Instants in responses use `responseClock`; counters use `clock`. */
export function createSelfRateLimit(clock: WallClock, responseClock = clock): SelfRateLimit {
  const inUs = { now: () => Math.floor(clock.now()) * 1000 }
  const store = memoryStore({ maxCounters: COUNTERS_MAX, clock: inUs })
  const limiter = createLimiter({ rules: RULES, store, clock: inUs })
  const headersOf = (decision: Decision) => {
    const flat = flatRateLimitHeaders(decision, { nowMs: responseClock.now() })
    const headers: Record<string, string> = {}
    for (let i = 0; i < flat.length; i += 2) headers[flat[i] ?? ''] = flat[i + 1] ?? ''
    return headers
  }
  const decide = (call: { readonly attributes: Readonly<Record<string, string>> }) => {
    const decision = limiter.checkSync(call)
    if (!decision.allowed) throw new TooManyError(decision)
    return decision
  }
  return {
    recordFailure: (address) => void decide({ attributes: { kind: 'failure', ip: address } }),
    checkCall: (token, isWrite) =>
      headersOf(decide({ attributes: { kind: isWrite ? 'write' : 'call', token } })),
    headersOf,
    close: () => limiter.close(),
  }
}
