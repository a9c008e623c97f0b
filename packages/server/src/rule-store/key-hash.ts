/** How API keys are kept: never as they are, and of no use to whoever finds the hashes alone. */
import { createHash } from 'node:crypto'

/**
 * Of a key that has been hashed once already, under the store's own secret: the same key has
 * another hash in another store, and what somebody computed for one says nothing about the next.
 *
 * @param storeSecretHex the record `secret` of the store
 * @param sha256Hex `sha256Of` the key; letters in either case
 */
export function keyHash(storeSecretHex: string, sha256Hex: string): string {
  return createHash('sha256')
    .update(Buffer.from(storeSecretHex, 'hex'))
    .update(Buffer.from(sha256Hex, 'hex'))
    .digest('hex')
}

/** 64 hex digits: what whoever registers a key may send in its place. */
export function sha256Of(key: string): string {
  return createHash('sha256').update(key).digest('hex')
}
