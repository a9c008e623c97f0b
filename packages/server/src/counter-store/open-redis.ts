/**
 * Opens the counter store in Redis. The node starts even if Redis is down: every rule then decides
 * by its posture (what it does when the store does not answer). Only the key hash secret is
 * indispensable, so a copy is kept in the data directory.
 */
import { show, SluiceError } from '@sluice/core'
import type { Limiter } from '@sluice/limiter'
import { describeTarget, parseRedisUrl, type RedisStore, redisStore } from '@sluice/limiter/redis'
import type { Config, RedisConfig } from '../config/config.js'
import { readPem } from '../lib/read-pem.js'
import { saveRedisSecret, readLastRedisSecret } from '../startup/stored-secrets.js'
import type { Log } from '../observability/log/logger.js'
import { messageOf } from '../lib/message-of.js'
import type { CounterStore } from './open-store.js'
import { StoreOutageTimes } from './store-outage-times.js'
import { registerStoreMetrics } from './store-metrics.js'
import { observeStore } from './store-events.js'
import type { StoreDeps } from './store-observer.js'

/** How long the start waits for Redis. */
const START_MS_MAX = 10_000
const POLL_EVERY_MS = 1000
const PROBLEM_SHOWN_MAX = 250

type WithRedis = Pick<Config, 'dataDir' | 'keySecret'> & { readonly redis: RedisConfig }

export async function openRedis(config: WithRedis, deps: StoreDeps): Promise<CounterStore> {
  const { log, clock, registry } = deps
  const { dataDir, keySecret } = config
  const { url, tls, ...options } = config.redis
  const lastSecret = keySecret === undefined ? readLastRedisSecret(dataDir, log) : undefined
  const events = observeStore(deps, options.deadlineMs)
  const store = redisStore({
    ...options,
    url,
    tls: tls && { ...(await readPem(tls)), servername: tls.servername },
    secret: keySecret,
    lastSecret,
    observer: events.observer,
  })
  const name = describeTarget(parseRedisUrl(url))
  registerStoreMetrics(registry, { health: () => store.health(), name })
  const outageTimes = new StoreOutageTimes(() => store.stats(), clock)
  const known = keySecret ?? lastSecret
  return {
    store,
    secret: await secretOf(store, known, { log, name, dataDir, problem: () => events.problem() }),
    name,
    describe: () => outageTimes.describe(),
    times: events.counted.times,
    batchLatency: events.batchLatency,
    connectionFailures: () => events.failures.counts(),
    onBreakerOpened: (listener) => events.onBreakerOpened(listener),
    startMaintenance(limiter) {
      const warnOfLoss = createLossWarning(limiter, log)
      const timer = setInterval(() => {
        for (const { address } of outageTimes.poll().nodes) events.counted.register(address)
        warnOfLoss(store.health().isPersistent)
      }, POLL_EVERY_MS).unref()
      return async () => clearInterval(timer)
    },
  }
}

interface SecretDeps {
  readonly log: Log
  readonly name: string
  readonly dataDir: string
  /** The last problem of Redis, if known. */
  readonly problem: () => string
}

/** Closes the store if no secret can be had. */
async function secretOf(
  store: RedisStore,
  /** Configured, or read from Redis at the last run. */
  known: Uint8Array | undefined,
  deps: SecretDeps,
): Promise<Uint8Array> {
  const { log, name, problem } = deps
  try {
    if (await isReadyWithin(store, START_MS_MAX)) return await agreedSecret(store, known, deps)
    if (known === undefined) throw new Error(secretMissing(name, problem()))
    log.warn(
      { store: name, problem: problem() },
      'Redis is unreachable; rules use their posture until it answers',
    )
    followOnceReady(store, known, deps)
    return known
  } catch (error) {
    if (isRefusal(error) && known !== undefined) {
      log.error(
        { store: name, problem: problem() },
        'Redis refuses this node; rules use their posture until it accepts it',
      )
      followOnceReady(store, known, deps)
      return known
    }
    await store.close()
    throw isRefusal(error) ? new Error(secretRefused(name, messageOf(error))) : error
  }
}

/** The secret that Redis confirmed, saved for the next start. */
async function agreedSecret(
  { remote }: RedisStore,
  known: Uint8Array | undefined,
  { log, dataDir }: SecretDeps,
): Promise<Uint8Array> {
  const secret = await remote.secret
  if (known === undefined || !equalBytes(secret, known)) saveRedisSecret(dataDir, secret, log)
  return secret
}

function equalBytes(one: Uint8Array, other: Uint8Array): boolean {
  return Buffer.compare(one, other) === 0
}

/**
 * Whether Redis refuses this node. The store keeps trying, so a node that has the secret can start.
 */
function isRefusal(error: unknown): boolean {
  return error instanceof SluiceError && error.code === 'STORE_REFUSED'
}

function secretMissing(name: string, problem: string): string {
  return (
    `${name} could not be used within ${START_MS_MAX / 1000} s: ${problem}. It keeps the key hash ` +
    'secret, which this node has never read. Fix that, or set SLUICE_KEY_SECRET to the same value ' +
    'on all nodes'
  )
}

function secretRefused(name: string, problem: string): string {
  return (
    `${name} cannot be used: ${show(problem, PROBLEM_SHOWN_MAX)}. It keeps the key hash secret, ` +
    'which this node has never read'
  )
}

/** Rejects if Redis answers but can never be used. */
async function isReadyWithin(store: RedisStore, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, ms, false)
  })
  try {
    return await Promise.race([store.ready.then(() => true), late])
  } finally {
    clearTimeout(timer)
  }
}

/** Checks the secret when Redis answers after the start, while calls are being decided. */
function followOnceReady(store: RedisStore, inUse: Uint8Array, deps: SecretDeps): void {
  const { log } = deps
  const follow = async () => {
    // Also resolves after Redis refused this node, when `ready` has already rejected.
    await store.remote.secret
    log.info({}, 'Redis answers')
    if (equalBytes(await agreedSecret(store, inUse, deps), inUse)) return
    // Its counters would have other names than on all other nodes.
    await store.close()
    const problem = 'Redis keeps another key hash secret than this node was started with'
    log.error(
      { problem },
      'key secret differs from the one in Redis; this node uses postures until it is restarted',
    )
  }
  follow().catch((error: unknown) => {
    // The server was closed before Redis answered.
    if (error instanceof SluiceError && error.code === 'STORE_FAILED') return
    log.error({ problem: messageOf(error) }, 'Redis cannot be used; rules use their posture')
  })
}

/** Warns once whenever a rule is durable while Redis is not persistent. */
function createLossWarning(
  limiter: Limiter,
  log: Log,
): (isAppendOnly: boolean | undefined) => void {
  let isWarned = false
  return (isAppendOnly) => {
    const isLost = limiter.hasDurable && isAppendOnly === false
    if (isLost && !isWarned) {
      log.warn(
        {},
        'a rule is durable, but Redis has appendonly off: a restart of Redis loses its counters',
      )
    }
    isWarned = isLost
  }
}
