/**
 * Keys of counters. A counter is (rule id, limit name, caller) and nothing else: neither the rule's
 * version nor the limit's numbers are part of its key, so that a changed limit keeps what was used.
 *
 * The caller's values are hashed once; each limit then XORs a seed of its own. Two counters share a
 * key with the probability of two equal random 64-bit numbers. The caller's own hash selects the
 * partition, so that all limits of one caller are stored together.
 */
import { type Hash64, hashTexts, type SipKey } from './sip-hash.js'

export interface CounterKey {
  readonly hi: number
  readonly lo: number
  readonly partition: number
}

export const PARTITIONS = 128

/**
 * Derives a key for another purpose. Callers have at most eight values, so no caller can produce
 * one of these hashes.
 */
export function deriveKey(secret: SipKey, purpose: string): SipKey {
  const texts = (half: string) => [purpose, half, ...Array.from({ length: 10 }, () => '')]
  const low = hashTexts(secret, texts('low'))
  const high = hashTexts(secret, texts('high'))
  return { k0: low.lo, k1: low.hi, k2: high.lo, k3: high.hi }
}

export function callerHash(secret: SipKey, values: readonly string[]): Hash64 {
  return hashTexts(secret, values)
}

/**
 * Returns the seed of a limit. A candidate counts separately from the active limits under the same
 * names. The attributes a rule counts by are part of the seed, so that a user and an account of the
 * same name are different callers.
 */
export function limitSeed(
  limitKey: SipKey,
  limit: {
    readonly rule: string
    readonly name: string
    readonly candidate: boolean
    readonly by: readonly string[]
  },
): Hash64 {
  const kind = limit.candidate ? 'candidate' : 'limit'
  return hashTexts(limitKey, [limit.rule, limit.name, kind, ...limit.by])
}

export function counterKey(caller: Hash64, seed: Hash64): CounterKey {
  return new Key(caller.hi ^ seed.hi, caller.lo ^ seed.lo, caller.hi >>> 25)
}

/** Returns the caller of a counter, given the seed of its limit. */
export function callerOfKey(key: CounterKey, seed: Hash64): Hash64 {
  return { hi: key.hi ^ seed.hi, lo: key.lo ^ seed.lo }
}

/** Returns the id of a reservation that its caller may ask for again under the same key. */
export function reservationId(
  secret: SipKey,
  callers: readonly Hash64[],
  idempotencyKey: string,
): Hash64 {
  const names = callers.map(({ hi, lo }) => `${hi}.${lo}`)
  return hashTexts(deriveKey(secret, 'reservation id'), [idempotencyKey, ...names])
}

/** The counter that says whether a reservation was made. */
export function madeKey(id: Hash64, partition: number): CounterKey {
  return new Key(~id.hi, ~id.lo, partition)
}

/** The counter that says whether a reservation was settled. */
export function settledKey(id: Hash64, partition: number): CounterKey {
  return new Key(id.hi, id.lo, partition)
}

/** The counter that lets a reservation be extended once under the same idempotency key. */
export function extensionKey(
  secret: SipKey,
  { id, partition }: { readonly id: Hash64; readonly partition: number },
  idempotencyKey: string,
): CounterKey {
  return madeKey(reservationId(secret, [id], idempotencyKey), partition)
}

/** The counter that says whether a reservation was extended again, after so many extensions. */
export function extendedKey(id: Hash64, partition: number, extensions: number): CounterKey {
  return new Key(id.hi ^ (extensions + 1), id.lo, partition)
}

/** A class, not an object literal, because it lives while a call waits: see sip-hash.ts. */
class Key implements CounterKey {
  readonly hi: number
  readonly lo: number
  readonly partition: number

  constructor(hi: number, lo: number, partition: number) {
    this.hi = hi
    this.lo = lo
    this.partition = partition
  }
}
