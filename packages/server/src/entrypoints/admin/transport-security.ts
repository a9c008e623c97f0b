/** Detects whether a request was encrypted on its way. */
import type { IncomingMessage } from 'node:http'
import { type Cidr, cidrContains, parseAddress } from '@sluice/core'
import { isLoopback } from '../../lib/loopback.js'

/** Whether the connection itself is TLS. */
export function isTls({ socket }: IncomingMessage): boolean {
  return 'encrypted' in socket && socket.encrypted === true
}

interface ProxyOptions {
  readonly trustedProxies: readonly Cidr[]
  readonly forwardedHeader: 'x-forwarded-for' | 'forwarded'
}

/** Whether the connection is TLS, or a trusted proxy reports that the browser's is. */
export function isClientTls(options: ProxyOptions, request: IncomingMessage): boolean {
  if (isTls(request)) return true
  const peer = parseAddress(request.socket.remoteAddress ?? '')
  if (peer === undefined) return false
  if (!options.trustedProxies.some((cidr) => cidrContains(cidr, peer))) return false
  return protoOf(options, request)?.toLowerCase() === 'https'
}

/** The entry of the nearest proxy, which is the last. */
function protoOf({ forwardedHeader }: ProxyOptions, { headers }: IncomingMessage) {
  if (forwardedHeader === 'forwarded') {
    const last = String(headers['forwarded'] ?? '')
      .split(',')
      .at(-1)
    return /(?:^|;)\s*proto="?(\w+)"?\s*(?:;|$)/i.exec(last ?? '')?.[1]
  }
  return String(headers['x-forwarded-proto'] ?? '')
    .split(',')
    .at(-1)
    ?.trim()
}

/** Whether the hostname of a URL is this machine. */
export function isLoopbackHostname(hostname: string): boolean {
  return hostname.endsWith('.localhost') || isLoopback(hostname.replace(/^\[|\]$/g, ''))
}
