/** `identity.jwt`: which tokens are believed, and which of their claims are the user and plan. */
import {
  complain,
  fieldName,
  fieldOf,
  itemsOf,
  readList,
  readOptional,
  readRequired,
  type Spot,
} from '@sluice/core/reading'
import type { JwtAlgorithm, JwtConfig, JwtKeyFile } from './config.js'
import { hideLongText, readFields } from './fields.js'
import type { HeaderNames } from './header-name.js'
import { readJwksUrl } from './urls.js'
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
const KEYS = { of: 'keys', most: 100 }
const KID_LENGTH_MAX = 256
const NAME_LENGTH_MAX = 1024

const FIELDS: readonly string[] = ['header', 'keys', 'jwks', 'issuer', 'audience', 'user', 'plan']

const JWT_HEADER = 'authorization'

export function readJwt(
  spot: Spot,
  { folder, headers }: { readonly folder: string; readonly headers: HeaderNames },
): JwtConfig | undefined {
  const map = readFields(spot, FIELDS)
  if (map === undefined) return undefined
  const header = readOptional(map, 'header', (field) => headers.read(field))
  if (!map.node.entries.has('header')) {
    headers.take(JWT_HEADER, { ...map, field: fieldName(map, 'header') })
  }
  const name = (key: string, what: string) =>
    readOptional(map, key, (field) => readName(field, what, NAME_LENGTH_MAX))
  if (!map.node.entries.has('keys') && !map.node.entries.has('jwks')) {
    complain(map, 'missing-field', {
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

function readKeyFiles(spot: Spot, folder: string): readonly JwtKeyFile[] | undefined {
  if (spot.node.kind === 'list' && spot.node.items.length === 0) {
    return complain(spot, 'empty', { accepted: 'one or more keys' })
  }
  const isOnly = spot.node.kind !== 'list' || spot.node.items.length === 1
  const kids = new Set<string>()
  return readItems(spot, KEYS, (item) => readKeyFile(item, { folder, isOnly, kids }))
}

interface KeyFileOptions {
  readonly folder: string
  readonly isOnly: boolean
  readonly kids: Set<string>
}

function readKeyFile(spot: Spot, { folder, isOnly, kids }: KeyFileOptions): JwtKeyFile | undefined {
  const map = readFields(spot, ['kid', 'algorithm', 'file'])
  if (map === undefined) return undefined
  const readKid = (field: Spot) => readName(field, 'the kid of tokens', KID_LENGTH_MAX)
  const accepted = 'the kid of its tokens; only a single key may go without'
  const kid = isOnly
    ? readOptional(map, 'kid', readKid)
    : readRequired(map, 'kid', { accepted, read: readKid })
  if (kid !== undefined && kids.has(kid)) {
    const own = 'a kid of its own for each key'
    complain(fieldOf(map, 'kid') ?? map, 'duplicate-value', { accepted: own })
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

function readJwks(spot: Spot): JwtConfig['jwks'] {
  const map = readFields(spot, ['url', 'algorithms'])
  if (map === undefined) return undefined
  const accepted = 'where the keys are, such as https://issuer.example/jwks.json'
  const url = readRequired(map, 'url', { accepted, read: readJwksUrl })
  const algorithms = readOptional(map, 'algorithms', readPublicAlgorithms) ?? ['RS256']
  return url === undefined ? undefined : { url, algorithms }
}

function readPublicAlgorithms(spot: Spot): readonly JwtAlgorithm[] | undefined {
  const shape = { of: 'algorithms', most: ALGORITHMS.length }
  const list = readList(hideLongText(spot), shape)
  if (list === undefined) return undefined
  if (list.node.items.length === 0) {
    return complain(spot, 'empty', { accepted: 'one or more algorithms; no key for RS256' })
  }
  const algorithms = new Set<JwtAlgorithm>()
  for (const item of itemsOf(list)) {
    const algorithm = readPublicAlgorithm(item)
    if (algorithm === undefined) continue
    if (algorithms.has(algorithm)) complain(item, 'duplicate-value', { accepted: 'each once' })
    algorithms.add(algorithm)
  }
  return [...algorithms]
}

function readPublicAlgorithm(spot: Spot): JwtAlgorithm | undefined {
  const accepted = PUBLIC_ALGORITHMS.join(', ')
  const algorithm = readWord(spot, ALGORITHMS, accepted)
  if (algorithm === undefined || PUBLIC_ALGORITHMS.includes(algorithm)) return algorithm
  // With a public key taken for its secret, anybody could sign.
  const why = 'keys that are fetched are public, and HS needs a secret'
  return complain(spot, 'bad-value', { accepted: `${accepted}; ${why}` })
}
