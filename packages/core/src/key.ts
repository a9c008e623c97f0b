/**
 * Keys of counters. A counter is (rule id, limit name, caller) and nothing else: neither the rule's
 * version nor the limit's numbers are part of its key, so that a changed limit goes on with what
 * was used.
 *
 * The caller's values are hashed once; each limit then XORs a seed of its own. Two counters share a
 * key with the same chance as two random 64-bit numbers, and the caller's own hash chooses the
 * partition, so that all limits of one caller lie together.
 */
import { type Hash64, hashTexts, type SipKey } from './sip-hash.js'

export interface CounterKey {
  readonly hi: number
  readonly lo: number
  readonly partition: number
}

export const PARTITIONS = 128

/**
 * A key of its own for another purpose. Callers have at most eight values, so no caller's hash is
 * ever one of these, whatever it calls itself.
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
 * A candidate counts apart from the limits in force, under the same names. The attributes a rule
 * counts by are part of it, so that a user and an account of one name are not one caller.
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

/** Whose counter it is, given the seed of its limit. */
export function callerOfKey(key: CounterKey, seed: Hash64): Hash64 {
  return { hi: key.hi ^ seed.hi, lo: key.lo ^ seed.lo }
}

/** Made by a class as it lives while a call waits: see sip-hash.ts. */
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
