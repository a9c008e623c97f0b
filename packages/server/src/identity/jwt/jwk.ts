/** JSON Web Keys: finds the algorithm of each key, and imports the key that verifies with it. */
import { hash } from 'node:crypto'
import { type CryptoKey, importJWK, type JWK } from 'jose'
import type { JwtAlgorithm } from '../../config/config.js'

/** A key with the one algorithm it verifies, which the token cannot choose. */
export interface TokenKey {
  readonly kid: string | undefined
  readonly algorithm: JwtAlgorithm
  readonly key: CryptoKey | Uint8Array
  /** Equal for the same key with the same algorithm. */
  readonly print: string
}

/** Whether a key of the first list is not in the second: what it verified may no longer hold. */
export function lacksKey(before: readonly TokenKey[], now: readonly TokenKey[]): boolean {
  const kept = new Set(now.map(fingerprintOf))
  return before.some((key) => !kept.has(fingerprintOf(key)))
}

function fingerprintOf({ kid, print }: TokenKey): string {
  return JSON.stringify([kid, print])
}

const CURVES: Readonly<Record<string, JwtAlgorithm>> = {
  'P-256': 'ES256',
  'P-384': 'ES384',
  'P-521': 'ES512',
  Ed25519: 'EdDSA',
}
const RSA_BITS_MIN = 2048

/** Undefined if it is not known for sure: a key that could mean two algorithms means none. */
export function algorithmOf(jwk: JWK, accepted: readonly JwtAlgorithm[]): JwtAlgorithm | undefined {
  const fitting = accepted.filter((algorithm) => fits(jwk, algorithm))
  if (jwk.alg !== undefined) return fitting.find((algorithm) => algorithm === jwk.alg)
  return fitting.length === 1 ? fitting[0] : undefined
}

/** Whether this kind of key can be used with the algorithm. */
export function fits({ kty, crv }: JWK, algorithm: JwtAlgorithm): boolean {
  if (kty === 'oct') return algorithm.startsWith('HS')
  if (kty === 'RSA') return /^[RP]S/.test(algorithm)
  if (kty !== 'EC' && kty !== 'OKP') return false
  return crv !== undefined && Object.hasOwn(CURVES, crv) && CURVES[crv] === algorithm
}

/** Why a JWK cannot be used as a public key; undefined if it can. */
export function findJwkProblem(jwk: JWK): string | undefined {
  if (jwk.kty === 'oct') return 'a symmetric key'
  if (jwk.d !== undefined) return 'a private key'
  if (jwk.use !== undefined && jwk.use !== 'sig') return 'a key that is not for signatures'
  if (Array.isArray(jwk.key_ops) && !jwk.key_ops.includes('verify')) {
    return 'a key that is not for signatures'
  }
  return undefined
}

/** Rejects if the JWK is damaged or too short. */
export async function importPublicJwk(jwk: JWK, algorithm: JwtAlgorithm): Promise<TokenKey> {
  const key = await importJWK(jwk, algorithm)
  requireRsaBits(key)
  const print = hash('sha256', JSON.stringify([algorithm, jwk.kty, jwk.n, jwk.e, jwk.x, jwk.y]))
  return { kid: typeof jwk.kid === 'string' ? jwk.kid : undefined, algorithm, key, print }
}

/** Otherwise every token would fail for a reason that is reported nowhere. */
export function requireRsaBits(key: CryptoKey | Uint8Array): void {
  if (key instanceof Uint8Array) return
  const bits: unknown = Reflect.get(key.algorithm, 'modulusLength')
  if (typeof bits !== 'number' || bits >= RSA_BITS_MIN) return
  throw new Error(`an RSA key of ${bits} bits; accepted: at least ${RSA_BITS_MIN}`)
}
