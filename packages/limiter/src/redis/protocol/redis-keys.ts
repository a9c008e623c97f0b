/**
 * The name of every key that Sluice keeps in Redis; no other file spells one. A name begins with
 * the prefix and a hash tag, so that on a Cluster the tag alone chooses the slot.
 */
import { type CounterKey, formatHash, SluiceError, show } from '@sluice/core'

/**
 * The number of hashes per partition in the packed layout; like the partitions, it never changes.
 */
export const HASHES_PER_PARTITION = 1024
/** The hex digits of a hash's number. */
export const HASH_DIGITS = 3
const PREFIX = /^[A-Za-z0-9:_.-]{1,64}$/

/**
 * The tag of keys that are no counters. Its slot holds nothing else, so a Cluster migrates it in
 * one step; a slot full of counters would delay scripts with two keys.
 */
export const HOME_TAG = 'home'

export function requirePrefix(prefix: string): string {
  if (typeof prefix === 'string' && PREFIX.test(prefix)) return prefix
  throw new SluiceError(
    'OPTION_INVALID',
    `prefix: found ${show(prefix)}; accepted: 1 to 64 of the characters A-Z a-z 0-9 : _ . -`,
  )
}

/** The start of every key of a partition. */
export function keyHead(prefix: string, tag: string): string {
  return `${prefix}:{${tag}}:`
}

/** The key of a counter, or of a log in either layout. */
export function counterKeyText(prefix: string, tag: string, key: CounterKey): string {
  return keyHead(prefix, tag) + formatHash(key)
}

/** The number of the hash in its partition that holds a counter. */
export function hashNumber(lo: number): number {
  return lo & (HASHES_PER_PARTITION - 1)
}

export function hashKeyText(prefix: string, tag: string, key: CounterKey): string {
  const number = hashNumber(key.lo).toString(16).padStart(HASH_DIGITS, '0')
  return `${keyHead(prefix, tag)}p${number}`
}

/** The field of a counter in its hash: the 8 bytes of its own hash. */
export function hashField(key: CounterKey): Buffer {
  return Buffer.from(formatHash(key), 'hex')
}

/** A counter of the packed layout in readable form: its hash, and its field in hex. */
export function hashFieldText(prefix: string, tag: string, key: CounterKey): string {
  return `${hashKeyText(prefix, tag, key)} field ${formatHash(key)}`
}

export interface StoreKeys {
  readonly secret: string
  readonly fingerprint: string
  readonly fleet: string
  readonly places: string
}

/** The keys of a prefix that are no counters. */
export function storeKeys(prefix: string): StoreKeys {
  const home = keyHead(prefix, HOME_TAG)
  return {
    secret: `${home}secret`,
    fingerprint: `${home}secret-fingerprint`,
    fleet: `${home}fleet`,
    places: `${home}places`,
  }
}

/** The pub/sub channel on which nodes announce refunds and resets to each other. */
export function channelText(prefix: string): string {
  return `${keyHead(prefix, HOME_TAG)}announcements`
}

/** The key of a node's snapshot, by its id in the fleet. */
export function boardKeyText(prefix: string, node: string): string {
  return `${keyHead(prefix, HOME_TAG)}board:${node}`
}

/** The key of the heartbeat of another region. */
export function regionKeyText(prefix: string, region: string): string {
  return `${keyHead(prefix, HOME_TAG)}region:${region}`
}

/** The key that start checks write to, in the slot of a tag. */
export function probeKey(prefix: string, tag: string): string {
  return `${keyHead(prefix, tag)}probe`
}
