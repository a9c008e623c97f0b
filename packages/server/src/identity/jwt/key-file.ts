/** Reads the keys of tokens from files. */
import { hash } from 'node:crypto'
import { open } from 'node:fs/promises'
import { type CryptoKey, importSPKI, importX509, type JWK } from 'jose'
import { show } from '@sluice/core'
import type { JwtAlgorithm, JwtKeyFile } from '../../config/config.js'
import { findJwkProblem, fits, importPublicJwk, requireRsaBits, type TokenKey } from './jwk.js'
import { isPublicKey } from './is-public-key.js'

const FILE_BYTES_MAX = 64 * 1024

/** Rejects with a message that names the file, what was found and what is accepted. */
export async function readKeyFile(config: JwtKeyFile): Promise<TokenKey> {
  const { file, algorithm, kid } = config
  try {
    const bytes = await readBounded(file)
    const secret = algorithm.startsWith('HS')
    const found = secret ? readSecret(bytes, algorithm) : await readPublic(bytes, algorithm)
    const print = hash('sha256', JSON.stringify([algorithm, hash('sha256', bytes)]))
    return { kid: kid ?? found.kid, algorithm, key: found.key, print }
  } catch (error) {
    const found = show(error instanceof Error ? error.message : error, 200)
    throw new Error(
      `identity.jwt.keys: ${show(file, 200)}: found ${found}; accepted: ${accepted(algorithm)}`,
      { cause: error },
    )
  }
}

interface KeyMaterial {
  readonly kid: string | undefined
  readonly key: CryptoKey | Uint8Array
}

function accepted(algorithm: JwtAlgorithm): string {
  if (algorithm.startsWith('HS')) {
    return `for ${algorithm} a secret of at least ${secretBytes(algorithm)} bytes, or a JWK of one`
  }
  return `for ${algorithm} a public key or certificate as PEM, or a public JWK`
}

/** RFC 7518: a secret is at least as long as the hash, or guessing it would be easier. */
function secretBytes(algorithm: JwtAlgorithm): number {
  return Number(algorithm.slice(2)) / 8
}

async function readBounded(file: string): Promise<Buffer> {
  const handle = await open(file)
  try {
    const { size } = await handle.stat()
    if (size > FILE_BYTES_MAX) throw new Error(`${size} bytes, above ${FILE_BYTES_MAX}`)
    return await handle.readFile()
  } finally {
    await handle.close()
  }
}

/**
 * The bytes of the file without the line break that editors append, or an `oct` JWK. Public keys
 * are refused: with one as the secret, any caller could sign.
 */
function readSecret(bytes: Buffer, algorithm: JwtAlgorithm): KeyMaterial {
  const json = parseJson(bytes.toString('utf8'))
  const jwk = json === undefined ? undefined : secretJwkOf(json)
  if (jwk?.alg !== undefined && jwk.alg !== algorithm) {
    throw new Error(`a JWK for ${show(jwk.alg)}`)
  }
  const key = jwk === undefined ? withoutLineBreak(bytes) : Buffer.from(jwk.k, 'base64url')
  if (/-----BEGIN [A-Z ]+-----/.test(key.toString('latin1'))) {
    throw new Error('a PEM, which is no secret')
  }
  // A DER may end with what looks like a line break, so the whole file is checked as well.
  if (isPublicKey(key) || isPublicKey(bytes)) {
    throw new Error('a public key or certificate, which is no secret')
  }
  if (key.length < secretBytes(algorithm)) throw new Error(`a secret of ${key.length} bytes`)
  return { kid: jwk === undefined ? undefined : kidOf(jwk), key: Uint8Array.from(key) }
}

function secretJwkOf(json: object): JWK & { readonly k: string } {
  const { kty, k }: JWK = json
  if (kty === 'oct' && typeof k === 'string') return { ...json, kty, k }
  throw new Error('JSON that is no JWK of a secret')
}

function withoutLineBreak(bytes: Buffer): Buffer {
  if (bytes.at(-1) !== 10) return bytes
  return bytes.subarray(0, bytes.at(-2) === 13 ? -2 : -1)
}

async function readPublic(bytes: Buffer, algorithm: JwtAlgorithm): Promise<KeyMaterial> {
  const text = bytes.toString('utf8')
  const jwk = parseJson(text)
  if (jwk !== undefined && !Array.isArray(jwk)) return readPublicJwk(jwk, algorithm)
  if (/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(text)) throw new Error('a private key')
  const [pem, kind] = /-----BEGIN ([A-Z ]+)-----[^-]+-----END \1-----/.exec(text) ?? []
  if (pem === undefined) throw new Error('neither PEM nor JSON')
  if (kind !== 'PUBLIC KEY' && kind !== 'CERTIFICATE') throw new Error(`a PEM of ${show(kind)}`)
  const read = kind === 'CERTIFICATE' ? importX509 : importSPKI
  const key = await read(pem, algorithm).catch((cause: unknown) => {
    throw new Error(`a ${kind.toLowerCase()} that is damaged or of another kind`, { cause })
  })
  requireRsaBits(key)
  return { kid: undefined, key }
}

async function readPublicJwk(jwk: JWK, algorithm: JwtAlgorithm): Promise<KeyMaterial> {
  const problem = findJwkProblem(jwk)
  if (problem !== undefined) throw new Error(problem)
  if (jwk.alg !== undefined && jwk.alg !== algorithm) {
    throw new Error(`a JWK for ${show(jwk.alg)}`)
  }
  if (!fits(jwk, algorithm))
    throw new Error(`a JWK of kind ${show(jwk.kty)} ${show(jwk.crv ?? '')}`)
  return importPublicJwk(jwk, algorithm)
}

function kidOf(jwk: JWK): string | undefined {
  return typeof jwk.kid === 'string' ? jwk.kid : undefined
}

/** Undefined if the text is neither a JSON object nor a list. */
function parseJson(text: string): object | undefined {
  // Also removes the byte order mark, which JSON.parse does not accept.
  const trimmed = text.trim()
  if (!/^[{[]/.test(trimmed)) return undefined
  try {
    const parsed: unknown = JSON.parse(trimmed)
    return typeof parsed === 'object' && parsed !== null ? parsed : undefined
  } catch {
    return undefined
  }
}
