import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'
import { onTestFinished } from 'vitest'
import type { JwtAlgorithm, JwtConfig } from '../../config/config.js'
import type { TokenVerifier } from './token-verifier.js'

const START_MS = 1_767_225_600_000
export const NOW_S = START_MS / 1000

export function testClock() {
  let nowMs = START_MS
  return {
    now: () => nowMs,
    advance: (ms: number) => {
      nowMs += ms
    },
  }
}

export function jwtConfig(changes: Partial<JwtConfig> = {}): JwtConfig {
  return {
    header: 'authorization',
    keys: [],
    jwks: undefined,
    issuer: undefined,
    audience: undefined,
    userClaim: 'sub',
    planClaim: 'plan',
    ...changes,
  }
}

/** A file of its own, removed after the test. */
export function writeFile(name: string, content: string | Uint8Array): string {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-identity-'))
  onTestFinished(() => rmSync(directory, { recursive: true }))
  const file = join(directory, name)
  writeFileSync(file, content)
  return file
}

export interface Signer {
  readonly kid: string
  readonly algorithm: JwtAlgorithm
  readonly privateKey: CryptoKey
  readonly publicKey: CryptoKey
  readonly jwk: JWK
}

export async function createSigner(
  kid: string,
  algorithm: JwtAlgorithm = 'ES256',
): Promise<Signer> {
  const { privateKey, publicKey } = await generateKeyPair(algorithm, { extractable: true })
  const jwk = { ...(await exportJWK(publicKey)), kid, alg: algorithm, use: 'sig' }
  return { kid, algorithm, privateKey, publicKey, jwk }
}

/** A token for `sub: u1` that is valid for an hour by default. */
export function sign(
  { privateKey, algorithm, kid }: Pick<Signer, 'privateKey' | 'algorithm' | 'kid'>,
  claims: Record<string, unknown> = {},
  header: Record<string, unknown> = {},
): Promise<string> {
  return new SignJWT({ sub: 'u1', exp: NOW_S + 3600, ...claims })
    .setProtectedHeader({ alg: algorithm, kid, ...header })
    .sign(privateKey)
}

/** Longer than a slow machine needs to verify the tokens of a test. */
const PATIENT_MS = 30_000

/** The same, with the time limit of a test by default. */
export function patiently(tokens: TokenVerifier): TokenVerifier {
  return {
    verify: (token, ip, withinMs = PATIENT_MS) => tokens.verify(token, ip, withinMs),
    reload: () => tokens.reload(),
    stats: () => tokens.stats(),
    close: () => tokens.close(),
  }
}

/** Verifies all concurrently. */
export function verifyAll(
  tokens: TokenVerifier,
  signed: readonly string[],
  ipOf: (at: number) => string,
) {
  return Promise.all(signed.map(async (token, at) => tokens.verify(token, ipOf(at))))
}

export interface JwksServer extends AsyncDisposable {
  readonly url: string
  /** The number of requests. */
  fetches(): number
  /** The response to the next requests. */
  answer(how: (response: ServerResponse) => void): void
  publish(...keys: readonly unknown[]): void
}

export async function serveJwks(...keys: readonly unknown[]): Promise<JwksServer> {
  let fetches = 0
  let how: (response: ServerResponse) => void = () => {}
  const server = createServer((_, response) => {
    fetches++
    how(response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' ? (address?.port ?? 0) : 0
  const jwks: JwksServer = {
    url: `http://127.0.0.1:${port}/jwks.json`,
    fetches: () => fetches,
    answer: (next) => {
      how = next
    },
    publish: (...published) => jwks.answer((response) => void response.end(setOf(published))),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
  jwks.publish(...keys)
  return jwks
}

function setOf(keys: readonly unknown[]): string {
  return JSON.stringify({ keys })
}
