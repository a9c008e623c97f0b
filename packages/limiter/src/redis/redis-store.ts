/** Counters in Redis or Valkey, shared by every node. */
import type {
  HeartbeatExchange,
  Inspector,
  NodeExchange,
  Remote,
  Store,
  StoreHealth,
} from '../store.js'
import { BatchingStore } from './batching-store.js'
import { RedisInspector } from './server/redis-inspector.js'
import { guardObserver, silentObserver, type StoreObserver } from './pipeline/redis-observer.js'
import {
  type RedisStoreSettings,
  type RedisStoreOptions,
  readRedisOptions,
} from './redis-options.js'
import { PARTITION_TAGS } from './request/partitions.js'
import { openWarmUpSession, type RedisStoreSession } from './server/warm-up-session.js'
import { RedisSession, type SessionDeps } from './server/redis-session.js'
import { healthOf, type RedisStats } from './server/redis-stats.js'
import { parseRedisUrl } from './connection/redis-target.js'
import { BatchCodec } from './protocol/batch-request.js'

export interface RedisStore extends Store {
  readonly remote: Remote
  /**
   * Resolves when the store has answered and is fit. Rejects if it never will be: an eviction
   * policy, another secret, another kind of server. Rejects too if it refuses this node, with
   * STORE_REFUSED: a wrong password, a missing right, a replica; then it is tried again all the
   * same. While it cannot be reached it waits.
   */
  readonly ready: Promise<void>
  /** Per-node status snapshots shared through Redis, for the admin API and dashboard. */
  readonly exchange: NodeExchange
  /** Heartbeats of other regions. */
  readonly heartbeatExchange: HeartbeatExchange
  health(): StoreHealth
  /** The measurements of `health` with the words of Redis. */
  stats(): RedisStats
  warmUpStore(): Store
}

/** Code that runs for the first time is slow, and warm-up is there to wait for it. */
const WARM_UP_DEADLINE_MS = 1000

/**
 * Keeps counters in Redis or Valkey, shared by every node that uses the same prefix.
 *
 * @example
 * const store = redisStore({ url: 'redis://127.0.0.1:6379', deadlineMs: 5 })
 * await store.ready
 * const limiter = createLimiter({ rules, store })
 */
export function redisStore(options: RedisStoreOptions): RedisStore {
  const read = readRedisOptions(options)
  const target = parseRedisUrl(read.url)
  return new RedisCounterStore(
    read,
    guardObserver(options.observer),
    (deps) => new RedisSession(target, read, deps),
  )
}

class RedisCounterStore extends BatchingStore<RedisStoreSession> implements RedisStore {
  readonly inspector: Inspector
  readonly #settings: RedisStoreSettings

  constructor(
    settings: RedisStoreSettings,
    observer: StoreObserver,
    openSession: (deps: SessionDeps) => RedisStoreSession,
  ) {
    const { prefix, layout } = settings
    const codec = new BatchCodec({ prefix, layout, tags: PARTITION_TAGS })
    super(settings, { observer, codec, openSession })
    this.#settings = settings
    this.inspector = new RedisInspector(
      () => (this.isClosed ? undefined : this.session.driver),
      settings,
    )
  }

  get ready(): Promise<void> {
    return this.session.ready
  }

  get exchange(): NodeExchange {
    return this.session.exchange
  }

  get heartbeatExchange(): HeartbeatExchange {
    return this.session.heartbeatExchange
  }

  stats(): RedisStats {
    return this.session.stats()
  }

  health(): StoreHealth {
    return healthOf(this.stats(), this.#settings.layout)
  }

  warmUpStore(): Store {
    const settings = { ...this.#settings, deadlineMs: WARM_UP_DEADLINE_MS }
    return new RedisCounterStore(settings, silentObserver, (deps) =>
      openWarmUpSession(this.session, deps),
    )
  }
}
