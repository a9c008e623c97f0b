import { type Address, parseAddress } from '@sluice/core'

/** Whether a host can only be this machine. A name other than localhost could be anything. */
export function isLoopback(host: string): boolean {
  if (host === 'localhost') return true
  const address = parseAddress(host)
  return address !== undefined && isLoopbackAddress(address)
}

export function isLoopbackAddress({ version, a, b, c, d }: Address): boolean {
  return version === 4 ? d >>> 24 === 127 : a === 0 && b === 0 && c === 0 && d === 1
}
