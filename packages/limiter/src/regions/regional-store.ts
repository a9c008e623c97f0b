/**
 * The counters of one of several regions. Every call is decided by the store of the own region;
 * what it took of limits that regions merge is told to all others within half of `syncEvery` and
 * the way there. A region is to the others what a node with `coordination: local` is to its store:
 * every region's counter holds what all of them spent.
 */
import {
  algorithmOf,
  type CounterKey,
  type RegionPlace,
  SluiceError,
  type Take,
} from '@sluice/core'
import { monotonicMs as systemMonotonicMs, systemClock } from '../clock.js'
import { mayHaveRun } from '../deferred-charges.js'
import { readStore } from '../limiter-options.js'
import { PeriodicTask, type Scheduler, systemScheduler } from '../periodic.js'
import type {
  Answer,
  Charge,
  Give,
  Groups,
  PeekOptions,
  PeekOutcome,
  RegionPeek,
  Store,
  StoreHealth,
  TakeOptions,
} from '../store.js'
import { OverageSampler } from './overage-sampler.js'
import { RegionHeartbeats, type SeenRegion } from './region-heartbeats.js'
import { RegionResetError } from './region-reset-error.js'
import { RegionLink, type RegionLinkStats } from './region-link.js'

const SYNC_EVERY_MS = 100
const SYNC_EVERY_MS_MIN = 20
const SYNC_EVERY_MS_MAX = 10_000
/** A unit waits up to one round until it is sent. */
const ROUNDS_PER_INTERVAL = 2
/** How long closing waits for what the others do not know yet. */
const FINISH_MS = 1000
/** How long a reset waits for the other regions. */
const RESET_MS = 1000

/**
 * Options of `regionalStore`.
 *
 * @example
 * const options = {
 *   region: 'eu-west',
 *   store: redisStore({ url: 'redis://127.0.0.1:6379', secret }),
 *   others: { 'us-east': redisStore({ url: 'rediss://guest:p@us:6379', secret, guest: true }) },
 * }
 */
export interface RegionalStoreOptions {
  /** The name of the own region. */
  readonly region: string
  /** The store of the own region, which decides. */
  readonly store: Store
  /** The stores of all other regions, by name. */
  readonly others: Readonly<Record<string, Store>>
  /** How often regions learn of each other, in milliseconds, 20 to 10,000. @default 100 */
  readonly syncEveryMs?: number | undefined
  /** The version of the rules in force, which the other regions show. @default unknown */
  readonly rulesVersion?: (() => string | undefined) | undefined
  /** For tests: milliseconds of a clock that never steps. @default the system's */
  readonly monotonicMs?: (() => number) | undefined
  /** For tests: runs delayed calls. @default timers of the system */
  readonly scheduler?: Scheduler | undefined
}

/** What this node knows of another region. */
export interface RegionStats extends RegionLinkStats, SeenRegion {}

export interface RegionalStore extends Store {
  readonly regions: RegionPlace
  /** One entry for each other region. */
  regionStats(): readonly RegionStats[]
  /**
   * The largest share beyond its limit that all regions together have admitted for a caller, among
   * a sample of the counters that are nearly used up.
   */
  overage(): number
  /** What each other region has counted, asked of its store. */
  peekRegions(take: Take): Promise<readonly RegionPeek[]>
}

/**
 * Counts in several regions, each with a store of its own. Its limiter must have the same rules and
 * the same `secret` in all regions.
 *
 * @example
 * const limiter = createLimiter({ rules, store: regionalStore({ region, store, others }), secret })
 */
export function regionalStore(options: RegionalStoreOptions): RegionalStore {
  return new RelayingStore(options)
}

class RelayingStore implements RegionalStore {
  readonly regions: RegionPlace
  readonly #own: Store
  readonly #links: readonly RegionLink[]
  readonly #heartbeats: RegionHeartbeats
  readonly #rounds: PeriodicTask
  readonly #overage: OverageSampler
  readonly #monotonicMs: () => number
  readonly #time: () => number
  readonly #scheduler: Scheduler
  #closing: Promise<void> | undefined

