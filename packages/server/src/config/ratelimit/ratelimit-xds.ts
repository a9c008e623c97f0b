/** Reads the variables of envoyproxy/ratelimit for a control plane. */
import type { ClientTlsFiles, XdsConfig } from '../config.js'
import {
  BACKOFF_DEFAULT,
  MESSAGE_BYTES,
  MESSAGE_BYTES_DEFAULT,
  NODE_ID_LENGTH_MAX,
  readServer,
} from '../parse-xds.js'
import { readName } from '../values.js'
import { requirePair } from './ratelimit-redis.js'
import type { RatelimitVariables } from './ratelimit-variables.js'

const SERVER = 'localhost:18000'
const NODE_ID = 'default'
/** Names are resolved by DNS in any case. */
const DNS_SCHEME = /^dns:(?:\/\/\/)?(?=.*:)/
const PAUSE = { leastMs: 10, mostMs: 3_600_000 }
const PAIRS_MAX = 100
/** What gRPC accepts as the name of a header with text. */
const HEADER_NAME = /^[a-z0-9_.-]{1,256}$(?<!-bin)/
/** Visible characters and spaces. */
const HEADER_VALUE = /^[ -~]*$/
const CERT = 'CONFIG_GRPC_XDS_CLIENT_TLS_CERT'
const KEY = 'CONFIG_GRPC_XDS_CLIENT_TLS_KEY'

export function readRatelimitXds(variables: RatelimitVariables): XdsConfig | undefined {
  const name = 'CONFIG_GRPC_XDS_SERVER_URL'
  const target = (variables.text(name) ?? SERVER).replace(DNS_SCHEME, '')
  const server = readServer(variables.locate(name, target))
  const nodeId = variables.read('CONFIG_GRPC_XDS_NODE_ID', (located) =>
    readName(located, 'the id of this node', NODE_ID_LENGTH_MAX),
  )
  const others = {
    nodeId: nodeId ?? NODE_ID,
    nodeMetadata: readMetadata(variables),
    headers: readHeaders(variables),
    tls: readTls(variables),
    maxMessageBytes: readMessageBytes(variables),
    backoff: readBackoff(variables),
  }
  return server && { server, ...others }
}

function readTls(variables: RatelimitVariables): ClientTlsFiles | undefined {
  if (!variables.boolean('CONFIG_GRPC_XDS_SERVER_USE_TLS')) return undefined
  requirePair(variables, CERT, KEY)
  return {
    ca: variables.file('CONFIG_GRPC_XDS_SERVER_TLS_CACERT'),
    cert: variables.file(CERT),
    key: variables.file(KEY),
    servername: variables.text('CONFIG_GRPC_XDS_SERVER_TLS_SAN'),
  }
}

/** `key=value,key=value` */
function readMetadata(variables: RatelimitVariables): ReadonlyMap<string, string> {
  const name = 'CONFIG_GRPC_XDS_NODE_METADATA'
  const pairs = pairsOf(variables.text(name), '=')
  if (pairs !== undefined) return new Map(pairs)
  variables.refuse(name, `up to ${PAIRS_MAX} pairs such as zone=a,cluster=b`)
  return new Map()
}

/** `name:value,name:value`, which may be secret. */
function readHeaders(variables: RatelimitVariables): ReadonlyMap<string, string> {
  const name = 'CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS'
  const pairs = pairsOf(variables.text(name), ':')?.map(
    ([key, value]) => [key.toLowerCase(), value] as const,
  )
  const isGood = pairs?.every(([key, value]) => HEADER_NAME.test(key) && HEADER_VALUE.test(value))
  if (pairs !== undefined && isGood === true) return new Map(pairs)
  variables.refuseSecret(name, `up to ${PAIRS_MAX} headers such as name:value,other:value`)
  return new Map()
}

/** Undefined if a part is no pair. */
function pairsOf(
  text: string | undefined,
  separator: string,
): readonly (readonly [string, string])[] | undefined {
  const parts = (text ?? '').split(',').filter((part) => part.trim() !== '')
  if (parts.length > PAIRS_MAX) return undefined
  const pairs = parts.flatMap((part) => {
    const at = part.indexOf(separator)
    return at <= 0 ? [] : [[part.slice(0, at).trim(), part.slice(at + 1)] as const]
  })
  return pairs.length === parts.length ? pairs : undefined
}

/** 0 means the default. */
function readMessageBytes(variables: RatelimitVariables): number {
  const name = 'XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES'
  if (variables.text(name) === '0') return MESSAGE_BYTES_DEFAULT
  return variables.integer(name, MESSAGE_BYTES) ?? MESSAGE_BYTES_DEFAULT
}

function readBackoff(variables: RatelimitVariables): XdsConfig['backoff'] {
  const read = (name: string) => variables.durationMs(name, PAUSE)
  const firstMs = read('XDS_CLIENT_BACKOFF_INITIAL_INTERVAL') ?? BACKOFF_DEFAULT.firstMs
  const mostMs = read('XDS_CLIENT_BACKOFF_MAX_INTERVAL') ?? BACKOFF_DEFAULT.mostMs
  return { firstMs: Math.min(firstMs, mostMs), mostMs }
}
