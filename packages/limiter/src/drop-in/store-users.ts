/**
 * Closes a store with the last drop-in store that uses it: several limiters of a host library may
 * share one connection to Redis, and each of them ends on its own.
 */
import type { Store } from '../store.js'

const users = new WeakMap<Store, number>()

export function acquireStore(store: Store): void {
  users.set(store, (users.get(store) ?? 0) + 1)
}

export async function releaseStore(store: Store): Promise<void> {
  const left = (users.get(store) ?? 1) - 1
  users.set(store, left)
  if (left === 0) await store.close()
}
