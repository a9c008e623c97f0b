/**
 * The session of the store with Redis: connects, runs the start checks, agrees on the secret and
 * joins the fleet. Until then nothing is sent, and every rule is decided by its posture.
 */
import { randomInt } from 'node:crypto'
import { type CounterKey, SluiceError } from '@sluice/core'
import { Announcements } from './announcements.js'
import {
  type RunCommand,
  runOnChannel,
  runOnSlot,
  wordsCommand,
} from '../connection/run-command.js'
import { RedisNodeExchange } from './node-exchange.js'
import { deferred } from './deferred.js'
import {
  type RedisChannel,
  type RedisDriver,
  RedisNodeProblem,
  RedisReplyError,
} from '../connection/driver.js'
import { openDriver } from '../connection/open-driver.js'
import { actionOf, codeOf } from '../pipeline/error-actions.js'
import { randomNodeId, FleetMembership, heartbeatSender } from './fleet-membership.js'
import { channelText, probeKey } from '../protocol/redis-keys.js'
import type { NodePipeline } from '../pipeline/node-pipeline.js'
import type { RedisStoreSettings } from '../redis-options.js'
import { PARTITION_SLOTS, PARTITION_TAGS } from '../request/partitions.js'
import { systemScheduler } from '../../periodic.js'
import { checkRights } from './check-rights.js'
import { Router, type RouterDeps } from '../pipeline/router.js'
import { agreeOnSecret, HOME_SLOT, requireSameSecret, SecretKeeper } from './hash-secret.js'
import { RedisHeartbeatExchange } from './redis-heartbeat-exchange.js'
import { checkStore } from './start-checks.js'
import { nodeStats, type RedisStats } from './redis-stats.js'
import { StoreWatch } from './store-watch.js'
import type { RedisTarget } from '../connection/redis-target.js'
import { PRELOAD } from '../protocol/preload.js'

export interface SessionDeps extends Omit<RouterDeps, 'random' | 'timeCommand' | 'preload'> {
  /** Another node gave units back to a counter. */
  readonly onGivenBack: (key: CounterKey) => void
}

/**
 * The timeout of a command that no decision waits for; shorter than a node lives without
 * heartbeats.
 */
const COMMAND_TIMEOUT_MS = 1000
/** Leaving the fleet must not delay the end of the process by more than this. */
const LEAVE_MS = 250
/** The pause after a failed start. */
const START_RETRY_MS = 250
/** How long a start waits for nodes that do not answer although others do. */
const ALL_ANSWER_MS = 1000
const POLL_MS = 2
/** The pause before the next attempt if Redis refuses this node. */
const REFUSED_RETRY_MS = 1000
/** If there are several nodes, how long to try the others after one has refused. */
const OTHER_NODES_MS = 1000

type State = RedisStats['state']

