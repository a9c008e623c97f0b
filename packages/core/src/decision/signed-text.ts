/**
 * Texts that Sluice gives away and later believes again: receipts and reservations. A keyed
 * checksum rejects damaged and forged ones, and those of another deployment.
 */
import { deriveKey } from '../key.js'
import { hashTexts, type SipKey } from '../sip-hash.js'

/** The key for one purpose: a text made for another one is not believed. */
export function signingKey(secret: SipKey, purpose: 'receipt' | 'reservation'): SipKey {
  return deriveKey(secret, purpose)
}

export function signText(body: string, key: SipKey): string {
  return `${body}~${checksum(body, key)}`
}

/** Returns the signed body; undefined if this key did not sign it. */
export function readSigned(text: string, key: SipKey): string | undefined {
  const end = text.lastIndexOf('~')
  const body = text.slice(0, Math.max(0, end))
  return text.slice(end + 1) === checksum(body, key) ? body : undefined
}

function checksum(body: string, key: SipKey): string {
  const { hi, lo } = hashTexts(key, [body])
  return `${(hi >>> 0).toString(36)}.${(lo >>> 0).toString(36)}`
}
