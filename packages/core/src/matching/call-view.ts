/**
 * Normalizes the attributes of a call for matching: the path folded, the method in upper case, the
 * address by its bits.
 */
import { type Attributes, CANONICAL_PATH, readAttribute } from '../call.js'
import { SluiceError, show } from '../errors.js'
import { type Address, canonicalIp, groupAddress, parseAddress } from '../identity/address.js'
import { canonicalPath, foldPath } from '../path.js'
import type { Priority } from './classify.js'
import type { Snapshot } from './compiled.js'

export interface NormalizedCall {
  readonly attributes: Attributes
  readonly method: string | undefined
  /** The canonical path without its query, folded unless paths are strict. */
  readonly path: string | undefined
  readonly address: Address | undefined
  /** The address that is counted: an IPv6 address by its network. */
  readonly ip: string | undefined
  /** The route of method and path, unless the call names its own. */
  readonly route: string | undefined
  /** Undefined if the set has no priorities, or the call could not be classified. */
  readonly priority: Priority | undefined
}

export function normalizeCall(snapshot: Snapshot, attributes: Attributes): NormalizedCall {
  const { needs } = snapshot
  const method = needs.method ? readAttribute(attributes, 'method')?.toUpperCase() : undefined
  const path = needs.path ? readPath(snapshot, attributes) : undefined
  const ip = needs.ip ? readIp(attributes, snapshot.ipv6Prefix) : NO_IP
  const route = path !== undefined && needs.route ? snapshot.routeOf(method, path) : undefined
  const view = new CallView(attributes, method, path, ip.address, ip.text, route)
  if (snapshot.classifier !== undefined) view.priority = snapshot.classifier.classify(view)
  return view
}

/** A class, not an object literal, because it lives while a call waits: see sip-hash.ts. */
class CallView implements NormalizedCall {
  readonly attributes: Attributes
  readonly method: string | undefined
  readonly path: string | undefined
  readonly address: Address | undefined
  readonly ip: string | undefined
  readonly route: string | undefined
  priority: Priority | undefined

  constructor(
    attributes: Attributes,
    method: string | undefined,
    path: string | undefined,
    address: Address | undefined,
    ip: string | undefined,
    route: string | undefined,
  ) {
    this.attributes = attributes
    this.method = method
    this.path = path
    this.address = address
    this.ip = ip
    this.route = route
    this.priority = undefined
  }
}

/**
 * Returns the normalized value of an attribute: an address by its network, a path folded, a route
 * resolved.
 */
export function readNormalized(call: NormalizedCall, name: string): string | undefined {
  switch (name) {
    case 'ip':
      return call.ip
    case 'path':
      return call.path
    case 'method':
      return call.method
    case 'route':
      return readAttribute(call.attributes, 'route') ?? call.route
    case 'priority':
      return call.priority?.name ?? readAttribute(call.attributes, 'priority')
    default:
      return readAttribute(call.attributes, name)
  }
}

function readPath(snapshot: Snapshot, attributes: Attributes): string | undefined {
  const raw = readAttribute(attributes, 'path')
  if (raw === undefined) return undefined
  if (attributes[CANONICAL_PATH] === raw) return snapshot.strictPaths ? raw : foldPath(raw)
  const canonical = canonicalPath(raw)
  if (!canonical.ok) {
    if (!snapshot.needs.goodPath) return undefined
    throw new SluiceError('CALL_PATH_INVALID', `path ${show(raw)}: ${canonical.reason}`)
  }
  return snapshot.strictPaths ? canonical.path : foldPath(canonical.path)
}

interface Ip {
  readonly address: Address | undefined
  readonly text: string | undefined
}

const NO_IP: Ip = { address: undefined, text: undefined }

/** Reads an address, or an IPv6 network that is already grouped. */
function readIp(attributes: Attributes, ipv6Prefix: number): Ip {
  const text = readAttribute(attributes, 'ip')
  if (text === undefined) return NO_IP
  const address = parseAddress(text)
  if (address !== undefined) return { address, text: groupAddress(address, ipv6Prefix) }
  const grouped = canonicalIp(text, ipv6Prefix)
  // Invalid text still identifies a caller: sending nonsense must not bypass the count.
  if (grouped === undefined) return { address: undefined, text }
  return { address: parseAddress(grouped.slice(0, grouped.indexOf('/'))), text: grouped }
}
