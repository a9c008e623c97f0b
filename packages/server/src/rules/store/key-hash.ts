/** How API keys are kept: never as they are, and of no use to whoever finds the hashes alone. */
import { hash } from 'node:crypto'

/**
 * Of a key that has been hashed once already, under the store's own secret: the same key has
 * another hash in another store, and what somebody computed for one says nothing about the next.
 * Both are texts of one length, so nothing can be moved from the one into the other.
 *
 * @param storeSecretHex the record `secret` of the store
 * @param sha256Hex `sha256Of` the key; letters in either case
 */
export function keyHash(storeSecretHex: string, sha256Hex: string): string {
  return hash('sha256', storeSecretHex + sha256Hex.toLowerCase())
}

/** 64 hex digits: what whoever registers a key may send in its place. */
export function sha256Of(key: string): string {
  return hash('sha256', key)
}

/** How much of a hash tells keys apart: 96 bits. */
const KEY_ID_DIGITS = 24
export const KEY_ID_PREFIX = 'k_'

/** The public name of a key: the beginning of its hash, so that one key has one name. */
export function keyId(hashOfKey: string): string {
  return KEY_ID_PREFIX + hashOfKey.slice(0, KEY_ID_DIGITS)
}
