/**
 * Masks secret attributes at every entry point: a keyed hash and the last characters, by which the
 * owner recognises the secret without revealing it.
 */
import {
  ATTRIBUTE_LENGTH_MAX,
  type Attributes,
  deriveKey,
  formatHash,
  hashTexts,
  type SipKey,
  sipKey,
} from '@sluice/core'

const SHOWN = 4
/** The last characters of a shorter secret would reveal too much. */
const SHOWN_FROM = 16

/** The key of the hash. Nodes that share the secret write the same form. */
export function maskingKey(secret: Uint8Array): SipKey {
  return deriveKey(sipKey(secret), 'secret-attribute')
}

/**
 * `1f2e3d4c5b6a7988..wxyz`. The attribute is part of it: one value in two attributes is two
 * callers.
 */
export function maskValue(key: SipKey, attribute: string, value: string): string {
  const hash = formatHash(hashTexts(key, [attribute, value]))
  return `${hash}..${value.length < SHOWN_FROM ? '' : value.slice(-SHOWN)}`
}

const MASKED = /^[0-9a-f]{16}\.\..{0,4}$/s

/**
 * Masks the secret attributes of a call, for entry points whose clients send attributes. A value
 * that is masked already, as copied from a log, stays unchanged.
 */
export function createSecretMasker(
  secret: Uint8Array,
  names: readonly string[],
): (attributes: Attributes) => Attributes {
  const key = maskingKey(secret)
  return (attributes) => {
    let masked = attributes
    for (const name of names) {
      const value = Object.hasOwn(attributes, name) ? attributes[name] : undefined
      if (typeof value !== 'string' && typeof value !== 'number') continue
      const text = String(value)
      if (text === '' || text.length > ATTRIBUTE_LENGTH_MAX || MASKED.test(text)) continue
      masked = { ...masked, [name]: maskValue(key, name, text) }
    }
    return masked
  }
}
