import { createPublicKey, createSecretKey, hash, X509Certificate } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { exportJWK, exportPKCS8, exportSPKI } from 'jose'
import { describe, expect, test } from 'vitest'
import type { JwtAlgorithm, JwtConfig } from '../../config/config.js'
import { readKeyFile } from './key-file.js'
import {
  createSigner,
  jwtConfig,
  patiently,
  sign,
  testClock,
  writeFile,
} from './token-verifier.test-helper.js'
import { createTokenVerifier } from './token-verifier.js'

const IP = '198.51.100.7'

async function open(keys: JwtConfig['keys']) {
  const options = { config: jwtConfig({ keys }), clock: testClock(), ipv6Prefix: 64 }
  return patiently(await createTokenVerifier(options))
}

/** A self-signed certificate of the point below. */
const CERTIFICATE = `-----BEGIN CERTIFICATE-----
MIIBgDCCASegAwIBAgIUJUDcHrCnG+65xGZOlejh40ScktUwCgYIKoZIzj0EAwIw
FjEUMBIGA1UEAwwLc2x1aWNlLXRlc3QwHhcNMjYxMTE1MjMxMzE4WhcNNDYxMTEw
MjMxMzE4WjAWMRQwEgYDVQQDDAtzbHVpY2UtdGVzdDBZMBMGByqGSM49AgEGCCqG
SM49AwEHA0IABCoQ/6mdCLZAtXQYunlxkcCdH3caUlU/2hJVVwSmWB5wNi+mD5h7
xanRGsFNqoe8IBybiIZVnc4xWXRSI3ZnU6ijUzBRMB0GA1UdDgQWBBRGvqLqBvVA
YV8f3uNp+E4XkM4zuzAfBgNVHSMEGDAWgBRGvqLqBvVAYV8f3uNp+E4XkM4zuzAP
BgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0cAMEQCIDiqgA0rfgcoxC6htltW
akpXx2t96IOxyZktyqKHhwinAiBo77f6+CYYJ8WYBuO9/DzTJP9DmG1rL5kSgvZC
zClJ4A==
-----END CERTIFICATE-----`

describe('a key file', () => {
  const algorithms: readonly JwtAlgorithm[] = ['RS256', 'PS384', 'ES256', 'ES384', 'ES512', 'EdDSA']

  test.each(algorithms)('may be a PEM or a JWK: %s', async (algorithm) => {
    const signer = await createSigner('k1', algorithm)
    const spki = await exportSPKI(signer.publicKey)
    const token = await sign(signer)
    for (const content of [spki, `notes\n${spki}\r\n`, JSON.stringify(signer.jwk)]) {
      const tokens = await open([{ kid: 'k1', algorithm, file: writeFile('key', content) }])
      expect(await tokens.verify(token, IP)).toMatchObject({ user: 'u1' })
      await tokens.close()
    }
  })

  test.each<[JwtAlgorithm, number]>([
    ['HS256', 32],
    ['HS384', 48],
    ['HS512', 64],
  ])('may be a secret: %s, of at least %d bytes', async (algorithm, size) => {
    const text = 's'.repeat(size)
    const secret = Buffer.from(text)
    const key = createSecretKey(secret)
    const jwk = JSON.stringify({ kty: 'oct', k: secret.toString('base64url'), kid: 'k1' })
    const privateKey = await crypto.subtle.importKey(
      'raw',
      key.export(),
      { name: 'HMAC', hash: `SHA-${size * 8}` },
      false,
      ['sign'],
    )
    const token = await sign({ privateKey, algorithm, kid: 'k1' })
    for (const content of [text, `${text}\n`, `${text}\r\n`, jwk]) {
      const tokens = await open([{ kid: 'k1', algorithm, file: writeFile('key', content) }])
      expect(await tokens.verify(token, IP)).toMatchObject({ user: 'u1' })
      await tokens.close()
    }
    const short = writeFile('short', secret.subarray(1))
    await expect(readKeyFile({ kid: 'k1', algorithm, file: short })).rejects.toThrow(
      `${short}: found a secret of ${size - 1} bytes; accepted: for ${algorithm} a secret of at least`,
    )
  })

  test('may be a certificate', async () => {
    const file = writeFile('cert.pem', CERTIFICATE)
    const { key } = await readKeyFile({ kid: undefined, algorithm: 'ES256', file })
    expect(await exportJWK(key)).toMatchObject({
      x: 'KhD_qZ0ItkC1dBi6eXGRwJ0fdxpSVT_aElVXBKZYHnA',
      y: 'Ni-mD5h7xanRGsFNqoe8IBybiIZVnc4xWXRSI3ZnU6g',
    })
  })

  test('with a name of its own keeps it, unless the configuration has another', async () => {
    const signer = await createSigner('own', 'ES256')
    const file = writeFile('key', JSON.stringify(signer.jwk))
    expect((await readKeyFile({ kid: undefined, algorithm: 'ES256', file })).kid).toBe('own')
    expect((await readKeyFile({ kid: 'k9', algorithm: 'ES256', file })).kid).toBe('k9')
  })
})

