/** Parses the URL of a Redis. No message shows a password. */
import { show, SluiceError } from '@sluice/core'

export interface RedisAddress {
  /** A name or an IP address, IPv6 without brackets. */
  readonly host: string
  readonly port: number
}

interface RedisUser {
  readonly username: string | undefined
  readonly password: string
}

export interface RedisTarget {
  readonly topology: 'standalone' | 'sentinel' | 'cluster'
  readonly tls: boolean
  /** The node itself, some nodes of the Cluster, or the sentinels. */
  readonly addresses: readonly RedisAddress[]
  /** The name of the primary in Sentinel; empty without sentinels. */
  readonly name: string
  /**
   * The user of the nodes, and of sentinels that require a password and have no user of their own.
   */
  readonly username: string | undefined
  readonly password: string | undefined
  /** The user of the sentinels, if it is not that of the nodes. */
  readonly sentinel?: RedisUser | undefined
  readonly db: number
}

const ACCEPTED =
  'redis://[user:password@]host[:port][/db], redis+cluster://[user:password@]host[:port],... or ' +
  'redis+sentinel://[user:password@]host[:port],.../name[/db][?sentinelUser=...&' +
  'sentinelPassword=...], with rediss for TLS; ' +
  'valkey and valkeys mean the same'

const NODE_PORT = 6379
const SENTINEL_PORT = 26_379
const PORT_MAX = 65_535
const DB_MAX = 65_535
const ADDRESSES_MAX = 64
const URL_LENGTH_MAX = 4096
const HOST_LENGTH_MAX = 253
const SHOWN_LENGTH_MAX = 128

const WHOLE = /^([a-z+]+):\/\/(?:([^/]*)@)?([^/]*)((?:\/.*)?)$/is
const SCHEME = /^(?:redis|valkey)(s?)(?:\+(cluster|sentinel))?$/
// Names in Compose and Kubernetes may have underscores.
const HOST = /^(?:[a-z0-9_-]+\.)*[a-z0-9_-]+\.?$/i
const IPV6 = /^(?=.*:.*:)[0-9a-f:.]+(?:%[a-z0-9._-]+)?$/i
const NAME = /^[a-z0-9._-]+$/i
const NUMBER = /^\d{1,5}$/

/** Throws OPTION_INVALID, with `place` in front, if the text has none of the accepted forms. */
export function parseRedisUrl(url: string, place = 'url'): RedisTarget {
  const refuse = (why: string) => {
    const message = `${place}: found ${shownUrl(url)}, ${why}; accepted: ${ACCEPTED}`
    return new SluiceError('OPTION_INVALID', message)
  }
  // Callers without types get a message instead of a TypeError.
  if (typeof url !== 'string') throw refuse('which is not a string')
  if (url.length > URL_LENGTH_MAX) throw refuse(`which is longer than ${URL_LENGTH_MAX} characters`)
  const { plain, parameters } = readParameters(url, refuse)
  const [, scheme = '', userinfo, hosts = '', path = ''] = WHOLE.exec(plain) ?? []
  if (scheme === '') throw refuse('which is no URL')
  if (path.includes('@')) throw refuse('where a / stands in front of the @ (in a password: %2F)')
  const [known, secure, kind] = SCHEME.exec(scheme.toLowerCase()) ?? []
  if (known === undefined) throw refuse('which has another scheme')
  const topology = kind === 'cluster' || kind === 'sentinel' ? kind : 'standalone'
  if (parameters !== undefined && topology !== 'sentinel') throw refuse(NO_PARAMETERS)
  const addresses = readHosts(hosts, topology, refuse)
  return {
    topology,
    tls: secure === 's',
    addresses,
    ...readPath(path, topology, refuse),
    ...readUser(userinfo, refuse),
    ...(parameters !== undefined && { sentinel: readSentinelUser(parameters, refuse) }),
  }
}

const NO_PARAMETERS = 'which has parameters (? and # in a password are %3F and %23)'

interface UrlParts {
  readonly plain: string
  readonly parameters: string | undefined
}

/** Only after everything else: a ? in a password is a mistake and starts no parameters. */
function readParameters(url: string, refuse: Refuse): UrlParts {
  const at = url.indexOf('?')
  const parameters = at === -1 ? undefined : url.slice(at + 1)
  if (/#/.test(url) || (parameters !== undefined && /[@?/]/.test(parameters))) {
    throw refuse(NO_PARAMETERS)
  }
  return { plain: at === -1 ? url : url.slice(0, at), parameters }
}

/** Reads `sentinelUser=...&sentinelPassword=...`. A + is a +, as in the password of the nodes. */
function readSentinelUser(parameters: string, refuse: Refuse): RedisUser {
  const found = new Map<string, string>()
  for (const pair of parameters.split('&')) {
    const [name = '', ...rest] = pair.split('=')
    const isKnown = name === 'sentinelUser' || name === 'sentinelPassword'
    if (!isKnown || found.has(name) || rest.length !== 1 || rest[0] === '') {
      throw refuse('where parameters are not sentinelUser and sentinelPassword, each once')
    }
    found.set(name, decodePart(rest[0] ?? '', 'behind the ?', refuse))
  }
  const password = found.get('sentinelPassword')
  if (password === undefined) throw refuse('where sentinelUser has no sentinelPassword beside it')
  return { username: found.get('sentinelUser'), password }
}

function decodePart(text: string, where: string, refuse: Refuse): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw refuse(`where a % ${where} is not followed by two hexadecimal digits`)
  }
}

