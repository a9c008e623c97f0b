/**
 * Resolves host names for connections that the server itself opens, and refuses link-local and
 * metadata addresses. Names are checked on each connection, because they may resolve to other
 * addresses than when the configuration was read.
 */
import { lookup as dnsLookup } from 'node:dns'
import type { LookupFunction } from 'node:net'
import { isForbidden } from '../config/outbound-urls.js'

/**
 * One refused address refuses the name, even beside others: which of them would be connected to is
 * a matter of chance.
 */
export const guardedLookup: LookupFunction = (hostname, options, callback) => {
  dnsLookup(hostname, options, (error, address, family) => {
    if (error !== null) return callback(error, address, family)
    const found = typeof address === 'string' ? [address] : address.map((entry) => entry.address)
    const forbidden = found.find(isForbidden)
    if (forbidden === undefined) return callback(null, address, family)
    const message = `${hostname} resolves to ${forbidden}, a link-local or metadata address`
    callback(new Error(message), '', 0)
  })
}
