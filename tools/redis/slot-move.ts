/** Moves a slot of a Cluster with its keys, as `redis-cli --cluster reshard` does. */
import type { RedisServer } from './server.mjs'

const KEYS_AT_ONCE = 100
const MIGRATE_MS_MAX = 5000
const SLOTS_AT_ONCE = 10

export interface SlotMove {
  readonly slot: number
  readonly from: RedisServer
  readonly to: RedisServer
  /** Moves some keys, by default all; returns how many were moved. */
  moveKeys(count?: number): Promise<number>
  /** Moves the remaining keys, and assigns the slot to its new primary. */
  finish(): Promise<void>
}

/** Starts the move: from now on the old primary answers ASK for keys that it does not have. */
export async function startSlotMove(
  slot: number,
  from: RedisServer,
  to: RedisServer,
  primaries: readonly RedisServer[],
): Promise<SlotMove> {
  const [fromId, toId] = await Promise.all([from, to].map((node) => node.cli('CLUSTER', 'MYID')))
  const setSlot = (node: RedisServer, ...how: readonly string[]) =>
    node.call('CLUSTER', 'SETSLOT', String(slot), ...how)
  // The new primary first: the old one redirects clients to it at once.
  await setSlot(to, 'IMPORTING', fromId ?? '')
  await setSlot(from, 'MIGRATING', toId ?? '')

  async function moveKeys(count = Number.POSITIVE_INFINITY): Promise<number> {
    let moved = 0
    while (moved < count) {
      const many = Math.min(KEYS_AT_ONCE, count - moved)
      const reply = await from.call('CLUSTER', 'GETKEYSINSLOT', String(slot), String(many))
      const keys = Array.isArray(reply) ? reply.map(String) : []
      if (keys.length === 0) break
      const target = [to.host, String(to.port), '', '0', String(MIGRATE_MS_MAX)]
      await from.call('MIGRATE', ...target, 'KEYS', ...keys)
      moved += keys.length
    }
    return moved
  }

  return {
    slot,
    from,
    to,
    moveKeys,
    async finish() {
      await moveKeys()
      // The new primary first again, so that the slot always has an owner.
      const others = primaries.filter((node) => node !== from && node !== to)
      for (const node of [to, from, ...others]) await setSlot(node, 'NODE', toId ?? '')
    },
  }
}

/** Moves slots, some at a time: a primary writes changes that arrive together to its disk once. */
export async function moveSlots(
  slots: readonly number[],
  from: RedisServer,
  to: RedisServer,
  primaries: readonly RedisServer[],
): Promise<void> {
  const move = async (slot: number) => (await startSlotMove(slot, from, to, primaries)).finish()
  for (let at = 0; at < slots.length; at += SLOTS_AT_ONCE) {
    await Promise.all(slots.slice(at, at + SLOTS_AT_ONCE).map(move))
  }
}
