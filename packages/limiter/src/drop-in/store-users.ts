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

/** The same store, whose `close` closes it only with its last user. */
export function releasable(store: Store): Store {
  return {
    take: (groups, options) => store.take(groups, options),
    peek: (groups, options) => store.peek(groups, options),
    give: (give) => store.give(give),
    charge: (charge) => store.charge(charge),
    reset: (key) => store.reset(key),
    close: () => releaseStore(store),
    sync: store.sync,
    remote: store.remote,
  }
}
