/**
 * Random scenarios: batches of ops on a few counters. Each op is run by the memory store as it is
 * made, so that the next may depend on its outcome.
 */
import type { CounterKey, Limit, LimitSpec, Outcome, Take } from '@sluice/core'
import { defineLimit, isBlock, isConcurrency } from '@sluice/core'
import type { MemoryStore } from '../../memory/memory-store.js'
import type { Give, Groups, PeekOutcome } from '../../store.js'
import type { ManualClock } from '../../testing/index.js'
import type { Dice } from '../../dice.test-helper.js'
import type { Batch } from './redis.test-helper.js'
import type { StoreOp } from './batch-request.js'

export interface Reference {
  readonly store: MemoryStore
  readonly clock: ManualClock
}

/** The results of the memory store for one op, with the states after it. */
export type Expected = Groups<PeekOutcome> | undefined

export interface Played {
  readonly batches: readonly Batch[]
  readonly expected: readonly (readonly Expected[])[]
}

export interface ScenarioOptions {
  /** The limits of each counter; the first is used first. */
  readonly limits: readonly (readonly Limit[])[]
  readonly keys: readonly CounterKey[]
  readonly startUs: number
  readonly batches: number
  readonly dice: Dice
  /**
   * Pauses of at most this many microseconds and small amounts, mostly takes, so that a log grows
   * long. Otherwise everything happens often.
   */
  readonly paceUs?: number
  /** A counter changes its limit before one op in this many. @default 15; 400 with paceUs */
  readonly changesOneIn?: number
}

interface Receipt {
  readonly counter: number
  readonly amount: number
  readonly at: number
}

/** Where a scenario ends, so that later times stay below 2^53. */
const LATEST_US = 3e15
const OPS_MAX = 6
const RECEIPTS_MAX = 8
/** Holders of places; the last is as large as one can be. */
const HOLDERS = [0, 1, 7, 2 ** 52 - 1] as const

export class Scenario {
  readonly #options: ScenarioOptions
  readonly #reference: Reference
  readonly #current: number[]
  readonly #receipts: Receipt[] = []
  readonly steps: Record<StoreOp['verb'], number> = {
    take: 0,
    peek: 0,
    give: 0,
    charge: 0,
    reset: 0,
  }
  #now: number
  #waitMs = 0

  constructor(options: ScenarioOptions, reference: Reference) {
    this.#options = options
    this.#reference = reference
    this.#now = Math.max(1, options.startUs)
    this.#current = options.keys.map(() => 0)
  }

