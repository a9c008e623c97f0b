/** The verbs of a store whose counters are in other processes. */
import { type CounterKey, isConcurrency, SluiceError, show, type Take } from '@sluice/core'
import { type Clock, monotonicMs } from '../clock.js'
import type {
  Answer,
  Charge,
  Give,
  Groups,
  PeekOutcome,
  PeekOptions,
  Remote,
  TakeOptions,
} from '../store.js'
import { emptyAnswer, isEmpty } from '../store-answer.js'
import { ClusterTake, type ClusterTakeDeps } from './request/cluster-take.js'
import { Deadlines } from './request/deadlines.js'
import { LastingMarks } from './request/hold-marks.js'
import { NO_ADDRESS, type StoreObserver } from './pipeline/redis-observer.js'
import { costOfChange } from './request/op-cost.js'
import { commonPartition, countTakes, PartitionOp } from './request/partition-op.js'
import { PARTITION_TAGS } from './request/partitions.js'
import type { Router } from './pipeline/router.js'
import type { StoreSession } from './server/warm-up-session.js'
import type { SessionDeps } from './server/redis-session.js'
import { type GiveBack, SlotAnswers } from './request/slot-answers.js'
import { StoreTime } from './server/store-time.js'
import { TakeOp, TakeRequest } from './request/take-request.js'
import { CommandRequest } from './request/command-request.js'
import type { BatchEncoder, StoreOp } from './protocol/batch-request.js'
import { requireAmount, requireCount, requireTake } from './protocol/store-op.js'

/** A give, charge or reset keeps no call waiting, so it may take longer than a decision. */
const COMMAND_DEADLINE_MS = 1000
const NO_OPTIONS: TakeOptions = {}
/** Counters of one call; a script can be given no more keys. */
const TAKES_MAX = 4096

export interface BatchingStoreOptions {
  readonly deadlineMs: number
  readonly denyCacheMs: number
  readonly clockToleranceMs: number
  /** For tests: the time that the servers decide with. */
  readonly clock: Clock | undefined
}

export interface BatchingStoreDeps<Session extends StoreSession> {
  readonly observer: StoreObserver
  readonly codec: BatchEncoder
  readonly openSession: (deps: SessionDeps) => Session
}

/**
 * Sends the operations of a store in batches to the servers that hold the counters: the nodes of
 * Redis, or the members of a ring.
 */
export class BatchingStore<Session extends StoreSession> {
  readonly remote: Remote
  readonly session: Session
  readonly #options: BatchingStoreOptions
  readonly #observer: StoreObserver
  readonly #deadlines: Deadlines
  readonly #answeringListeners: (() => void)[] = []
  readonly #givenBackListeners: ((key: CounterKey) => void)[] = []
  readonly #placesListeners: ((give: Give, isConfirmed: Promise<boolean>) => void)[] = []
  readonly #clusterTake: ClusterTakeDeps
  readonly #undoQueue: PendingUndo[] = []
  readonly #combineAnswers = (groups: Groups<Take>, answers: Groups<Answer>) =>
    this.combineAnswers(groups, answers)
  #replies = 0
  readonly #undoing = new Set<Promise<void>>()
  #closing: Promise<void> | undefined
  #closed = false

