/**
 * Records the requests to the store and its answers, counter by counter, so that no stored unit is
 * unaccounted for.
 */
import type { CounterKey, Limit, Take } from '@sluice/core'
import type { Answer, Groups, Store, TakeOptions } from '@sluice/limiter'
import type { DecisionLog } from './fault-log.test-helper.js'

/** One counter. Sums of units; units sent before data was lost are in the upper sums only. */
export interface Account {
  readonly key: CounterKey
  readonly limit: Limit
  /** Granted, and answered in time or late. */
  granted: number
  /** Those of them that were answered after the deadline. */
  late: number
  /** It is unknown whether these were taken. */
  maybe: number
  returned: number
  returnedMaybe: number
  charged: number
  chargedMaybe: number
  /** Granted or charged, and sent after data was lost for the last time. */
  durable: number
}

export interface StoredBounds {
  readonly least: number
  readonly most: number
}

export class Ledger {
  readonly accounts = new Map<string, Account>()
  readonly #log: DecisionLog
  #row = -1
  #age = 0

  constructor(log: DecisionLog) {
    this.#log = log
  }

  get hasLost(): boolean {
    return this.#age > 0
  }

  /** The next requests to the store are for this row of the log. */
  setRow(row: number): void {
    this.#row = row
  }

  /** The store lost data, or may have: called before and after it could. */
  recordLoss(): void {
    this.#age += 1
    for (const account of this.accounts.values()) account.durable = 0
  }

  /** The same store, with all requests recorded. */
  watch<Kind extends Store>(store: Kind): Kind {
    const watched: Partial<Store> = {
      take: (groups, options) => this.take(store, groups, options),
      give: (give) => {
        const account = this.accountOf(give)
        return store.give(give).then(
          () => {
            account.returned += give.amount
          },
          (error: unknown) => {
            if (mayHaveRun(error)) account.returnedMaybe += give.amount
            throw error
          },
        )
      },
      charge: (charge) => {
        const age = this.#age
        const account = this.accountOf(charge)
        return store.charge(charge).then(
          () => {
            account.charged += charge.amount
            if (age === this.#age) account.durable += charge.amount
          },
          (error: unknown) => {
            if (mayHaveRun(error)) account.chargedMaybe += charge.amount
            throw error
          },
        )
      },
    }
    return new Proxy(store, {
      get: (target, name) => {
        const own = watched[name as keyof Store]
        if (own !== undefined) return own
        const value = Reflect.get(target, name, target)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
  }

  /** The bounds of the stored count. */
  bounds(account: Account): StoredBounds {
    const { limit, granted, maybe, returned, returnedMaybe, charged, chargedMaybe, durable } =
      account
    const cap = limit.capacity
    const most = granted + maybe + charged + chargedMaybe
    return {
      least: Math.max(0, Math.min(cap, durable) - returned - returnedMaybe),
      // Units given back to a lost counter have no effect.
      most: Math.max(0, Math.min(cap, this.hasLost ? most : most - returned)),
    }
  }

  /** How many stored units exceed those known to be stored; 0 if that cannot be determined. */
  takenUnacknowledged({ limit, granted, charged, returned }: Account, stored: number): number {
    const known = granted + charged - returned
    return this.hasLost || granted + charged >= limit.capacity ? 0 : Math.max(0, stored - known)
  }

  private async take(
    store: Store,
    groups: Groups<Take>,
    options: TakeOptions = {},
  ): Promise<Groups<Answer>> {
    const partition = groups.flat()[0]?.key.partition ?? -1
    if (this.#row !== -1) this.#log.at(this.#row, partition)
    this.#row = -1
    const call = new TrackedTake(this, groups, () => this.#age)
    const answers = await store.take(groups, {
      deadlineMs: options.deadlineMs,
      states: options.states,
      onLate: (late) => {
        call.recordLate(late)
        options.onLate?.(late)
      },
    })
    call.recordAnswers(answers)
    return answers
  }

  accountOf({ key, limit }: { readonly key: CounterKey; readonly limit: Limit }): Account {
    const name = `${key.hi}.${key.lo}`
    let account = this.accounts.get(name)
    if (account === undefined) {
      account = {
        key,
        limit,
        granted: 0,
        late: 0,
        maybe: 0,
        returned: 0,
        returnedMaybe: 0,
        charged: 0,
        chargedMaybe: 0,
        durable: 0,
      }
      this.accounts.set(name, account)
    }
    return account
  }
}

/** Whether a give or charge that failed may have been done anyway. */
function mayHaveRun(error: unknown): boolean {
  return !(error instanceof Error && 'silence' in error && error.silence === 'not-run')
}

class TrackedTake {
  readonly #ledger: Ledger
  readonly #groups: Groups<Take>
  readonly #age: () => number
  readonly #sentAge: number
  #answers: Groups<Answer> | undefined
  #early: Groups<Answer> | undefined

  constructor(ledger: Ledger, groups: Groups<Take>, age: () => number) {
    this.#ledger = ledger
    this.#groups = groups
    this.#age = age
    this.#sentAge = age()
  }

  recordAnswers(answers: Groups<Answer>): void {
    this.#answers = answers
    this.each(answers, (account, take, answer) => {
      if (answer === 'unknown') account.maybe += take.amount
      else this.grant(account, answer)
    })
    if (this.#early !== undefined) this.recordLate(this.#early)
  }

  recordLate(answers: Groups<Answer>): void {
    const before = this.#answers
    if (before === undefined) {
      this.#early = answers
      return
    }
    this.each(answers, (account, take, answer, g, i) => {
      if (before[g]?.[i] !== 'unknown' || answer === 'unknown') return
      account.maybe -= take.amount
      account.late += this.grant(account, answer)
    })
  }

  private grant(account: Account, answer: Answer): number {
    if (typeof answer === 'string') return 0
    account.granted += answer.granted
    if (this.#sentAge === this.#age()) account.durable += answer.granted
    return answer.granted
  }

  private each(
    answers: Groups<Answer>,
    visit: (account: Account, take: Take, answer: Answer, g: number, i: number) => void,
  ): void {
    this.#groups.forEach((takes, g) => {
      takes.forEach((take, i) => {
        const answer = answers[g]?.[i] ?? 'unknown'
        visit(this.#ledger.accountOf(take), take, answer, g, i)
      })
    })
  }
}
