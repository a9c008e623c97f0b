/** Whether bytes are a public key, in any of the forms in which such keys are handed around. */
import { createPublicKey, X509Certificate } from 'node:crypto'

export function isPublicKey(bytes: Buffer): boolean {
  // A byte order mark is no part of what follows it.
  const text = bytes.toString('utf8').replace(/^\ufeff/, '')
  if (/^(?:ssh|ecdsa|sk)-\S+ +AAAA/m.test(text)) return true
  return isReadable(bytes) || decodings(text).some(isReadable)
}

/** What the text is, if it is base64 or hex: keys are kept so in variables and clusters. */
function decodings(text: string): readonly Buffer[] {
  const dense = text.replace(/\s+/g, '')
  const all: Buffer[] = []
  if (/^[\w+/-]+=*$/.test(dense)) all.push(Buffer.from(dense, 'base64'))
  if (/^[\da-f]+$/i.test(dense)) all.push(Buffer.from(dense, 'hex'))
  return all
}

/** PEM, or DER of a public key (SPKI, PKCS #1) or of a certificate. */
function isReadable(bytes: Buffer): boolean {
  return READERS.some((read) => {
    try {
      read(bytes)
      return true
    } catch {
      return false
    }
  })
}

const READERS: readonly ((key: Buffer) => unknown)[] = [
  (key) => createPublicKey({ key, format: 'der', type: 'spki' }),
  (key) => createPublicKey({ key, format: 'der', type: 'pkcs1' }),
  (key) => createPublicKey({ key, format: 'pem' }),
  (key) => new X509Certificate(key),
]