  constructor(options: RegionalStoreOptions) {
    const { region, store, others, rulesVersion = () => undefined } = options
    const { monotonicMs = systemMonotonicMs, scheduler = systemScheduler } = options
    for (const each of [store, ...Object.values(others)]) readStore(each)
    const names = [region, ...Object.keys(others)]
    if (Object.hasOwn(others, region)) {
      const found = `${region} among the others`
      throw new SluiceError('OPTION_INVALID', `region: found ${found}; accepted: another name`)
    }
    const { remote } = store
    const time = () => finiteOr(remote?.time(), () => systemClock.now())
    this.regions = { own: region, names }
    this.#own = store
    this.#monotonicMs = monotonicMs
    this.#time = time
    this.#scheduler = scheduler
    this.#links = Object.entries(others).map(
      ([name, other]) =>
        new RegionLink({ region: name, store: other, regions: names.length, time, monotonicMs }),
    )
    const links = this.#links
    this.#heartbeats = new RegionHeartbeats({
      own: region,
      store,
      links,
      time,
      monotonicMs,
      scheduler,
      rulesVersion,
    })
    const everyMs = readSyncEvery(options.syncEveryMs) / ROUNDS_PER_INTERVAL
    const sendRounds = async () => {
      for (const link of links) link.sendRound()
    }
    this.#rounds = new PeriodicTask(everyMs, sendRounds, scheduler)
    this.#rounds.start('later')
    this.#overage = new OverageSampler(store, scheduler)
    this.#overage.start()
    this.#heartbeats.start()
  }

  get remote(): Store['remote'] {
    return this.#own.remote
  }

  get inspector(): Store['inspector'] {
    return this.#own.inspector
  }

  get exchange(): Store['exchange'] {
    return this.#own.exchange
  }

  regionStats(): readonly RegionStats[] {
    const seen = this.#heartbeats.seen()
    return this.#links.map((link, i) => {
      const { region } = link
      const { ageMs, heartbeat, clock } = seen[i] ?? NEVER_SEEN
      return { ...link.stats(), region, ageMs, heartbeat, clock }
    })
  }

  take(groups: Groups<Take>, options: TakeOptions = {}): Promise<Groups<Answer>> {
    return takesMerged(groups) ? this.takeMerged(groups, options) : this.#own.take(groups, options)
  }

  private async takeMerged(groups: Groups<Take>, options: TakeOptions): Promise<Groups<Answer>> {
    const { deadlineMs, capMs, states } = options
    const taken = this.#own.take(groups, {
      deadlineMs,
      capMs,
      states,
      onLate: (late) => {
        // What was known in time is relayed below, even if both come at once.
        const relayLate = (known: Groups<Answer>) => this.relayAnswers(groups, late, known)
        taken.then(relayLate, () => {})
        options.onLate?.(late)
      },
    })
    const answers = await taken
    this.relayAnswers(groups, answers, undefined)
    return answers
  }

  overage(): number {
    return this.#overage.share
  }

  peek(groups: Groups<Take>, options?: PeekOptions): Promise<Groups<PeekOutcome>> {
    return this.#own.peek(groups, options)
  }

  async give(give: Give): Promise<void> {
    await this.#own.give(give)
    const { key, limit, amount, at = this.#time() } = give
    if (limit.isMerged === true) this.relay({ key, limit, amount: -amount, at })
  }

  async charge(charge: Charge): Promise<void> {
    const { key, limit, amount, at } = charge
    const isMerged = limit.isMerged === true
    try {
      await this.#own.charge(charge)
    } catch (error) {
      // The units were spent, whether or not the own store knows; what did not run comes again.
      if (isMerged && mayHaveRun(error)) this.relay({ key, limit, amount, at })
      throw error
    }
    if (isMerged) this.relay({ key, limit, amount, at })
  }

  /** Rejects if the own store does not confirm it; a RegionResetError names others that do not. */
  async reset(key: CounterKey): Promise<void> {
    // First, so that nothing that was taken before the reset is told after it.
    await this.#own.reset(key)
    const others = this.#links.map(async (link) => {
      const isDone = await within(link.reset(key), RESET_MS, this.#scheduler)
      return isDone ? undefined : link.region
    })
    const missing = (await Promise.all(others)).filter((region) => region !== undefined)
    if (missing.length > 0) throw new RegionResetError(missing)
  }

  async peekRegions(take: Take): Promise<readonly RegionPeek[]> {
    return Promise.all(
      this.#links.map(async ({ region, store }): Promise<RegionPeek> => {
        try {
          const [[outcome] = []] = await store.peek([[take]], { states: true })
          return outcome === undefined ? { region, problem: 'no answer' } : { region, outcome }
        } catch (error) {
          return { region, problem: error instanceof Error ? error.message : String(error) }
        }
      }),
    )
  }

  health(): StoreHealth {
    const unknown = { remote: undefined, memory: undefined, isPersistent: undefined }
    return this.#own.health?.() ?? unknown
  }

  warmUpStore(): Store {
    return this.#own.warmUpStore?.() ?? this.#own
  }

  /** Tells the others what they do not know yet, as far as they answer in time. */
  close(): Promise<void> {
    this.#closing ??= this.finish()
    return this.#closing
  }

  private async finish(): Promise<void> {
    this.#rounds.stop()
    this.#overage.stop()
    this.#heartbeats.stop()
    const told = Promise.all(this.#links.map((link) => link.finish()))
    await within(told, FINISH_MS, this.#scheduler)
    await Promise.all([this.#own.close(), ...this.#links.map(({ store }) => store.close())])
  }

  /**
   * Relays what was granted. `before`: the answers that were relayed already, of which only the
   * unknown ones have become known since.
   */
  private relayAnswers(
    groups: Groups<Take>,
    answers: Groups<Answer>,
    before: Groups<Answer> | undefined,
  ): void {
    for (let g = 0; g < groups.length; g++) {
      const takes = groups[g] ?? []
      for (let i = 0; i < takes.length; i++) {
        const take = takes[i]
        const answer = answers[g]?.[i]
        if (take?.limit.isMerged !== true || typeof answer !== 'object') continue
        if (before !== undefined && typeof before[g]?.[i] === 'object') continue
        const { key, limit, at } = take
        if (answer.granted === 0) continue
        this.#overage.onGranted(key, limit, answer.remaining)
        this.relay({ key, limit, amount: answer.granted, at: at ?? answer.at })
      }
    }
  }

  /** Notes units for every other region; an amount below 0 was returned. */
  private relay({ key, limit, amount, at }: Relayed): void {
    if (amount === 0 || limit.max === 0) return
    const nowMs = this.#monotonicMs()
    // A node charges a bucket later than its units were spent, which was at most now.
    const isBucket = algorithmOf(limit).family === 'bucket'
    const spentAt = isBucket ? Math.min(at, this.#time()) : at
    const change = { key, limit, amount: Math.abs(amount), at: spentAt, nowMs }
    for (const link of this.#links) {
      if (amount > 0) link.spend(change)
      else link.giveBack(change)
    }
  }
}

interface Relayed {
  readonly key: CounterKey
  readonly limit: Take['limit']
  readonly amount: number
  readonly at: number
}

const NEVER_SEEN: Omit<SeenRegion, 'region'> = {
  ageMs: undefined,
  heartbeat: undefined,
  clock: undefined,
}

function takesMerged(groups: Groups<Take>): boolean {
  for (let g = 0; g < groups.length; g++) {
    const takes = groups[g]
    if (takes === undefined) continue
    for (let i = 0; i < takes.length; i++) if (takes[i]?.limit.isMerged === true) return true
  }
  return false
}

function readSyncEvery(everyMs = SYNC_EVERY_MS): number {
  if (everyMs >= SYNC_EVERY_MS_MIN && everyMs <= SYNC_EVERY_MS_MAX) return everyMs
  const accepted = `a number from ${SYNC_EVERY_MS_MIN} to ${SYNC_EVERY_MS_MAX}`
  throw new SluiceError('OPTION_INVALID', `syncEveryMs: found ${everyMs}; accepted: ${accepted}`)
}

/** Whether a promise resolves in time. */
function within(done: Promise<unknown>, ms: number, scheduler: Scheduler): Promise<boolean> {
  return new Promise((resolve) => {
    const cancel = scheduler.after(ms, () => resolve(false))
    const settle = (isDone: boolean) => {
      cancel()
      resolve(isDone)
    }
    done.then(
      () => settle(true),
      () => settle(false),
    )
  })
}

/** The store's time is not finite before its first answer. */
function finiteOr(time: number | undefined, fallback: () => number): number {
  return time !== undefined && Number.isFinite(time) ? Math.floor(time) : fallback()
}
