/**
 * A remote store that a test scripts: it answers completely, partly, late or not at all, runs
 * without answering, or fails. Its counters are in a memory store, so that a test can see what was
 * charged.
 */
import type { Outcome, Take } from '@sluice/core'
import type { Limiter, LimiterOptions } from './index.js'
import { createLimiter, memoryStore } from './index.js'
import type { Answer, Charge, Give, Groups, Silence, Store, TakeOptions } from './store.js'
import { type ManualClock, manualClock } from './testing/index.js'

/**
 * The fate of one take. `ran`: charged, but not answered in time. `lost`: not charged and not
 * answered. The late answer distinguishes both.
 */
export type Fate = 'answer' | 'not-run' | 'ran' | 'lost'

export interface StoreScript {
  /** By group and index. */
  fate: (group: number, at: number) => Fate
  /** Thrown instead of any answer. */
  error: Error | undefined
  /** The fate of gives, charges and resets. */
  verbError: Error | undefined
  peekError: Error | undefined
}

export class ScriptedStore implements Store {
  readonly clock: ManualClock = manualClock()
  readonly inner = memoryStore({ clock: this.clock })
  readonly script: StoreScript = {
    fate: () => 'answer',
    error: undefined,
    verbError: undefined,
    peekError: undefined,
  }
  readonly requests: { groups: Groups<Take>; options: TakeOptions | undefined }[] = []
  readonly gives: Give[] = []
  readonly charges: Charge[] = []
  readonly #listeners: (() => void)[] = []
  /** Late answers not delivered yet. */
  readonly #late: (() => void)[] = []
  /** While set, takes wait until `answer` is called. */
  isHeld = false
  readonly #held: (() => void)[] = []
  nodes = 1
  latestAheadUs = 0
  readonly remote

  constructor({
    denyCacheMs = 0,
    secret = Promise.resolve(new Uint8Array(16)),
  }: { readonly denyCacheMs?: number; readonly secret?: Promise<Uint8Array> } = {}) {
    this.remote = {
      time: () => this.clock.now(),
      latestTime: () => this.clock.now() + this.latestAheadUs,
      fleetSize: () => this.nodes,
      secret,
      denyCacheMs,
      deadlineMs: 20,
      onAnswering: (listener: () => void) => {
        this.#listeners.push(listener)
      },
    }
  }

  /** Gives every take the same fate from now on. */
  all(fate: Fate): void {
    this.script.fate = () => fate
  }

  async take(groups: Groups<Take>, options?: TakeOptions): Promise<Groups<Answer>> {
    this.requests.push({ groups, options })
    if (this.isHeld) await new Promise<void>((resolve) => void this.#held.push(resolve))
    const { error, fate } = this.script
    if (error !== undefined) throw error
    const fates = groups.map((takes, g) => takes.map((_, i) => fate(g, i)))
    if (fates.every((row) => row.every((each) => each === 'answer'))) {
      return this.withStates(groups, this.inner.sync.take(groups), options?.states)
    }
    // Each take by itself, as a Cluster does.
    const outcomes = groups.map((takes, g) =>
      takes.map((take, i) => {
        const mode = fates[g]?.[i]
        if (mode === 'not-run' || mode === 'lost') return 'not-run' as const
        return this.inner.sync.take([[take]])[0]?.[0] ?? ('unknown' as const)
      }),
    )
    this.#late.push(() => options?.onLate?.(outcomes))
    return outcomes.map((row, g) =>
      row.map((outcome, i) => answerInTime(fates[g]?.[i] ?? 'lost', outcome)),
    )
  }

  async peek(groups: Groups<Take>) {
    if (this.script.peekError !== undefined) throw this.script.peekError
    return this.inner.peek(groups)
  }

  async give(give: Give): Promise<void> {
    this.gives.push(give)
    if (this.script.verbError !== undefined) throw this.script.verbError
    await this.inner.give(give)
  }

  async charge(charge: Charge): Promise<void> {
    this.charges.push(charge)
    if (this.script.verbError !== undefined) throw this.script.verbError
    await this.inner.charge(charge)
  }

  async reset(key: Take['key']): Promise<void> {
    if (this.script.verbError !== undefined) throw this.script.verbError
    await this.inner.reset(key)
  }

  async close(): Promise<void> {}

  /** Delivers the late answers. */
  comeLate(): void {
    for (const late of this.#late.splice(0)) late()
  }

  /** Answers the takes that were held. */
  release(): void {
    this.isHeld = false
    for (const resume of this.#held.splice(0)) resume()
  }

  /** Makes the store answer again and notify its listeners. */
  recover(): void {
    this.all('answer')
    Object.assign(this.script, { error: undefined, verbError: undefined, peekError: undefined })
    for (const listener of this.#listeners) listener()
  }

  private withStates(
    groups: Groups<Take>,
    outcomes: Groups<Outcome>,
    states = false,
  ): Groups<Answer> {
    const peeked = this.inner.sync.peek(groups)
    return outcomes.map((row, g) =>
      row.map((outcome, i) => {
        const isLog = groups[g]?.[i]?.limit.algorithm === 'sliding-window-log'
        const tells = states || (outcome.retryAfterMs !== 0 && !isLog)
        return tells ? { ...outcome, state: peeked[g]?.[i]?.state } : outcome
      }),
    )
  }
}

function answerInTime(fate: Fate, outcome: Outcome | Silence): Answer {
  if (fate === 'answer') return outcome
  return fate === 'not-run' ? 'not-run' : 'unknown'
}

/** A limiter over a scripted store, with its clocks. */
export async function scripted(
  rules: LimiterOptions['rules'],
  options: { readonly denyCacheMs?: number } = {},
): Promise<{ store: ScriptedStore; limiter: Limiter; clock: ManualClock }> {
  const store = new ScriptedStore(options)
  const limiter = limiterOver(store, rules)
  await limiter.ready()
  return { store, limiter, clock: store.clock }
}

/** The monotonic clock follows the store's. */
export function limiterOver(store: ScriptedStore, rules: LimiterOptions['rules']): Limiter {
  const monotonicMs = () => store.clock.now() / 1000
  return createLimiter({ rules, store, clock: store.clock, monotonicMs })
}

/** Resolves after all pending promise callbacks have run. */
export async function settled(): Promise<void> {
  for (let i = 0; i < 20; i++) await Promise.resolve()
}
