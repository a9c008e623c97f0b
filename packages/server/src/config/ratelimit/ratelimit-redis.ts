/** Reads the variables `REDIS_*` of envoyproxy/ratelimit as the URL and the settings of a Redis. */
import type { ClientTlsFiles } from '../config.js'
import { readRedisUrl } from '../redis-url.js'
import type { RatelimitVariables } from './ratelimit-variables.js'

export interface RatelimitRedis {
  readonly url: string
  readonly tls: ClientTlsFiles | undefined
}

const ACCEPTED_URL =
  'host:port of Redis; without it each process would count for itself, which BACKEND_TYPE=memory ' +
  'says explicitly'
const ACCEPTED_SOCKET = 'tcp; a Unix socket is not supported'
const ACCEPTED_SENTINEL =
  'the name of the primary and the sentinels, such as mymaster,sentinel-0:26379,sentinel-1:26379'
/** A URL instead of an address, which the program accepts too. */
const SCHEME = /^rediss?:\/\//i

/** Undefined if a variable is missing or wrong, which is reported. */
export function readRatelimitRedis(variables: RatelimitVariables): RatelimitRedis | undefined {
  const address = variables.text('REDIS_URL')
  const type = variables.choice('REDIS_TYPE', ['single', 'sentinel', 'cluster'])
  if (address === undefined) return variables.missing('REDIS_URL', ACCEPTED_URL)
  variables.choice('REDIS_SOCKET_TYPE', ['tcp'], ACCEPTED_SOCKET)
  if (address.startsWith('/')) return variables.refuseSecret('REDIS_URL', ACCEPTED_URL)
  if (variables.boolean('REDIS_TLS_SKIP_HOSTNAME_VERIFICATION')) {
    const accepted = 'false; a certificate with another name than that of the host is not accepted'
    return variables.refuse('REDIS_TLS_SKIP_HOSTNAME_VERIFICATION', accepted)
  }
  const isTls = variables.boolean('REDIS_TLS')
  const text = type && urlOf(variables, { address, type, isTls })
  if (text === undefined) return undefined
  const url = readRedisUrl(variables.locate('REDIS_URL', text))
  if (url === undefined) return undefined
  return { url, tls: isTls || /^rediss/i.test(url) ? readTls(variables) : undefined }
}

interface RedisParts {
  readonly address: string
  readonly type: 'single' | 'sentinel' | 'cluster'
  readonly isTls: boolean
}

function urlOf(variables: RatelimitVariables, { address, type, isTls }: RedisParts) {
  const auth = userinfoOf(variables.text('REDIS_AUTH'))
  if (type === 'single' && SCHEME.test(address)) {
    const secure = isTls ? address.replace(/^redis:/i, 'rediss:') : address
    return address.includes('@') ? secure : secure.replace('://', `://${auth}`)
  }
  const scheme = isTls ? 'rediss' : 'redis'
  if (type === 'single') return `${scheme}://${auth}${address}`
  if (type === 'cluster') return `${scheme}+cluster://${auth}${address}`
  const [name = '', ...sentinels] = address.split(',')
  if (sentinels.length === 0) return variables.refuseSecret('REDIS_URL', ACCEPTED_SENTINEL)
  const parameters = sentinelParametersOf(variables.text('REDIS_SENTINEL_AUTH'))
  return `${scheme}+sentinel://${auth}${sentinels.join(',')}/${name}${parameters}`
}

/** `password`, or `user:password`. */
function userOf(auth: string): { readonly user: string; readonly password: string } {
  const colon = auth.indexOf(':')
  const [user, password] = colon === -1 ? ['', auth] : [auth.slice(0, colon), auth.slice(colon + 1)]
  return { user: encodeURIComponent(user), password: encodeURIComponent(password) }
}

function userinfoOf(auth: string | undefined): string {
  if (auth === undefined) return ''
  const { user, password } = userOf(auth)
  return `${user}:${password}@`
}

function sentinelParametersOf(auth: string | undefined): string {
  if (auth === undefined) return ''
  const { user, password } = userOf(auth)
  const named = user === '' ? '' : `sentinelUser=${user}&`
  return `?${named}sentinelPassword=${password}`
}

function readTls(variables: RatelimitVariables): ClientTlsFiles | undefined {
  const files = {
    ca: variables.file('REDIS_TLS_CACERT'),
    cert: variables.file('REDIS_TLS_CLIENT_CERT'),
    key: variables.file('REDIS_TLS_CLIENT_KEY'),
  }
  requirePair(variables, 'REDIS_TLS_CLIENT_CERT', 'REDIS_TLS_CLIENT_KEY')
  if (Object.values(files).every((file) => file === undefined)) return undefined
  return { ...files, servername: undefined }
}

/** Reports a certificate without its key, or a key without its certificate. */
export function requirePair(variables: RatelimitVariables, cert: string, key: string): void {
  for (const [one, other] of [
    [cert, key],
    [key, cert],
  ] as const) {
    if (!variables.has(one) || variables.has(other)) continue
    variables.missing(other, 'the name of a PEM file; a certificate needs both cert and key')
  }
}
