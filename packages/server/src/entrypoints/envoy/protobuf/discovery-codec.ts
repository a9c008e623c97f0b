/** Writes the request and reads the response of envoy.service.discovery.v3, as protobuf. */
import type { JsonObject } from '../../../lib/json-map.js'
import { GRPC_CODES } from '../grpc-error.js'
import { BYTES, ProtoError, ProtoReader } from './proto-reader.js'
import { ProtoWriter } from './proto-writer.js'
import { writeStruct } from './struct-codec.js'

export interface DiscoveryNode {
  /** By which the control plane chooses what it sends. */
  readonly id: string
  readonly metadata: JsonObject
}

export interface DiscoveryRequest {
  /** The version that is active; empty: none. */
  readonly versionInfo: string
  readonly node: DiscoveryNode
  readonly typeUrl: string
  /** The nonce of the response that this request answers; empty: the first of a stream. */
  readonly responseNonce: string
  /** Why that response was refused; undefined: it was accepted. */
  readonly problem: string | undefined
}

/** A `google.protobuf.Any`. */
export interface DiscoveryResource {
  readonly typeUrl: string
  readonly value: Uint8Array
}

export interface DiscoveryResponse {
  readonly versionInfo: string
  readonly resources: readonly DiscoveryResource[]
  readonly typeUrl: string
  readonly nonce: string
}

/** Each is a domain, or a part of one. A fleet of gateways has one for each listener. */
const RESOURCES_MAX = 10_000
const USER_AGENT = 'sluice'

const RESPONSE_VERSION = 8 + BYTES
const RESPONSE_RESOURCES = 2 * 8 + BYTES
const RESPONSE_TYPE_URL = 4 * 8 + BYTES
const RESPONSE_NONCE = 5 * 8 + BYTES
const ANY_TYPE_URL = 8 + BYTES
const ANY_VALUE = 2 * 8 + BYTES

/** Without names of resources a request asks for all of its type. */
export function encodeDiscoveryRequest(request: DiscoveryRequest): Buffer {
  const { versionInfo, node, typeUrl, responseNonce, problem } = request
  const writer = new ProtoWriter()
  writer.string(1, versionInfo)
  const nodeBegun = writer.begin(2)
  writer.string(1, node.id)
  if (Object.keys(node.metadata).length > 0) {
    const metadata = writer.begin(3)
    writeStruct(writer, node.metadata)
    writer.end(metadata)
  }
  writer.string(6, USER_AGENT)
  writer.end(nodeBegun)
  writer.string(4, typeUrl)
  writer.string(5, responseNonce)
  if (problem !== undefined) {
    const status = writer.begin(6)
    writer.uint32(1, GRPC_CODES.invalidArgument)
    writer.string(2, problem)
    writer.end(status)
  }
  return writer.finish()
}

/** Throws a ProtoError for bytes that are no response. Values of resources are not copied. */
export function decodeDiscoveryResponse(message: Uint8Array): DiscoveryResponse {
  const reader = new ProtoReader(message)
  const resources: DiscoveryResource[] = []
  let versionInfo = ''
  let typeUrl = ''
  let nonce = ''
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag === RESPONSE_VERSION) versionInfo = reader.string()
    else if (tag === RESPONSE_RESOURCES) {
      if (resources.length === RESOURCES_MAX) {
        throw new ProtoError(`more than ${RESOURCES_MAX} resources`)
      }
      resources.push(readResource(reader))
    } else if (tag === RESPONSE_TYPE_URL) typeUrl = reader.string()
    else if (tag === RESPONSE_NONCE) nonce = reader.string()
    else reader.skip(tag)
  }
  return { versionInfo, resources, typeUrl, nonce }
}

function readResource(reader: ProtoReader): DiscoveryResource {
  const outer = reader.enter()
  let typeUrl = ''
  let value: Uint8Array = new Uint8Array(0)
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag === ANY_TYPE_URL) typeUrl = reader.string()
    else if (tag === ANY_VALUE) value = reader.bytes()
    else reader.skip(tag)
  }
  reader.leave(outer)
  return { typeUrl, value }
}
