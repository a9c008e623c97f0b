/**
 * What stands for a secret from the door on: a keyed hash and its last characters, so that its
 * owner knows it again and nobody else learns it.
 */
import { deriveKey, formatHash, hashTexts, type SipKey, sipKey } from '@sluice/core'

const SHOWN = 4
/** Of a shorter secret the last characters would tell too much. */
const SHOWN_FROM = 16

/** The key of the hash. Nodes that share the secret write the same form. */
export function secretFormKey(secret: Uint8Array): SipKey {
  return deriveKey(sipKey(secret), 'secret-attribute')
}

/**
 * `1f2e3d4c5b6a7988..wxyz`. The attribute is part of it: one value in two attributes is two callers.
 */
export function secretForm(key: SipKey, attribute: string, value: string): string {
  const hash = formatHash(hashTexts(key, [attribute, value]))
  return `${hash}..${value.length < SHOWN_FROM ? '' : value.slice(-SHOWN)}`
}
