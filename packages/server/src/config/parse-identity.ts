/** Parses `identity`: what identifies a caller, and how far it is trusted. */
import { IPV6_PREFIX_DEFAULT, IPV6_PREFIX_MAX, IPV6_PREFIX_MIN } from '@sluice/core'
import {
  reportAt,
  fieldName,
  isAttributeName,
  isWithin,
  type MapNode,
  readAnyMap,
  readBoolean,
  readOptional,
  readRequired,
  type Located,
  locateEntry,
} from '@sluice/core/config-reader'
import type { HeaderAttribute, IdentityConfig } from './config.js'
import { hideLongText, readFields, readExplicit, readSection } from './fields.js'
import { HeaderNames, isCredential } from './header-name.js'
import { readJwt } from './parse-jwt.js'
import { readKeys } from './parse-keys.js'
import { USAGE_ATTRIBUTES } from './usage-attributes.js'
import { readInteger, readWord } from './values.js'

const IPV6_PREFIX = { least: IPV6_PREFIX_MIN, most: IPV6_PREFIX_MAX }
const API_KEY_HEADER = 'x-api-key'
const UNKNOWN = ['anonymous', 'refuse'] as const
const HEADERS = { items: 'attributes', most: 32 }
/** Attributes with another source. From a header, any caller could set its own. */
const RESERVED: readonly string[] = [
  'ip',
  'api_key',
  'user',
  'plan',
  'method',
  'path',
  'route',
  'priority',
  'cost',
]

const FIELDS: readonly string[] = ['ipv6Prefix', 'apiKey', 'keys', 'jwt', 'proxyHeaders', 'headers']

export interface ParsedIdentity {
  readonly config: IdentityConfig
  /** Where the headers of proxies are named; undefined: nowhere. */
  readonly proxyHeaders: Located | undefined
}

/** What the other sections say of `identity`. */
export interface IdentityContext {
  readonly folder: string
  /** Whether the gateway sets the attributes of usage itself. */
  readonly hasUsage: boolean
}

export function readIdentity(
  root: Located<MapNode>,
  { folder, hasUsage }: IdentityContext,
): ParsedIdentity {
  const map = readSection(root, 'identity', FIELDS)
  const headers = new HeaderNames()
  const ipv6Prefix = readOptional(map, 'ipv6Prefix', (located) => readInteger(located, IPV6_PREFIX))
  const apiKey = readApiKeyHeader(map, headers)
  const keys = readOptional(map, 'keys', readKeys)
  const jwt = readOptional(map, 'jwt', (located) => readJwt(located, { folder, headers }))
  const proxyHeaders = readExplicit(map, 'proxyHeaders', (located) =>
    readProxyHeaders(located, headers),
  )
  const attributes = readOptional(map, 'headers', (located) =>
    readAttributes(located, headers, hasUsage ? [...RESERVED, ...USAGE_ATTRIBUTES] : RESERVED),
  )
  return {
    config: {
      ipv6Prefix: ipv6Prefix ?? IPV6_PREFIX_DEFAULT,
      apiKey,
      keys: keys ?? [],
      jwt,
      proxyHeaders: proxyHeaders?.value ?? {
        user: undefined,
        plan: undefined,
        priority: undefined,
      },
      headers: attributes ?? [],
    },
    proxyHeaders: proxyHeaders?.located,
  }
}

function readApiKeyHeader(
  identity: Located<MapNode>,
  headers: HeaderNames,
): IdentityConfig['apiKey'] {
  const map = readSection(identity, 'apiKey', ['header', 'unknown'])
  const header = readOptional(map, 'header', (located) => headers.read(located))
  if (!map.node.entries.has('header')) {
    headers.take(API_KEY_HEADER, { ...map, field: fieldName(map, 'header') })
  }
  return {
    header: header ?? API_KEY_HEADER,
    unknown: readOptional(map, 'unknown', (located) => readWord(located, UNKNOWN)) ?? 'anonymous',
  }
}

function readProxyHeaders(
  located: Located,
  headers: HeaderNames,
): IdentityConfig['proxyHeaders'] | undefined {
  const map = readFields(located, ['user', 'plan', 'priority'])
  if (map === undefined) return undefined
  if (map.node.entries.size === 0) {
    return reportAt(located, 'empty', { accepted: 'user, plan or priority; no key for none' })
  }
  return {
    user: readOptional(map, 'user', (field) => headers.read(field)),
    plan: readOptional(map, 'plan', (field) => headers.read(field)),
    priority: readOptional(map, 'priority', (field) => headers.read(field)),
  }
}

function readAttributes(
  located: Located,
  headers: HeaderNames,
  reserved: readonly string[],
): readonly HeaderAttribute[] | undefined {
  const accepted = 'a map of attributes to headers, such as { tenant: x-tenant-id }'
  const map = readAnyMap(hideLongText(located), accepted)
  if (map === undefined || !isWithin(located, map.node.entries.size, HEADERS)) return undefined
  const attributes: HeaderAttribute[] = []
  for (const entry of map.node.entries.values()) {
    const field = locateEntry(map, entry)
    const { at, key } = entry
    if (reserved.includes(key)) {
      const others = `another name than ${reserved.join(', ')}`
      reportAt(field, 'reserved-attribute', { at, found: `"${key}"`, accepted: others })
    } else if (isAttributeName(field, key, at)) {
      const header = readAttributeHeader(field, headers)
      if (header !== undefined) attributes.push({ attribute: key, ...header })
    }
  }
  return attributes
}

function readAttributeHeader(
  located: Located,
  headers: HeaderNames,
): Omit<HeaderAttribute, 'attribute'> | undefined {
  const read = (field: Located) => headers.read(field)
  if (located.node.kind !== 'map') {
    const header = read(located)
    return header === undefined ? undefined : { header, open: false }
  }
  const map = readFields(located, ['header', 'open'])
  if (map === undefined) return undefined
  const accepted = 'the header that the attribute is read from, such as x-tenant-id'
  const header = readRequired(map, 'header', { accepted, read })
  const open = readExplicit(map, 'open', readBoolean)
  if (header === undefined) return undefined
  if (open?.value === true && isCredential(header)) {
    const why = `who sees the ${header} of a caller can be that caller`
    reportAt(open.located, 'bad-value', { accepted: `false; ${why}` })
  }
  return { header, open: open?.value ?? false }
}
