/** Parses the URL of Postgres. No message shows a password. */
import { show } from '@sluice/core'
import { reportAt, nearest, type Located } from '@sluice/core/config-reader'
import { isLoopback } from '../lib/loopback.js'
import { lastPart } from './fields.js'

export interface DatabaseTarget {
  /** A name, an IP address (IPv6 without brackets), or the folder of a unix socket. */
  readonly host: string
  readonly port: number
  readonly database: string
  /** Undefined: the user that runs this process. */
  readonly user: string | undefined
  readonly password: string | undefined
  /** `verify-ca`: any certificate of a trusted authority, whatever its name. */
  readonly tls: 'off' | 'verify-ca' | 'verify-full'
  /** The files that the URL names. */
  readonly files: {
    readonly ca: string | undefined
    readonly cert: string | undefined
    readonly key: string | undefined
  }
}

const PORT = 5432
const PORT_MAX = 65_535
const URL_LENGTH_MAX = 4096
const HOST_LENGTH_MAX = 253
const SHOWN_LENGTH_MAX = 40
/** Longer names of parameters are not shown: they may be anything. */
const PARAMETER_LENGTH_MAX = 16

const PARAMETERS = ['host', 'port', 'sslmode', 'sslrootcert', 'sslcert', 'sslkey'] as const
const MODES = ['disable', 'require', 'verify-ca', 'verify-full'] as const

const ACCEPTED_DATABASE_URL =
  'postgres://[user[:password]@]host[:port]/database, or ' +
  'postgres://[user@]/database?host=/folder/of/the/socket'
const ACCEPTED_PARAMETERS = `a URL with no parameters but ${PARAMETERS.join(', ')}`
const ACCEPTED_MODES =
  'sslmode=disable, require, verify-ca or verify-full; without it TLS is verified in full, ' +
  'except on loopback; require does so too'

const WHOLE = /^postgres(?:ql)?:\/\/(?:([^/?]*)@)?([^/?@]*)(?:\/([^?]*))?(?:\?(.*))?$/is
// Compose and Kubernetes use names with underscores.
const HOST = /^(?:[a-z0-9_-]+\.)*[a-z0-9_-]+\.?$/i
const IPV6 = /^(?=.*:.*:)[0-9a-f:.]+(?:%[a-z0-9._-]+)?$/i

/** The problem of a URL. */
class BadUrl extends Error {
  readonly accepted: string

  constructor(why: string, accepted = ACCEPTED_DATABASE_URL) {
    super(why)
    this.accepted = accepted
  }
}

export function readDatabaseUrl(located: Located): string | undefined {
  const { node } = located
  if (node.kind !== 'scalar') {
    return reportAt(located, 'wrong-type', { accepted: ACCEPTED_DATABASE_URL })
  }
  if (typeof node.value !== 'string') {
    const found = 'a value that is no text, not shown'
    return reportAt(located, 'wrong-type', { found, accepted: ACCEPTED_DATABASE_URL })
  }
  try {
    readTarget(node.value)
    return node.value
  } catch (error) {
    if (!(error instanceof BadUrl)) throw error
    const found = lastPart(`${shownUrl(node.value)}, ${error.message}`)
    return reportAt(located, 'bad-value', { found, accepted: error.accepted })
  }
}

/** Throws if the text is not a Postgres URL; the message shows no password. */
export function parseDatabaseUrl(url: string): DatabaseTarget {
  try {
    return readTarget(url)
  } catch (error) {
    if (!(error instanceof BadUrl)) throw error
    const found = `found ${shownUrl(url)}, ${error.message}`
    throw new RangeError(`the URL of Postgres: ${found}; accepted: ${error.accepted}`)
  }
}

/** The address for logs and messages: `db.internal:5432/sluice`. */
export function describeDatabase({ host, port, database }: DatabaseTarget): string {
  if (isSocket(host)) return `${host}/.s.PGSQL.${port}/${database}`
  return `${host.includes(':') ? `[${host}]` : host}:${port}/${database}`
}

/** Whether the host is the folder of a unix socket. */
function isSocket(host: string): boolean {
  return host.startsWith('/')
}

