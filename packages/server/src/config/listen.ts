/** Parses listen addresses, and finds two that conflict. */
import { formatAddress, parseAddress } from '@sluice/core'
import { reportAt, readText, type Located } from '@sluice/core/config-reader'
import type { ListenAddress } from './config.js'

const LISTEN_LENGTH_MAX = 300
const PORT_MAX = 65_535
const ACCEPTED =
  'host:port such as 127.0.0.1:8080 or [::1]:8080, a port from 0 to 65535; ' +
  '0.0.0.0 and [::] are all addresses'

const LABEL = '[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?'
const NAME = new RegExp(`^${LABEL}(\\.${LABEL})*$`)
/** Some parsers read `127.1` and `0x7f.1` as addresses and others as names, so both are refused. */
const NUMERIC_END = /(^|\.)(\d+|0x[0-9a-f]*)$/

export function readListen(located: Located): ListenAddress | undefined {
  const text = readText(located, { accepted: ACCEPTED, most: LISTEN_LENGTH_MAX })
  if (text === undefined) return undefined
  return parseListen(text) ?? reportAt(located, 'bad-value', { accepted: ACCEPTED })
}

export function parseListen(text: string): ListenAddress | undefined {
  const parts = /^(?:\[([^\]]*)\]|([^:[\]]*)):(0|[1-9]\d{0,4})$/.exec(text)
  if (parts === null) return undefined
  const [, bracketed, plain = '', digits = ''] = parts
  const host = bracketed === undefined ? parseHost(plain.toLowerCase()) : parseV6(bracketed)
  const port = Number(digits)
  return host === undefined || port > PORT_MAX ? undefined : { host, port }
}

function parseHost(host: string): string | undefined {
  if (parseAddress(host) !== undefined) return host
  return NAME.test(host) && !NUMERIC_END.test(host) ? host : undefined
}

/** Returns the canonical spelling of an address. IPv4-mapped IPv6 becomes IPv4. */
function parseV6(text: string): string | undefined {
  const isV6 = text.includes(':') && !text.includes('%')
  const address = isV6 ? parseAddress(text) : undefined
  return address === undefined ? undefined : formatAddress(address)
}

export function formatListen({ host, port }: ListenAddress): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

/**
 * Whether the second listener could fail because of the first. Errs towards yes: `localhost` may be
 * 127.0.0.1 or ::1, and `::` includes IPv4.
 */
export function isClash(one: ListenAddress, other: ListenAddress): boolean {
  if (one.port !== other.port || one.port === 0) return false
  return covers(one.host, other.host) || covers(other.host, one.host)
}

function covers(host: string, other: string): boolean {
  if (host === other || host === '::') return true
  if (host === '0.0.0.0') return !other.includes(':')
  return host === 'localhost' && (other === '127.0.0.1' || other === '::1')
}