  play(): Played {
    const batches: Batch[] = []
    const expected: (readonly Expected[])[] = []
    for (let n = 0; n < this.#options.batches; n++) {
      this.passTime()
      this.#reference.clock.set(this.#now)
      const ops: StoreOp[] = []
      const answers: Expected[] = []
      const isLast = n === this.#options.batches - 1
      // A take that is alone in its batch has its own script.
      const size = this.#options.dice.oneIn(2) ? 1 : 1 + this.#options.dice.below(OPS_MAX)
      while (ops.length < size) {
        const op = isLast ? this.lookAtAll() : this.op()
        ops.push(op)
        answers.push(this.answer(op))
      }
      batches.push({ ops, times: { notAfter: 0, now: this.#now } })
      expected.push(answers)
    }
    return { batches, expected }
  }

  private passTime(): void {
    const { dice, paceUs } = this.#options
    if (paceUs !== undefined && !dice.oneIn(500)) {
      this.#now += dice.below(paceUs)
      if (dice.oneIn(100)) this.#now = Math.max(1, this.#now - dice.below(20 * paceUs))
      return
    }
    const { windowUs } = this.limitOf(dice.below(this.#options.keys.length))
    const share = Math.floor(windowUs / 1000)
    const steps = [1, share, windowUs, windowUs + 1, 3 * share * dice.below(1000), 20 * windowUs]
    const pauses = [
      0,
      dice.below(5000),
      share * dice.below(1000),
      share * dice.below(3000),
      this.#waitMs * 1000,
      Math.max(0, this.#waitMs - 1) * 1000,
    ]
    this.#now = Math.min(LATEST_US, this.#now + dice.pick(pauses))
    if (dice.oneIn(12)) this.#now = Math.max(1, this.#now - dice.pick(steps))
  }

  private op(): StoreOp {
    const { dice, keys, paceUs, changesOneIn = paceUs === undefined ? 15 : 400 } = this.#options
    const roll = paceUs === undefined || dice.oneIn(8) ? dice.below(100) : 0
    const counter = dice.below(keys.length)
    if (dice.oneIn(changesOneIn)) this.changeLimit(counter)
    if (roll < 40) return { verb: 'take', groups: this.groups(), states: dice.oneIn(4) }
    if (roll < 56) return { verb: 'peek', groups: this.groups(), states: dice.oneIn(2) }
    if (roll < 76) return this.give(counter)
    if (roll < 96) return this.charge(counter)
    if (paceUs !== undefined && !dice.oneIn(20)) return this.give(counter)
    return { verb: 'reset', key: this.keyOf(counter) }
  }

  private lookAtAll(): StoreOp {
    const { keys, limits } = this.#options
    const takes = keys.flatMap((key, counter) =>
      (limits[counter] ?? []).map((limit) => ({ key, limit, amount: 1 })),
    )
    return { verb: 'peek', groups: [takes], states: true }
  }

  /** A call names a counter at most once. */
  private groups(): Groups<Take> {
    const { dice, keys } = this.#options
    const counters = keys.map((_, counter) => counter)
    if (dice.oneIn(2)) return [[this.take(dice.pick(counters))]]
    const groups: Take[][] = [[]]
    for (const counter of counters) {
      if (dice.oneIn(3)) continue
      if (dice.oneIn(2)) groups.push([])
      groups.at(-1)?.push(this.take(counter))
    }
    return dice.oneIn(40) ? [] : groups
  }

  private take(counter: number): Take {
    const { dice } = this.#options
    const limit = this.limitOf(counter)
    if (!isBlock(limit) && dice.oneIn(4)) return this.meteredTake(counter, limit)
    const amount = this.amount(limit)
    const takesLess = dice.oneIn(6)
    const atLeast = takesLess ? dice.below(Math.min(amount, 1000) + 1) : undefined
    const isAfterMarks = isBlock(limit) && dice.oneIn(3)
    const holder = isConcurrency(limit) && !dice.oneIn(8) ? dice.pick(HOLDERS) : undefined
    return { key: this.keyOf(counter), limit, amount, atLeast, isAfterMarks, holder }
  }

  /** A take that gates, overdraws or gives back. */
  private meteredTake(counter: number, limit: Limit): Take {
    const { dice } = this.#options
    const key = this.keyOf(counter)
    const roll = dice.below(3)
    if (roll === 0) return { key, limit, amount: 0, gate: true }
    if (roll === 1 && !isConcurrency(limit)) {
      return { key, limit, amount: Math.max(1, this.amount(limit)), overdraw: true }
    }
    const { amount, at } = this.units(counter)
    return { key, limit, amount: amount === 0 ? -1 : -amount, at }
  }

  /** Units of a counter to give back, mostly some that were taken. */
  private units(counter: number): Pick<Give, 'amount' | 'at'> {
    const { dice } = this.#options
    const receipt = this.#receipts.find((each) => each.counter === counter)
    if (receipt !== undefined && !dice.oneIn(4)) return receipt
    const limit = this.limitOf(counter)
    const at = dice.oneIn(2) ? undefined : Math.max(0, this.#now - dice.below(limit.windowUs))
    return { amount: this.amount(limit), at }
  }

  private amount(limit: Limit): number {
    const { dice, paceUs } = this.#options
    const roll = dice.below(10)
    if (roll < 4 || (paceUs !== undefined && !dice.oneIn(100))) return 1 + (roll < 4 ? 0 : 2)
    if (roll < 6) return dice.below(6)
    if (roll < 9) return Math.max(1, Math.floor((limit.capacity / 1000) * dice.below(1001)))
    return dice.oneIn(5) ? Number.MAX_SAFE_INTEGER : limit.capacity + dice.below(3)
  }

  private give(counter: number): StoreOp {
    const { dice } = this.#options
    const undone = dice.oneIn(3)
    const receipt = dice.oneIn(5)
      ? undefined
      : this.#receipts.splice(dice.below(this.#receipts.length), 1)[0]
    if (receipt === undefined) {
      const limit = this.limitOf(counter)
      return {
        verb: 'give',
        give: { key: this.keyOf(counter), limit, ...this.units(counter), undone },
      }
    }
    const amount = dice.oneIn(4) ? dice.below(receipt.amount + 2) : receipt.amount
    const at = dice.oneIn(4) ? undefined : receipt.at
    const limit = this.limitOf(receipt.counter)
    return { verb: 'give', give: { key: this.keyOf(receipt.counter), limit, amount, at, undone } }
  }

  private charge(counter: number): StoreOp {
    const { dice } = this.#options
    const limit = this.limitOf(counter)
    const past = Math.floor(limit.windowUs / 500) * dice.below(1000)
    const spentAt = dice.oneIn(2) ? this.#now : Math.max(0, this.#now - past)
    const at = isConcurrency(limit) ? dice.pick(HOLDERS) : spentAt
    const debt = dice.oneIn(3) ? this.amount(limit) : dice.below(7)
    return {
      verb: 'charge',
      charge: { key: this.keyOf(counter), limit, amount: this.amount(limit), at, debt },
    }
  }

  /** Runs an op in the memory store, which is also where the next ops take their receipts from. */
  private answer(op: StoreOp): Expected {
    const { sync } = this.#reference.store
    this.steps[op.verb] += 1
    if (op.verb === 'give') sync.give(op.give)
    if (op.verb === 'charge') sync.charge(op.charge)
    if (op.verb === 'reset') sync.reset(op.key)
    if (op.verb !== 'take' && op.verb !== 'peek') return undefined
    const outcomes = op.verb === 'take' ? sync.take(op.groups) : undefined
    const peeked = sync.peek(op.groups)
    return (outcomes ?? peeked).map((group, g) =>
      group.map((outcome, i) => {
        if (op.verb === 'take') this.remember(op.groups[g]?.[i], outcome)
        const { granted, remaining, resetAfterMs, retryAfterMs, delayMs, at } = outcome
        const { state } = peeked[g]?.[i] ?? {}
        return { granted, remaining, resetAfterMs, retryAfterMs, delayMs, at, state }
      }),
    )
  }

  private remember(take: Take | undefined, { granted, at, retryAfterMs }: Outcome): void {
    if (retryAfterMs !== null) this.#waitMs = retryAfterMs
    const counter = this.#options.keys.findIndex((key) => key === take?.key)
    if (granted > 0) this.#receipts.push({ counter, amount: granted, at })
    if (this.#receipts.length > RECEIPTS_MAX) this.#receipts.shift()
  }

  private changeLimit(counter: number): void {
    this.#current[counter] = this.#options.dice.below(this.#options.limits[counter]?.length ?? 1)
  }

  private limitOf(counter: number): Limit {
    const limit = this.#options.limits[counter]?.[this.#current[counter] ?? 0]
    if (limit === undefined) throw new RangeError(`counter ${counter} has no limit`)
    return limit
  }

  private keyOf(counter: number): CounterKey {
    const key = this.#options.keys[counter]
    if (key === undefined) throw new RangeError(`there is no counter ${counter}`)
    return key
  }
}

/** Limits of one algorithm for one counter: another max, another window, charged on a refusal. */
export function withOnRefusal(spec: LimitSpec, dice: Dice): Limit {
  const charges = dice.oneIn(4) && spec.algorithm !== 'concurrency'
  return defineLimit({ ...spec, onRefusal: charges ? 'charge' : 'none' })
}