type Refuse = (why: string) => SluiceError
type Topology = RedisTarget['topology']

function readHosts(hosts: string, topology: Topology, refuse: Refuse): readonly RedisAddress[] {
  const texts = hosts.split(',')
  if (topology === 'standalone' && texts.length > 1) {
    throw refuse('which has several hosts, but neither +cluster nor +sentinel')
  }
  if (texts.length > ADDRESSES_MAX) throw refuse(`which has more than ${ADDRESSES_MAX} hosts`)
  const port = topology === 'sentinel' ? SENTINEL_PORT : NODE_PORT
  return texts.map((text) => {
    const address = readAddress(text, port)
    if (address === undefined)
      throw refuse(`where ${ordinal(texts, text)} is not host or host:port`)
    return address
  })
}

/** The text may be the rest of a password with a `/` in it, so its position is shown instead. */
function ordinal(texts: readonly string[], text: string): string {
  return texts.length === 1 ? 'the host' : `host ${texts.indexOf(text) + 1} of ${texts.length}`
}

function readAddress(text: string, defaultPort: number): RedisAddress | undefined {
  const [, bracketed, plain, port] = /^(?:\[([^\]]*)\]|([^:[\]]*))(?::(.*))?$/.exec(text) ?? []
  // The zone of a link-local address follows a %, which in a URL is %25.
  const host = bracketed?.replace('%25', '%') ?? plain ?? ''
  if (!(bracketed === undefined ? isName(host) : IPV6.test(host))) return undefined
  if (port === undefined) return { host, port: defaultPort }
  return isPort(port) ? { host, port: Number(port) } : undefined
}

const isName = (host: string) => host.length <= HOST_LENGTH_MAX && HOST.test(host)
const isPort = (text: string) => NUMBER.test(text) && Number(text) >= 1 && Number(text) <= PORT_MAX

function readPath(path: string, topology: Topology, refuse: Refuse): { name: string; db: number } {
  const steps = path.replace(/\/$/, '').split('/').slice(1)
  const name = topology === 'sentinel' ? (steps.shift() ?? '') : ''
  if (topology === 'sentinel' && !NAME.test(name)) {
    throw refuse('which lacks the name that the sentinels know the primary by')
  }
  const [db = '0', ...rest] = steps
  if (rest.length > 0 || !NUMBER.test(db) || Number(db) > DB_MAX) {
    throw refuse(`where what follows the last / is not a database from 0 to ${DB_MAX}`)
  }
  if (topology === 'cluster' && Number(db) !== 0) {
    throw refuse('but a Cluster has no databases beside 0')
  }
  return { name, db: Number(db) }
}

type User = Pick<RedisTarget, 'username' | 'password'>

function readUser(userinfo: string | undefined, refuse: Refuse): User {
  if (userinfo === undefined) return { username: undefined, password: undefined }
  const colon = userinfo.indexOf(':')
  const [user, password] =
    colon === -1 ? [userinfo, ''] : [userinfo.slice(0, colon), userinfo.slice(colon + 1)]
  if (password === '') throw refuse('where there is no password in front of the @')
  const decode = (text: string) => decodePart(text, 'in front of the @', refuse)
  return { username: user === '' ? undefined : decode(user), password: decode(password) }
}

/**
 * Hides what may be a password: everything up to the last @, an invalid port, and parameters. A
 * text that is not a URL is hidden completely.
 */
function shownUrl(url: unknown): string {
  if (typeof url !== 'string') return show(url)
  const [, scheme, rest = ''] = /^([a-z+]{1,32}:\/\/)(.*)$/is.exec(url) ?? []
  if (scheme === undefined) return url === '' ? 'an empty text' : 'a text without ://'
  const at = rest.lastIndexOf('@')
  const [hosts = ''] = rest.slice(at + 1).split(/[?#]/)
  const tail = hosts.replace(/:(?!\d{1,5}(?:[,/]|$))[^,/[\]:]+/g, ':***')
  const parameters = /[?#]/.test(rest) ? '?***' : ''
  return show(`${scheme}${at === -1 ? '' : '***@'}${tail}${parameters}`, SHOWN_LENGTH_MAX)
}

/** Everything but the password, for logs. */
export function describeTarget(target: RedisTarget): string {
  const { topology, tls, addresses, name, username, password, db } = target
  const scheme = `redis${tls ? 's' : ''}${topology === 'standalone' ? '' : `+${topology}`}`
  const user = password === undefined ? '' : `${encodeURIComponent(username ?? '')}:***@`
  const hosts = addresses.map(formatAddress).join(',')
  const path = `${name === '' ? '' : `/${name}`}${db === 0 ? '' : `/${db}`}`
  return `${scheme}://${user}${hosts}${path}`
}

/** `host:port`, with IPv6 in brackets; a peer without a port is only named. */
export function formatAddress({ host, port }: RedisAddress): string {
  if (port === 0) return host
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

/**
 * Parses `host:port` as a server writes it, IPv6 with or without brackets; undefined if invalid.
 */
export function parseAddress(text: string): RedisAddress | undefined {
  const colon = text.lastIndexOf(':')
  const [host, port] = [text.slice(0, Math.max(colon, 0)), text.slice(colon + 1)]
  const bare = host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host
  if (!isPort(port) || !(isName(bare) || IPV6.test(bare))) return undefined
  return { host: bare, port: Number(port) }
}
