/**
 * What stands for a secret from the door on: a keyed hash and its last characters, so that its
 * owner knows it again and nobody else learns it.
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
/** Of a shorter secret the last characters would tell too much. */
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
 * What the doors that are told attributes do with the secret ones. One that is in its form
 * already, as logs and explanations show it, stays as it is.
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
