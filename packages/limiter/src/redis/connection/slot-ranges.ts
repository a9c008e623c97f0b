import type { RedisReply } from './driver.js'
import { SLOT_COUNT } from '../request/partitions.js'
import { parseAddress, type RedisAddress } from './redis-target.js'

/** Consecutive slots and the primary that serves them. */
export interface SlotRange {
  readonly first: number
  readonly last: number
  readonly primary: RedisAddress
}

/**
 * Reads a reply to CLUSTER SLOTS; undefined if it is something else. A node that does not know its
 * own host leaves it empty and means the queried host. Ranges whose primary has no usable
 * address are left out, because no node is known to serve them.
 */
export function readSlotRanges(
  reply: RedisReply | Error,
  askedHost: string,
): readonly SlotRange[] | undefined {
  if (!Array.isArray(reply)) return undefined
  const ranges: SlotRange[] = []
  for (const item of reply as readonly RedisReply[]) {
    if (!Array.isArray(item)) return undefined
    const [first, last, node] = item as readonly RedisReply[]
    if (!isSlot(first) || !isSlot(last) || first > last || !Array.isArray(node)) return undefined
    const primary = readNode(node, askedHost)
    if (primary !== undefined) ranges.push({ first, last, primary })
  }
  return ranges
}

function isSlot(value: RedisReply | undefined): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < SLOT_COUNT
}

function readNode(node: readonly RedisReply[], askedHost: string): RedisAddress | undefined {
  const [host, port] = node
  const named = Buffer.isBuffer(host) ? host.toString() : ''
  return parseAddress(`${named === '' ? askedHost : named}:${String(port)}`)
}