export class RedisSession {
  readonly secret: Promise<Uint8Array>
  readonly ready: Promise<void>
  readonly exchange: RedisNodeExchange
  readonly heartbeatExchange: RedisHeartbeatExchange
  readonly #options: RedisStoreSettings
  readonly #deps: SessionDeps
  #state: State = 'starting'
  #driver: RedisDriver | undefined
  #router: Router | undefined
  #fleet: FleetMembership | undefined
  /** The id of this node in the fleet. */
  #node: string | undefined
  #keeper: SecretKeeper | undefined
  #watch: StoreWatch | undefined
  #announcements: Announcements | undefined
  #closed = false
  #isStarting = false
  #hasStarted = false
  /** Whether Redis has another secret than this node. */
  #isSecretDifferent = false
  /** Whether Redis was not reachable at first, so that other nodes may have lost it too. */
  #hadToWait = false
  /** Why Redis refuses this node, as last reported. */
  #refusal = ''
  /** By address, the errors of nodes that have refused a connection since the start. */
  readonly #refusals = new Map<string, string>()
  #refusalTimer: ReturnType<typeof setTimeout> | undefined
  #startTimer: ReturnType<typeof setTimeout> | undefined
  readonly #settle: {
    secret: (secret: Uint8Array) => void
    ready: () => void
    /** Rejects `ready` only, because the secret may still arrive. */
    refuse: (error: Error) => void
    fail: (error: Error) => void
  }

  constructor(target: RedisTarget, options: RedisStoreSettings, deps: SessionDeps) {
    this.#options = options
    this.#deps = deps
    const secret = deferred<Uint8Array>()
    const ready = deferred<void>()
    // Also if the secret is configured: callers that wait for it wait for the start, which may
    // fail.
    this.secret = secret.promise
    this.ready = ready.promise
    this.#settle = {
      secret: secret.resolve,
      ready: ready.resolve,
      refuse: ready.reject,
      fail: (error) => {
        secret.reject(error)
        ready.reject(error)
      },
    }
    const { prefix } = options
    const run = () => this.driver && runOnSlot(this.driver, HOME_SLOT, COMMAND_TIMEOUT_MS)
    this.exchange = new RedisNodeExchange({ prefix, node: () => this.#node, run })
    this.heartbeatExchange = new RedisHeartbeatExchange({
      prefix,
      secret: () => options.secret,
      run,
    })
    openDriver({ target, client: options.client, tls: options.tls }).then(
      (driver) => this.onDriverOpened(driver),
      (error: unknown) => this.onUnfit(asError(error)),
    )
  }

  /** The router of decisions; undefined while nothing may be sent. */
  get router(): Router | undefined {
    return this.#state === 'ready' ? this.#router : undefined
  }

  /** The driver for commands that no decision waits for; undefined while nothing may be sent. */
  get driver(): RedisDriver | undefined {
    return this.#state === 'ready' ? this.#driver : undefined
  }

  fleetSize(): number {
    return this.#fleet?.size() ?? this.#options.fleetSize
  }

  fleetPlace(): number {
    return this.#fleet?.place() ?? 0
  }

  /** The pipelines of all known nodes. */
  pipelines(): readonly NodePipeline[] {
    return this.#router?.pipelines() ?? NO_PIPELINES
  }

  /** The pipelines of nodes in the current topology. */
  private presentPipelines(): readonly NodePipeline[] {
    this.#router?.removeGone()
    return this.pipelines()
  }

  stats(): RedisStats {
    const watched = this.#watch?.stats()
    const isWatched = watched !== undefined && watched.nodes.length > 0
    const infos = new Map(watched?.nodes.map((node) => [node.address, node]))
    const refusalOf = (address: string) =>
      this.#refusals.get(address) ?? watched?.refusals.get(address)
    return {
      state: this.#state,
      nodes: this.presentPipelines().map((pipeline) => {
        const { address } = pipeline.channel
        return nodeStats(pipeline, infos.get(address), refusalOf(address))
      }),
      fleet: { size: this.fleetSize(), ageMs: this.#fleet?.ageMs() ?? Infinity },
      memory: isWatched
        ? {
            usedBytes: watched.usedBytes,
            maxBytes: watched.maxBytes,
            keys: watched.keys,
            evictedKeys: watched.evictedKeys,
            isAppendOnly: watched.aof,
          }
        : undefined,
    }
  }

  /** Announces to other nodes that this one gave units back to a counter. */
  announce(key: CounterKey): void {
    this.#announcements?.announce(key)
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#startTimer)
    clearTimeout(this.#refusalTimer)
    // Ends the wait for a start that will not happen; does nothing once it has started.
    this.#settle.fail(new SluiceError('STORE_FAILED', 'The store was closed before it started'))
    this.#keeper?.stop()
    this.#watch?.stop()
    const announced = this.#announcements?.close()
    const left = Promise.all([announced, this.#fleet?.leave(), this.exchange.close()])
    await Promise.race([left, delay(LEAVE_MS)])
    this.#router?.close()
    await this.#driver?.close()
  }

  private onDriverOpened(driver: RedisDriver): void {
    if (this.#closed) {
      driver.close().catch(() => {})
      return
    }
    this.#driver = driver
    driver.onProblem((problem) => {
      this.#hadToWait = true
      this.recordRefusal(problem)
      if (!this.#hasStarted && isFinal(problem)) this.onUnfit(problem)
      else if (!this.#hasStarted && isLoud(problem.cause)) this.onRefusedLater(problem)
      else this.#deps.observer.problem(problem.message.trim())
    })
    this.#router = new Router(driver, routerDeps(this.#deps, this.#options.guest))
    driver.onReady(({ address }) => {
      this.#refusals.delete(address)
      this.start()
    })
    this.start()
  }

  /** A new connection may be refused, for example because a password was changed. */
  private recordRefusal(problem: Error): void {
    if (!(problem instanceof RedisNodeProblem)) return
    const { address, cause } = problem
    if (cause instanceof RedisReplyError && isLoud(cause))
      this.#refusals.set(address, cause.message)
    else this.#refusals.delete(address)
  }

  /** Retries until it succeeds or fails for good. */
  private start(): void {
    if (this.#hasStarted || this.#state === 'unfit' || this.#isStarting || this.#closed) return
    const driver = this.#driver
    clearTimeout(this.#startTimer)
    if (driver?.channelOf(HOME_SLOT)?.isReady !== true) {
      // A slot may move to a node that was connected long before.
      this.#startTimer = setTimeout(() => this.start(), START_RETRY_MS).unref()
      return
    }
    this.#isStarting = true
    const joined = this.#options.guest ? this.joinAsGuest(driver) : this.join(driver)
    joined.then(
      () => {
        this.#isStarting = false
      },
      (error: unknown) => {
        this.#isStarting = false
        this.onStartFailed(asError(error))
      },
    )
  }

  private onStartFailed(failure: Error): void {
    if (isFinal(failure)) {
      this.onUnfit(failure)
      return
    }
    const isRefused = isRefusal(failure)
    if (isRefused) this.onRefused(failure)
    const againMs = isRefused ? REFUSED_RETRY_MS : START_RETRY_MS
    this.#startTimer = setTimeout(() => this.start(), againMs).unref()
  }

  /** If there are several nodes or sentinels, one may refuse and the others not. */
  private onRefusedLater(problem: Error): void {
    if (this.#driver?.topology === 'standalone') {
      this.onRefused(problem)
      return
    }
    this.#deps.observer.problem(problem.message.trim())
    clearTimeout(this.#refusalTimer)
    this.#refusalTimer = setTimeout(() => this.onRefused(problem), OTHER_NODES_MS).unref()
  }

  /** Reports each refusal of Redis once, because an operator has to act, and retries. */
  private onRefused(problem: Error): void {
    if (this.#closed || this.#hasStarted || this.#state === 'unfit') return
    this.#state = 'refused'
    const { message } = problem
    const why = problem instanceof SluiceError ? message : `Redis refuses this node: ${message}`
    if (this.#refusal !== why) this.#deps.observer.problem(why)
    this.#refusal = why
    this.#settle.refuse(new SluiceError('STORE_REFUSED', why, { cause: problem }))
  }

  private async join(driver: RedisDriver): Promise<void> {
    const { prefix, secret: configured, lastSecret: lastKnown } = this.#options
    const { observer, nowMs } = this.#deps
    // A shard that is down must not keep a node from starting; StoreWatch polls it later.
    const reached = driver.channels().filter(({ isReady }) => isReady)
    const checked = await Promise.all(reached.map((channel) => this.check(channel)))
    const run = runOnSlot(driver, HOME_SLOT, COMMAND_TIMEOUT_MS)
    const announcements = this.announcementsOf(driver)
    const requestSecret = async () => {
      const receivers = await announcements.requestSecret()
      // Nodes that reconnect to the same Redis subscribe a moment later and receive nothing yet.
      return this.#hadToWait ? Math.max(1, receivers) : receivers
    }
    const secret = await agreeOnSecret(run, { prefix, configured, lastKnown, requestSecret })
    if (this.#closed) return
    for (const { warnings } of checked) for (const warning of warnings) observer.problem(warning)
    const keeper = new SecretKeeper({
      prefix,
      secret,
      isConfigured: configured !== undefined,
      run,
      scheduler: systemScheduler,
      onProblem: (text) => observer.problem(text),
      // Nodes with different secrets use separate counters, so this one stops until its own is
      // back.
      onDiffers: (differs) => {
        this.#isSecretDifferent = differs
        if (this.#state === 'ready' || this.#state === 'refused') this.updateState()
      },
    })
    const node = randomNodeId()
    const fleet = new FleetMembership({
      sendHeartbeat: heartbeatSender(run, { prefix, node }),
      nowMs,
      scheduler: systemScheduler,
      fleetSize: this.#options.fleetSize,
      onHeartbeat: ({ fingerprint }) => keeper.onFingerprint(fingerprint),
      onProblem: (text) => observer.problem(text),
    })
    const watch = new StoreWatch({
      primaries: () =>
        driver.channels().map((channel) => ({
          address: channel.address,
          run: (words) => runOnChannel(channel, words, COMMAND_TIMEOUT_MS),
        })),
      scheduler: systemScheduler,
      onProblem: (text) => observer.problem(text),
    })
    this.#keeper = keeper
    this.#fleet = fleet
    this.#node = node
    this.#watch = watch
    for (const each of [keeper, fleet, watch]) each.start()
    this.#hasStarted = true
    await Promise.all([announcements.start(), this.waitForAll(driver)])
    if (this.#closed) return
    this.updateState()
    if (this.#refusal !== '') observer.problem('Redis accepts this node again')
    this.#settle.secret(secret)
    this.#settle.ready()
  }

  /**
   * Starts on the store of another region: its nodes have checked it and hold its secret, and this
   * node is none of its fleet.
   */
  private async joinAsGuest(driver: RedisDriver): Promise<void> {
    const { prefix, secret } = this.#options
    if (secret === undefined) throw new Error('A guest has no secret')
    const run = runOnSlot(driver, HOME_SLOT, COMMAND_TIMEOUT_MS)
    await requireSameSecret(run, { prefix, secret })
    await this.waitForAll(driver)
    if (this.#closed) return
    this.#hasStarted = true
    this.updateState()
    if (this.#refusal !== '') this.#deps.observer.problem('Redis accepts this node again')
    this.#settle.secret(secret)
    this.#settle.ready()
  }

  /** Updates whether this node counts: it does not while Redis has another secret. */
  private updateState(): void {
    this.#state = this.#isSecretDifferent ? 'refused' : 'ready'
  }

  /**
   * Waits until every known node answers; otherwise the first decisions of the other slots would be
   * made by posture. A node that is down must not delay a start for long.
   */
  private async waitForAll(driver: RedisDriver): Promise<void> {
    const { nowMs } = this.#deps
    const untilMs = nowMs() + ALL_ANSWER_MS
    const isWaiting = () => {
      const answering = this.#router?.pipelines().filter(({ isAnswering }) => isAnswering) ?? []
      const addresses = new Set(answering.map(({ channel }) => channel.address))
      return driver.channels().some(({ address }) => !addresses.has(address))
    }
    while (!this.#closed && isWaiting() && nowMs() < untilMs) await delay(POLL_MS)
  }

  private announcementsOf(driver: RedisDriver): Announcements {
    const channel = channelText(this.#options.prefix)
    this.#announcements ??= new Announcements({
      channel,
      sender: randomNodeId(),
      run: runOnSlot(driver, HOME_SLOT, COMMAND_TIMEOUT_MS),
      subscribe: (events) => driver.subscribe(HOME_SLOT, channel, events),
      nowMs: this.#deps.nowMs,
      scheduler: systemScheduler,
      fleetSize: () => this.fleetSize(),
      onReturned: this.#deps.onGivenBack,
      onRestore: () => this.#keeper?.restore(),
      onProblem: (text) => this.#deps.observer.problem(text),
    })
    return this.#announcements
  }

  private async check(channel: RedisChannel): ReturnType<typeof checkStore> {
    const { topology = 'standalone' } = this.#driver ?? {}
    const { allowEviction, layout, prefix } = this.#options
    const own = PARTITION_SLOTS.findIndex((slot) => this.#driver?.channelOf(slot) === channel)
    const tag = PARTITION_TAGS[own]
    const { address } = channel
    const probe = tag === undefined ? undefined : probeKey(prefix, tag)
    const run = (words: Parameters<RunCommand>[0]) =>
      runOnChannel(channel, words, COMMAND_TIMEOUT_MS)
    const place = { address, layout, probeKey: probe }
    // Another server may be behind the same name a moment later.
    const onReplica = () => channel.reconnect()
    const checked = await checkStore(run, { ...place, topology, allowEviction, onReplica })
    await checkRights(run, place)
    return checked
  }

  private onUnfit(error: Error): void {
    if (this.#closed) return
    this.#state = 'unfit'
    this.#deps.observer.problem(error.message)
    this.#settle.fail(error)
  }
}

function delay(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref()
  })
}

const TIME = wordsCommand(['TIME'])
const NO_PIPELINES: readonly NodePipeline[] = []

/** A guest runs the scripts that the nodes of the region have loaded. */
export function routerDeps(deps: SessionDeps, isGuest = false): RouterDeps {
  const random = () => randomInt(2 ** 31) / 2 ** 31
  return { ...deps, random, timeCommand: TIME, preload: isGuest ? [] : PRELOAD }
}

/** Whether waiting does not help. */
function isFinal(error: Error): boolean {
  if (!(error instanceof SluiceError)) return false
  return error.code !== 'STORE_FAILED' && error.code !== 'STORE_REFUSED'
}

/** Whether Redis replied that it does not accept this node as configured. */
function isRefusal(error: Error): boolean {
  return isLoud(error) || (error instanceof SluiceError && error.code === 'STORE_REFUSED')
}

function isLoud(error: unknown): boolean {
  return error instanceof RedisReplyError && actionOf(codeOf(error.message)) === 'loud'
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}