  constructor(options: BatchingStoreOptions, deps: BatchingStoreDeps<Session>) {
    const { observer, codec, openSession } = deps
    this.#options = options
    this.#observer = observer
    this.#deadlines = new Deadlines(monotonicMs, () => this.#replies)
    const { deadlineMs, denyCacheMs, clockToleranceMs, clock } = options
    this.session = openSession({
      nowMs: monotonicMs,
      observer,
      codec,
      deadlineMs,
      scriptTime: clock === undefined ? () => 0 : () => clock.now(),
      onAnswering: () => {
        for (const listener of this.#answeringListeners) listener()
      },
      isBusy: () => this.#deadlines.isBusy,
      onReply: () => {
        this.#replies += 1
      },
      onGivenBack: (key) => this.notifyGivenBack(key),
    })
    this.#clusterTake = {
      nowMs: monotonicMs,
      undo: (gives) => this.undo(gives),
      unmark: (gives) => this.unmark(gives),
      onHeldRefusal: () => observer.held(),
      lastingMarks: new LastingMarks(),
      isSingle: (partition) => this.session.router?.isSingle(partition) === true,
      shardOf: (partition) => this.session.router?.shardOf(partition) ?? partition,
      dispatch: (attempt, groups) => {
        const { router } = this.session
        if (router === undefined || this.#closed) attempt.expire()
        else this.dispatch(router, attempt, groups)
      },
    }
    const time = new StoreTime({ clock, clocks: () => this.session.pipelines() })
    this.remote = {
      secret: this.session.secret,
      ready: this.session.ready,
      denyCacheMs,
      deadlineMs,
      clockToleranceMs,
      time: () => time.now(),
      latestTime: () => time.latest(),
      uncertaintyUs: () => time.uncertaintyUs(),
      fleetSize: () => this.session.fleetSize(),
      fleetPlace: () => this.session.fleetPlace(),
      onAnswering: (listener) => {
        this.#answeringListeners.push(listener)
      },
      announce: (key) => this.session.announce(key),
      onGivenBack: (listener) => {
        this.#givenBackListeners.push(listener)
      },
      onPlacesReturned: (listener) => {
        this.#placesListeners.push(listener)
      },
    }
  }

  get isClosed(): boolean {
    return this.#closed
  }

  take(groups: Groups<Take>, options: TakeOptions = NO_OPTIONS): Promise<Groups<Answer>> {
    return this.request('take', groups, options)
  }

  async peek(groups: Groups<Take>, { states }: PeekOptions = {}): Promise<Groups<PeekOutcome>> {
    const answers = await this.request('peek', groups, { states })
    const isSilent = answers.some((row) => row.some((answer) => typeof answer === 'string'))
    if (isSilent)
      throw new SluiceError('STORE_FAILED', 'The store did not answer: nothing is known')
    return answers as Groups<PeekOutcome>
  }

  async give(give: Give): Promise<void> {
    const cost = costOfChange(give.limit, give.at, this.remote.time())
    return this.runCommand(give.key, { verb: 'give', give }, cost, () => {
      requireAmount(give.amount)
      requireCount('at', give.at ?? 0)
    })
  }

  async charge(charge: Charge): Promise<void> {
    const cost = costOfChange(charge.limit, charge.at, this.remote.time())
    return this.runCommand(charge.key, { verb: 'charge', charge }, cost, () => {
      requireAmount(charge.amount)
      requireCount('at', charge.at)
      requireCount('debt', charge.debt)
    })
  }

  reset(key: CounterKey): Promise<void> {
    return this.runCommand(key, { verb: 'reset', key }, 1)
  }

  close(): Promise<void> {
    this.#closing ??= this.finish()
    return this.#closing
  }

  /** What refused calls took is given back first: it would stay charged until it decays. */
  private async finish(): Promise<void> {
    await Promise.all(this.#undoing)
    this.#closed = true
    await this.session.close()
    this.#deadlines.close()
  }

  private request(
    verb: 'take' | 'peek',
    groups: Groups<Take>,
    { deadlineMs = this.#options.deadlineMs, capMs, states = false, onLate }: TakeOptions,
  ): Promise<Groups<Answer>> {
    if (isEmpty(groups)) {
      return Promise.resolve(verb === 'take' && groups.length === 0 ? [[]] : emptyAnswer(groups))
    }
    const { router } = this.session
    if (router === undefined || this.#closed) {
      this.countUnsent()
      return Promise.resolve(notRun(groups))
    }
    return new Promise((resolve) => {
      requireTakes(groups)
      const deadlineAtMs = monotonicMs() + deadlineMs
      if (verb === 'take' && router.isPartitioned) {
        const options = { groups, states, deadlineMs, deadlineAtMs, onLate, resolve }
        const request = new ClusterTake(this.#clusterTake, options)
        request.start()
        if (!request.isAnswered) this.#deadlines.add(request, deadlineMs, capMs)
        return
      }
      const request = new TakeRequest({
        takeOp: new TakeOp(verb, groups, states),
        deadlineAtMs,
        onLate,
        resolve,
        combineAnswers: this.#combineAnswers,
      })
      this.dispatch(router, request, groups)
      if (!request.isAnswered) this.#deadlines.add(request, deadlineMs, capMs)
    })
  }

  /** Counts a call without a connection: there is none yet, or Redis refuses this node. */
  private countUnsent(): void {
    this.#observer.error('connection', NO_ADDRESS)
  }

  /**
   * Combines the answers to a call that was sent as one operation but had to be split on its way.
   */
  private combineAnswers(groups: Groups<Take>, answers: Groups<Answer>): Groups<Answer> {
    const places = groups.map((takes) => [...takes.keys()])
    const slots = new SlotAnswers(groups, this.#options.deadlineMs)
    const isSilent = slots.record({ places, verb: 'take', marks: 'none' }, answers)
    if (isSilent) return answers
    const isPassed = slots.isPassed()
    void this.undo(isPassed ? slots.takeBackShadows() : slots.takeBack(places, true))
    return isPassed ? slots.admittedAnswers() : slots.refusedAnswers()
  }

  private dispatch(router: Router, request: TakeRequest, groups: Groups<Take>): void {
    if (!router.isPartitioned) {
      router.route(request.asOneOp(0))
      return
    }
    const shardOf = (each: number) => router.shardOf(each)
    const partition = commonPartition(groups, shardOf)
    if (partition !== undefined && !router.isSingle(partition)) {
      router.route(request.asOneOp(partition))
      return
    }
    const isSingle = (each: number) => router.isSingle(each)
    for (const op of request.asPartitionOps(isSingle, shardOf)) router.route(op)
  }

  private runCommand(
    key: CounterKey,
    storeOp: StoreOp,
    cost: number,
    requireNumbers?: () => void,
  ): Promise<void> {
    return new Promise((resolve, reject) => {
      requireKey(key)
      requireNumbers?.()
      const deadlineMs = Math.max(COMMAND_DEADLINE_MS, this.#options.deadlineMs)
      const request = new CommandRequest(storeOp.verb, monotonicMs() + deadlineMs, resolve, reject)
      const op = new PartitionOp(request, storeOp, key.partition, cost)
      request.op = op
      const { router } = this.session
      if (router === undefined || this.#closed) {
        this.countUnsent()
        op.settle('not-run')
      } else router.route(op)
      if (!request.isAnswered) this.#deadlines.add(request, deadlineMs)
    })
  }

  /**
   * Gives back the units of refused calls. Units that are lost on the way stay charged until they
   * decay: that refuses early and never admits too much. Of the calls of one turn the last goes
   * first, because a leaky bucket frees a slot that has begun only if none after it is taken.
   */
  private undo(gives: readonly GiveBack[]): Promise<void> {
    if (gives.length === 0) return Promise.resolve()
    const undone = new Promise<void>((resolve) => {
      const done = () => {
        this.#undoing.delete(undone)
        resolve()
      }
      this.#undoQueue.push({ gives, done })
      if (this.#undoQueue.length === 1) queueMicrotask(() => this.undoAll())
    })
    this.#undoing.add(undone)
    return undone
  }

  private undoAll(): void {
    for (const { gives, done } of this.#undoQueue.splice(0).toReversed()) {
      const givingBack = gives.map(async (give) => {
        // A mark is not a counter, so no refusal by it can be remembered.
        const isMark = give.undone !== true
        if (!isMark) this.notifyGivenBack(give.key)
        const isConfirmed = this.giveBack(give)
        if (isConcurrency(give.limit)) {
          for (const listener of this.#placesListeners) listener(give, isConfirmed)
        }
        await isConfirmed
        if (!isMark) this.notifyGivenBack(give.key)
      })
      void Promise.all(givingBack).then(() => done())
    }
  }

  /**
   * Both are sent in one batch, and the script runs them in this order. Returns whether the store
   * confirmed the first.
   */
  private async giveBack({ penalty, ...give }: GiveBack): Promise<boolean> {
    const { key, limit, at = 0 } = give
    const steps = give.amount === 0 ? [] : [this.give(give)]
    if (penalty !== undefined) steps.push(this.charge({ key, limit, at, ...penalty }))
    const [given] = await Promise.allSettled(steps)
    return given?.status === 'fulfilled'
  }

  /** A mark that is lost expires. */
  private unmark(gives: readonly Give[]): void {
    for (const give of gives) this.give(give).catch(() => {})
  }

  private notifyGivenBack(key: CounterKey): void {
    for (const listener of this.#givenBackListeners) listener(key)
  }
}

interface PendingUndo {
  readonly gives: readonly GiveBack[]
  readonly done: () => void
}

function notRun(groups: Groups<Take>): Groups<Answer> {
  return groups.map((takes) => takes.map(() => 'not-run' as const))
}

/** Checks all numbers before anything is sent, because a script or a timer cannot report them. */
function requireTakes(groups: Groups<Take>): void {
  if (countTakes(groups) > TAKES_MAX) {
    const found = countTakes(groups)
    throw new SluiceError(
      'OPTION_INVALID',
      `takes of one call: found ${found}; accepted: at most ${TAKES_MAX}`,
    )
  }
  for (const takes of groups) {
    for (const take of takes) {
      requireKey(take.key)
      requireTake(take)
    }
  }
}

function requireKey({ partition }: CounterKey): void {
  if (PARTITION_TAGS[partition] !== undefined) return
  throw new SluiceError(
    'OPTION_INVALID',
    `partition: found ${show(partition)}; accepted: 0 to ${PARTITION_TAGS.length - 1}`,
  )
}
