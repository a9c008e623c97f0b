/**
 * Encrypts and authenticates text (AES-256-GCM) with a key derived from the key secret. Each
 * process derives its own key from a random salt, so that random nonces do not repeat under one
 * key, however large the fleet is.
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'

const CIPHER = 'aes-256-gcm'
const PURPOSE = 'sluice: names of callers, sealed 1'
const KEY_BYTES = 32
const SALT_BYTES = 16
const NONCE_BYTES = 12
const TAG_BYTES = 16
const HEAD_BYTES = SALT_BYTES + NONCE_BYTES + TAG_BYTES

export class TextSealer {
  readonly #secret: Uint8Array
  readonly #salt = randomBytes(SALT_BYTES)
  readonly #key: Buffer

  constructor(secret: Uint8Array) {
    this.#secret = secret
    this.#key = this.deriveKey(this.#salt)
  }

  /** Returns Base64. The text opens only with the same `context`. */
  seal(text: string, context: string): string {
    const nonce = randomBytes(NONCE_BYTES)
    const cipher = createCipheriv(CIPHER, this.#key, nonce, { authTagLength: TAG_BYTES })
    cipher.setAAD(Buffer.from(context))
    const sealed = [cipher.update(text, 'utf8'), cipher.final()]
    return Buffer.concat([this.#salt, nonce, cipher.getAuthTag(), ...sealed]).toString('base64')
  }

  /** Returns undefined if damaged, or sealed with another context or secret. Never throws. */
  open(sealed: string, context: string): string | undefined {
    try {
      const bytes = Buffer.from(sealed, 'base64')
      const salt = bytes.subarray(0, SALT_BYTES)
      const nonce = bytes.subarray(SALT_BYTES, SALT_BYTES + NONCE_BYTES)
      const tag = bytes.subarray(SALT_BYTES + NONCE_BYTES, HEAD_BYTES)
      const key = salt.equals(this.#salt) ? this.#key : this.deriveKey(salt)
      const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES })
      decipher.setAAD(Buffer.from(context))
      decipher.setAuthTag(tag)
      const text = [decipher.update(bytes.subarray(HEAD_BYTES)), decipher.final()]
      return Buffer.concat(text).toString('utf8')
    } catch {
      return undefined
    }
  }

  private deriveKey(salt: Uint8Array): Buffer {
    return Buffer.from(hkdfSync('sha256', this.#secret, salt, PURPOSE, KEY_BYTES))
  }
}
