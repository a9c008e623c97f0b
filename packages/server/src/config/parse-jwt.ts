/** Parses `identity.jwt`: which tokens are trusted, and which claims are the user and plan. */
import {
  reportAt,
  fieldName,
  fieldOf,
  itemsOf,
  readList,
  readOptional,
  readRequired,
  type Located,
} from '@sluice/core/config-reader'
import type { JwtAlgorithm, JwtConfig, JwtKeyFile } from './config.js'
import { hideLongText, readFields } from './fields.js'
import type { HeaderNames } from './header-name.js'
import { readJwksUrl } from './outbound-urls.js'
import { readFileName, readItems, readName, readWord } from './values.js'

const ALGORITHMS: readonly JwtAlgorithm[] = [
  'HS256',
  'HS384',
  'HS512',
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
]
const PUBLIC_ALGORITHMS = ALGORITHMS.filter((algorithm) => !algorithm.startsWith('HS'))
const KEYS = { items: 'keys', most: 100 }
const KID_LENGTH_MAX = 256
const NAME_LENGTH_MAX = 1024

const FIELDS: readonly string[] = ['header', 'keys', 'jwks', 'issuer', 'audience', 'user', 'plan']

const JWT_HEADER = 'authorization'

export function readJwt(
  located: Located,
  { folder, headers }: { readonly folder: string; readonly headers: HeaderNames },
): JwtConfig | undefined {
  const map = readFields(located, FIELDS)
  if (map === undefined) return undefined
  const header = readOptional(map, 'header', (field) => headers.read(field))
  if (!map.node.entries.has('header')) {
    headers.take(JWT_HEADER, { ...map, field: fieldName(map, 'header') })
  }
  const name = (key: string, what: string) =>
    readOptional(map, key, (field) => readName(field, what, NAME_LENGTH_MAX))
  if (!map.node.entries.has('keys') && !map.node.entries.has('jwks')) {
    reportAt(map, 'missing-field', {
      field: fieldName(map, 'keys'),
      found: 'nothing',
      accepted: 'keys, jwks or both; no token can be believed without',
    })
  }
  return {
    header: header ?? JWT_HEADER,
    keys: readOptional(map, 'keys', (field) => readKeyFiles(field, folder)) ?? [],
    jwks: readOptional(map, 'jwks', readJwks),
    issuer: name('issuer', 'what tokens say in iss'),
    audience: name('audience', 'what tokens say in aud'),
    userClaim: name('user', 'the name of a claim') ?? 'sub',
    planClaim: name('plan', 'the name of a claim') ?? 'plan',
  }
}

function readKeyFiles(located: Located, folder: string): readonly JwtKeyFile[] | undefined {
  if (located.node.kind === 'list' && located.node.items.length === 0) {
    return reportAt(located, 'empty', { accepted: 'one or more keys' })
  }
  const isOnly = located.node.kind !== 'list' || located.node.items.length === 1
  const kids = new Set<string>()
  return readItems(located, KEYS, (item) => readKeyFile(item, { folder, isOnly, kids }))
}

interface KeyFileOptions {
  readonly folder: string
  readonly isOnly: boolean
  readonly kids: Set<string>
}

function readKeyFile(
  located: Located,
  { folder, isOnly, kids }: KeyFileOptions,
): JwtKeyFile | undefined {
  const map = readFields(located, ['kid', 'algorithm', 'file'])
  if (map === undefined) return undefined
  const readKid = (field: Located) => readName(field, 'the kid of tokens', KID_LENGTH_MAX)
  const accepted = 'the kid of its tokens; only a single key may go without'
  const kid = isOnly
    ? readOptional(map, 'kid', readKid)
    : readRequired(map, 'kid', { accepted, read: readKid })
  if (kid !== undefined && kids.has(kid)) {
    const own = 'a kid of its own for each key'
    reportAt(fieldOf(map, 'kid') ?? map, 'duplicate-value', { accepted: own })
  }
  if (kid !== undefined) kids.add(kid)
  const algorithm = readRequired(map, 'algorithm', {
    accepted: ALGORITHMS.join(', '),
    read: (field) => readWord(field, ALGORITHMS),
  })
  const file = readRequired(map, 'file', {
    accepted: 'a file with the key as PEM or JWK, or for HS with the secret',
    read: (field) => readFileName(field, folder),
  })
  return algorithm === undefined || file === undefined ? undefined : { kid, algorithm, file }
}

function readJwks(located: Located): JwtConfig['jwks'] {
  const map = readFields(located, ['url', 'algorithms'])
  if (map === undefined) return undefined
  const accepted = 'where the keys are, such as https://issuer.example/jwks.json'
  const url = readRequired(map, 'url', { accepted, read: readJwksUrl })
  const algorithms = readOptional(map, 'algorithms', readPublicAlgorithms) ?? ['RS256']
  return url === undefined ? undefined : { url, algorithms }
}

function readPublicAlgorithms(located: Located): readonly JwtAlgorithm[] | undefined {
  const shape = { items: 'algorithms', most: ALGORITHMS.length }
  const list = readList(hideLongText(located), shape)
  if (list === undefined) return undefined
  if (list.node.items.length === 0) {
    return reportAt(located, 'empty', { accepted: 'one or more algorithms; no key for RS256' })
  }
  const algorithms = new Set<JwtAlgorithm>()
  for (const item of itemsOf(list)) {
    const algorithm = readPublicAlgorithm(item)
    if (algorithm === undefined) continue
    if (algorithms.has(algorithm)) reportAt(item, 'duplicate-value', { accepted: 'each once' })
    algorithms.add(algorithm)
  }
  return [...algorithms]
}

function readPublicAlgorithm(located: Located): JwtAlgorithm | undefined {
  const accepted = PUBLIC_ALGORITHMS.join(', ')
  const algorithm = readWord(located, ALGORITHMS, accepted)
  if (algorithm === undefined || PUBLIC_ALGORITHMS.includes(algorithm)) return algorithm
  // If a public key were used as an HMAC secret, any caller could sign.
  const why = 'keys that are fetched are public, and HS needs a secret'
  return reportAt(located, 'bad-value', { accepted: `${accepted}; ${why}` })
}