describe('an invalid key file is reported at start:', () => {
  async function problemOf(algorithm: JwtAlgorithm, content: string | Uint8Array) {
    const file = writeFile('key.pem', content)
    const error: unknown = await open([{ kid: undefined, algorithm, file }]).catch((e) => e)
    if (!(error instanceof Error)) throw new Error('the file was accepted')
    return error.message.replace(file, 'FILE')
  }
  const accepted = 'accepted: for RS256 a public key or certificate as PEM, or a public JWK'

  test('the message says what was found and what is accepted', async () => {
    const signer = await createSigner('k1', 'RS256')
    const spki = await exportSPKI(signer.publicKey)
    const ec = await createSigner('k1', 'ES256')
    const rows: [string | Uint8Array, string][] = [
      ['', 'neither PEM nor JSON'],
      ['{"kty":', 'neither PEM nor JSON'],
      [new Uint8Array(64 * 1024 + 1), '65537 bytes, above 65536'],
      [await exportPKCS8(signer.privateKey), 'a private key'],
      [JSON.stringify(await exportJWK(signer.privateKey)), 'a private key'],
      ['{"kty":"oct","k":"AAAA"}', 'a symmetric key'],
      [JSON.stringify({ ...signer.jwk, alg: 'RS512' }), 'a JWK for RS512'],
      [JSON.stringify({ ...signer.jwk, use: 'enc' }), 'a key that is not for signatures'],
      [JSON.stringify({ ...ec.jwk, alg: undefined }), 'a JWK of kind EC P-256'],
      [await exportSPKI(ec.publicKey), 'a public key that is damaged or of another kind'],
      [`${spki.slice(0, 200)}\n-----END PUBLIC KEY-----`, 'a public key that is damaged or of'],
      [
        '-----BEGIN RSA PUBLIC KEY-----\nAAAA\n-----END RSA PUBLIC KEY-----',
        'a PEM of RSA PUBLIC KEY',
      ],
    ]
    for (const [content, found] of rows) {
      const message = await problemOf('RS256', content)
      expect(message).toContain(`identity.jwt.keys: FILE: found ${found}`)
      expect(message).toContain(accepted)
    }
  })

  test('a missing file, or an RSA key that is too short', async () => {
    const missing = [{ kid: undefined, algorithm: 'RS256', file: '/nowhere/key.pem' } as const]
    await expect(open(missing)).rejects.toThrow('/nowhere/key.pem: found ENOENT')
    const { n, e } = { n: Buffer.alloc(128, 0xcb).toString('base64url'), e: 'AQAB' }
    const message = await problemOf('RS256', JSON.stringify({ kty: 'RSA', n, e }))
    expect(message).toContain('found an RSA key of 1024 bits; accepted: at least 2048')
  })

  test('a public key where a secret is needed', async () => {
    const { publicKey } = await createSigner('k1', 'RS256')
    expect(await problemOf('HS256', await exportSPKI(publicKey))).toContain('which is no secret')
  })

  test('anything that is public where a secret is needed', async () => {
    const { publicKey, jwk } = await createSigner('k1', 'RS256')
    const pem = await exportSPKI(publicKey)
    const rsa = createPublicKey(pem)
    const der = rsa.export({ format: 'der', type: 'spki' })
    const pkcs1 = rsa.export({ format: 'der', type: 'pkcs1' })
    const certificate = new X509Certificate(CERTIFICATE).raw
    const base64 = der.toString('base64')
    const wrapped = `${base64.replace(/.{64}/g, '$&\n')}\n`
    const text = JSON.stringify(jwk)
    const json = 'JSON that is no JWK of a secret'
    const key = 'a public key or certificate, which is no secret'
    const rows: [string | Uint8Array, string][] = [
      [text, json],
      [`\ufeff ${text}\r\n`, json],
      [JSON.stringify({ keys: [jwk] }), json],
      [JSON.stringify([jwk, jwk]), json],
      [JSON.stringify({ kty: 'oct', secret: 's'.repeat(64) }), json],
      [JSON.stringify({ kty: 'oct', k: der.toString('base64url') }), key],
      [der, key],
      [Buffer.concat([der, Buffer.from('\n')]), key],
      [pkcs1, key],
      [certificate, key],
      [base64, key],
      [wrapped, key],
      [`\ufeff${wrapped}`, key],
      [der.toString('base64url'), key],
      [der.toString('hex'), key],
      [certificate.toString('base64'), key],
      [Buffer.from(pem).toString('base64'), key],
      [`ssh-rsa AAAAB3NzaC1yc2E${base64} me@example`, key],
      [pem, 'a PEM, which is no secret'],
    ]
    for (const [content, found] of rows) {
      expect(await problemOf('HS256', content)).toBe(
        `identity.jwt.keys: FILE: found ${found}; ` +
          'accepted: for HS256 a secret of at least 32 bytes, or a JWK of one',
      )
    }
  })

  test('but not a secret that is random, or looks like base64, hex or half a JSON', async () => {
    const bytes = Buffer.from(hash('sha512', 'a secret'), 'hex')
    const secrets = [
      bytes,
      bytes.toString('base64'),
      bytes.toString('hex'),
      `{${'s'.repeat(64)}`,
      `"${'s'.repeat(64)}"`,
      '7'.repeat(64),
    ]
    for (const secret of secrets) {
      const file = writeFile('secret', secret)
      const { key } = await readKeyFile({ kid: undefined, algorithm: 'HS256', file })
      expect(key).toEqual(Uint8Array.from(Buffer.from(secret)))
    }
  })

  test('two keys of one name', async () => {
    const { jwk } = await createSigner('k1', 'ES256')
    const key = {
      kid: 'k1',
      algorithm: 'ES256',
      file: writeFile('k', JSON.stringify(jwk)),
    } as const
    await expect(open([key, key])).rejects.toThrow('found two keys of kid k1; accepted: each')
  })
})

