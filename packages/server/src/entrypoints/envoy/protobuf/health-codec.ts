/** The messages of grpc.health.v1. */
import { BYTES, ProtoReader } from './proto-reader.js'
import { ProtoWriter } from './proto-writer.js'

/** The numbers of the enum in a response. */
export const HEALTH = { serving: 1, notServing: 2, serviceUnknown: 3 } as const

export type Health = (typeof HEALTH)[keyof typeof HEALTH]

const SERVICE = 8 + BYTES

/** The name of the service; empty: the whole server. */
export function decodeHealthRequest(message: Uint8Array): string {
  const reader = new ProtoReader(message)
  let service = ''
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag === SERVICE) service = reader.string()
    else reader.skip(tag)
  }
  return service
}

export function encodeHealthResponse(health: Health): Buffer {
  const writer = new ProtoWriter()
  writer.start()
  writer.uint32(1, health)
  return writer.finish()
}
