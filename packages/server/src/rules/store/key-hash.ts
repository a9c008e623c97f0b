/** Hashes API keys for storage. Without the store's secret the hashes reveal nothing. */
import { hash } from 'node:crypto'

/**
 * Hashes the SHA-256 of a key with the store's own secret, so that the same key has another hash in
 * another store, and hashes computed for one store are useless for the next. Both inputs have a
 * fixed length, so their concatenation is unambiguous.
 *
 * @param storeSecretHex the record `secret` of the store
 * @param sha256Hex `sha256Of` the key; letters in either case
 */
export function keyHash(storeSecretHex: string, sha256Hex: string): string {
  return hash('sha256', storeSecretHex + sha256Hex.toLowerCase())
}

/** Returns 64 hex digits, which may be sent instead of the key to register it. */
export function sha256Of(key: string): string {
  return hash('sha256', key)
}

/** 96 bits of the hash identify a key. */
const KEY_ID_DIGITS = 24
export const KEY_ID_PREFIX = 'k_'

/** Returns the public id of a key: the beginning of its hash, so that a key has one id. */
export function keyId(hashOfKey: string): string {
  return KEY_ID_PREFIX + hashOfKey.slice(0, KEY_ID_DIGITS)
}