describe('a key file that changes', () => {
  test('is read again, and tokens that the old key signed are no longer cached', async () => {
    const [before, after] = [await createSigner('k1'), await createSigner('k1')]
    const file = writeFile('key.json', JSON.stringify(before.jwk))
    const tokens = await open([{ kid: 'k1', algorithm: 'ES256', file }])
    const [old, young] = [await sign(before), await sign(after)]
    expect(await tokens.verify(old, IP)).toMatchObject({ user: 'u1' })
    expect(await tokens.verify(young, IP)).toBe('invalid_token')

    writeFileSync(file, JSON.stringify(after.jwk))
    await tokens.reload()
    expect(await tokens.verify(old, IP)).toBe('invalid_token')
    expect(await tokens.verify(young, IP)).toMatchObject({ user: 'u1' })
    await tokens.close()
  })

  test('to an invalid one changes nothing', async () => {
    const signer = await createSigner('k1')
    const file = writeFile('key.json', JSON.stringify(signer.jwk))
    const tokens = await open([{ kid: 'k1', algorithm: 'ES256', file }])
    const token = await sign(signer)
    await tokens.verify(token, IP)
    writeFileSync(file, 'half a f')
    await expect(tokens.reload()).rejects.toThrow('found neither PEM nor JSON')
    expect(tokens.verify(token, IP)).toMatchObject({ user: 'u1' })
    await tokens.close()
  })
})