function readTarget(url: string): DatabaseTarget {
  if (url.length > URL_LENGTH_MAX) throw new BadUrl(`longer than ${URL_LENGTH_MAX} letters`)
  if (/[\0-\x20#]/.test(url)) {
    throw new BadUrl('with a space or a # (in a password: %20, %23)')
  }
  const [whole, userinfo, authority = '', path = '', query] = WHOLE.exec(url) ?? []
  if (whole === undefined) throw new BadUrl(problemOf(url))
  if (path.includes('@')) throw new BadUrl('with a / in front of the @ (in a password: %2F)')
  if (query?.includes('@')) throw new BadUrl('with a ? in front of the @ (in a password: %3F)')
  const parameters = readParameters(query ?? '')
  const { host, port } = readHost(authority, parameters)
  const { user, password } = readUser(userinfo)
  const database = decode(path, 'the database') || user
  if (database === undefined) throw new BadUrl('which names no database')
  return { host, port, database, user, password, ...readTlsOf(host, parameters) }
}

function problemOf(url: string): string {
  if (!url.includes('://')) return 'which is no URL'
  return /^postgres(ql)?:/i.test(url) ? 'which cannot be read' : 'which has another scheme'
}

type Parameter = (typeof PARAMETERS)[number]
type Parameters = ReadonlyMap<Parameter, string>

function readParameters(query: string): Parameters {
  const parameters = new Map<Parameter, string>()
  for (const pair of query.split('&')) {
    if (pair === '') continue
    const [, given = '', value = ''] = /^([^=]*)=?(.*)$/s.exec(pair) ?? []
    const name = PARAMETERS.find((known) => known === given)
    if (name === undefined) throw unknownParameter(given)
    if (parameters.has(name)) throw new BadUrl(`with ${name} twice`)
    if (value === '') throw new BadUrl(`with an empty ${name}`)
    parameters.set(name, decode(value, name))
  }
  return parameters
}

function unknownParameter(name: string): BadUrl {
  const isShown = /^[a-z_]+$/i.test(name) && name.length <= PARAMETER_LENGTH_MAX
  if (!isShown) return new BadUrl('with an unknown parameter', ACCEPTED_PARAMETERS)
  const meant = nearest(name, PARAMETERS)
  const hint = meant === undefined ? '' : `; perhaps "${meant}"`
  return new BadUrl(`with unknown "${name}"${hint}`, ACCEPTED_PARAMETERS)
}

function readHost(
  authority: string,
  parameters: Parameters,
): { readonly host: string; readonly port: number } {
  if (authority.includes(',')) throw new BadUrl('with several hosts')
  const [, bracketed, plain = '', written] =
    /^(?:\[([^\]]*)\]|([^:[\]]*))(?::(.*))?$/.exec(authority) ?? []
  const named = bracketed?.replace('%25', '%') ?? decode(plain, 'the host')
  const given = parameters.get('host')
  if (given !== undefined && named !== '') throw new BadUrl('with two hosts')
  if (written !== undefined && parameters.has('port')) throw new BadUrl('with two ports')
  const host = given ?? named
  const isGood = bracketed === undefined ? isName(host) : IPV6.test(host)
  if (!isGood) throw new BadUrl('where the host is not host or host:port')
  const port = written ?? parameters.get('port') ?? String(PORT)
  if (!/^\d{1,5}$/.test(port) || Number(port) < 1 || Number(port) > PORT_MAX) {
    throw new BadUrl(`where the port is not 1 to ${PORT_MAX}`)
  }
  return { host, port: Number(port) }
}

function isName(host: string): boolean {
  if (host.length > HOST_LENGTH_MAX) return false
  return isSocket(host) || HOST.test(host)
}

function readUser(userinfo: string | undefined): Pick<DatabaseTarget, 'user' | 'password'> {
  if (userinfo === undefined) return { user: undefined, password: undefined }
  const colon = userinfo.indexOf(':')
  const [user, password] =
    colon === -1 ? [userinfo, ''] : [userinfo.slice(0, colon), userinfo.slice(colon + 1)]
  if (user === '') throw new BadUrl('where there is no user in front of the @')
  return {
    user: decode(user, 'the user'),
    password: password === '' ? undefined : decode(password, 'the password'),
  }
}

function readTlsOf(host: string, parameters: Parameters): Pick<DatabaseTarget, 'tls' | 'files'> {
  const given = parameters.get('sslmode')
  const mode = MODES.find((known) => known === given)
  if (given !== undefined && mode === undefined)
    throw new BadUrl('with that sslmode', ACCEPTED_MODES)
  const files = {
    ca: parameters.get('sslrootcert'),
    cert: parameters.get('sslcert'),
    key: parameters.get('sslkey'),
  }
  return { tls: tlsOf(host, mode, Object.values(files).some(Boolean)), files }
}

function tlsOf(
  host: string,
  mode: (typeof MODES)[number] | undefined,
  hasFiles: boolean,
): DatabaseTarget['tls'] {
  if (isSocket(host) && (hasFiles || (mode !== undefined && mode !== 'disable'))) {
    throw new BadUrl('a socket, which has no TLS', 'a URL without parameters of TLS')
  }
  if (mode === 'disable' && hasFiles) {
    throw new BadUrl('files of TLS beside disable', 'another sslmode, or no files')
  }
  if (mode === 'verify-ca') return mode
  if (mode === undefined && !hasFiles && (isSocket(host) || isLoopback(host))) return 'off'
  return mode === 'disable' ? 'off' : 'verify-full'
}

function decode(text: string, what: string): string {
  try {
    const decoded = decodeURIComponent(text)
    if (!decoded.includes('\0')) return decoded
  } catch {
    // Reported below.
  }
  throw new BadUrl(`where a % in ${what} is no character`)
}

/**
 * Hides what may be a password: everything up to the last @, the text in place of a port, and what
 * follows the host. If the text is not a URL at all, nothing is shown.
 */
function shownUrl(url: string): string {
  const [, scheme, rest = ''] = /^([a-z+]{1,16}:\/\/)(.*)$/is.exec(url) ?? []
  if (scheme === undefined) return url === '' ? 'an empty text' : 'a text without ://'
  const at = rest.lastIndexOf('@')
  const [host = ''] = rest.slice(at + 1).split(/[/?#]/)
  const isPlain = /^(?:\[[0-9a-f:.]+\]|[^:[\]]+)(?::\d{1,5})?$/i.test(host)
  const user = at === -1 ? '' : '***@'
  return show(`${scheme}${user}${isPlain ? host : '***'}`, SHOWN_LENGTH_MAX)
}
