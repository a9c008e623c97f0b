/**
 * The names of everything that Sluice keeps in Redis; no other file spells one. A name begins with
 * the prefix and a hash tag, so that on a Cluster the tag alone chooses the slot.
 */
import { type CounterKey, formatHash, SluiceError, show } from '@sluice/core'

/** Hashes of the packed layout in each partition; fixed for ever, like the partitions. */
export const HASHES_PER_PARTITION = 1024
/** A hash's number is spelled in so many hex digits. */
export const HASH_DIGITS = 3
const PREFIX = /^[A-Za-z0-9:_.-]{1,64}$/

/**
 * Its slot holds nothing else: a Cluster moves it in one go, where a slot full of counters would
 * keep scripts of two keys waiting.
 */
export const HOME_TAG = 'home'

export function requirePrefix(prefix: string): string {
  if (typeof prefix === 'string' && PREFIX.test(prefix)) return prefix
  throw new SluiceError(
    'OPTION_INVALID',
    `prefix: found ${show(prefix)}; accepted: 1 to 64 of the characters A-Z a-z 0-9 : _ . -`,
  )
}

/** What the keys of a partition begin with. */
export function keyHead(prefix: string, tag: string): string {
  return `${prefix}:{${tag}}:`
}

/** The key of a counter, or of a log in either layout. */
export function counterKeyText(prefix: string, tag: string, key: CounterKey): string {
  return keyHead(prefix, tag) + formatHash(key)
}

/** Which hash of its partition a counter lies in; its field there is the 8 bytes of its hash. */
export function hashNumber(lo: number): number {
  return lo & (HASHES_PER_PARTITION - 1)
}

export function hashKeyText(prefix: string, tag: string, key: CounterKey): string {
  const number = hashNumber(key.lo).toString(16).padStart(HASH_DIGITS, '0')
  return `${keyHead(prefix, tag)}p${number}`
}

/** The field of a counter in its hash. */
export function hashField(key: CounterKey): Buffer {
  return Buffer.from(formatHash(key), 'hex')
}

/** A counter of the packed layout as people read it: its hash, and its field in hex. */
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

/** No key, but the channel on which nodes announce to each other what must be known at once. */
export function channelText(prefix: string): string {
  return `${keyHead(prefix, HOME_TAG)}announcements`
}

/** What a node left on the board, by its id in the fleet. */
export function boardKeyText(prefix: string, node: string): string {
  return `${keyHead(prefix, HOME_TAG)}board:${node}`
}

/** A key that only the start checks write, in the slot of a tag. */
export function probeKey(prefix: string, tag: string): string {
  return `${keyHead(prefix, tag)}probe`
}
