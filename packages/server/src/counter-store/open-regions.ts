/**
 * Opens the counter store of one of several regions: its own Redis, which decides, and one in every
 * other region, to which this node reports as a guest. A region that cannot be reached delays
 * nothing.
 */
import { show } from '@sluice/core'
import { regionalStore, type Store } from '@sluice/limiter'
import { redisStore, type StoreObserver } from '@sluice/limiter/redis'
import type { Config, RedisConfig, RegionLinkConfig, RegionsConfig } from '../config/config.js'
import { readPem } from '../lib/read-pem.js'
import { createThrottle } from '../observability/log/throttle.js'
import type { CounterStore } from './open-store.js'
import { openRedis } from './open-redis.js'
import { registerRegionMetrics } from './region-metrics.js'
import type { StoreDeps } from './store-observer.js'

/** Reports keep no call waiting. */
const DEADLINE_MS = 2000
const PROBLEM_SHOWN_MAX = 1000

type WithRegions = Pick<Config, 'dataDir' | 'keySecret'> & {
  readonly redis: RedisConfig
  readonly regions: RegionsConfig
}

export async function openRegions(config: WithRegions, deps: StoreDeps): Promise<CounterStore> {
  const { regions } = config
  const own = await openRedis(config, deps)
  const others: Record<string, Store> = {}
  for (const link of regions.others) others[link.name] = await openLink(link, config, deps)
  const rules = { version: (): string | undefined => undefined }
  const regional = regionalStore({
    region: regions.own,
    store: own.store,
    others,
    syncEveryMs: regions.syncEveryMs,
    rulesVersion: () => rules.version(),
  })
  registerRegionMetrics(deps.registry, regional)
  return {
    ...own,
    store: regional,
    regional,
    showRulesVersion(read) {
      rules.version = () => String(read())
    },
  }
}

async function openLink(
  { name, url, tls }: RegionLinkConfig,
  { redis, keySecret }: WithRegions,
  deps: StoreDeps,
): Promise<Store> {
  const { prefix, layout, client } = redis
  const store = redisStore({
    url,
    prefix,
    layout,
    client,
    tls: tls && { ...(await readPem(tls)), servername: tls.servername },
    secret: keySecret,
    guest: true,
    deadlineMs: DEADLINE_MS,
    observer: linkObserver(name, deps),
  })
  // It is tried again, and logged, for as long as it fails.
  store.ready.catch(() => {})
  return store
}

/** Logs what is wrong with the way to a region; its metrics are those of reports. */
function linkObserver(region: string, { log, clock }: StoreDeps): Partial<StoreObserver> {
  const throttle = createThrottle(clock)
  return {
    problem(message) {
      const passed = throttle.pass(message)
      if (passed === undefined) return
      const problem = show(message, PROBLEM_SHOWN_MAX)
      log.warn({ region, problem, ...passed }, 'region: problem with its store')
    },
    breakerOpened(store) {
      const passed = throttle.pass(`opened ${store}`)
      if (passed !== undefined) log.warn({ region, store, ...passed }, 'region: does not answer')
    },
    breakerClosed(store) {
      const passed = throttle.pass(`closed ${store}`)
      if (passed !== undefined) log.info({ region, store, ...passed }, 'region: answers again')
    },
  }
}
