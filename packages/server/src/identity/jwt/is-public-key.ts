/** Detects whether bytes are a public key, in any of the usual encodings. */
import { createPublicKey, X509Certificate } from 'node:crypto'

export function isPublicKey(bytes: Buffer): boolean {
  // A byte order mark is not part of the content.
  const text = bytes.toString('utf8').replace(/^\ufeff/, '')
  if (/^(?:ssh|ecdsa|sk)-\S+ +AAAA/m.test(text)) return true
  return isReadable(bytes) || decodings(text).some(isReadable)
}

/** Decodes base64 or hex: variables and clusters often store keys in that form. */
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
