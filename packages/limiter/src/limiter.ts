/** The library: one call in, one decision out. */
import { randomBytes, randomInt } from 'node:crypto'
import {
  type Call,
  combine,
  type Decision,
  explainMatches,
  explainRules,
  isCount,
  IPV6_PREFIX_DEFAULT,
  IPV6_PREFIX_MAX,
  IPV6_PREFIX_MIN,
  type Matched,
  matchRules,
  type Outcome,
  type ParsedRules,
  type Plan,
  type Policy,
  type Problem,
  planCall,
  type SipKey,
  SluiceError,
  sipKey,
  type Snapshot,
  standingOf,
  UNMATCHED,
  writeReceipt,
} from '@sluice/core'
import { type Clock, systemClock } from './clock.js'
import { memoryStore } from './memory/memory-store.js'
import { givesOfCall, givesOfReceipt, keysOfCaller, type ResetOptions } from './refund.js'
import { compileParsed, type LoadedRules, loadRules, type RulesInput } from './rule-set.js'
import type { Give, Store, SyncStore } from './store.js'

export interface LimiterOptions {
  readonly rules: RulesInput
  /** Where the rules come from, for messages. */
  readonly file?: string | undefined
  /** Where counters live. @default a memory store of a million counters */
  readonly store?: Store | undefined
  /** The wall clock; ends overrides, and times the default store. @default the system's */
  readonly clock?: Clock | undefined
  /** The key of all hashes, 16 bytes; limiters that share counters share it. @default random */
  readonly secret?: Uint8Array | undefined
  /** How many bits of an IPv6 address make a caller, 32 to 64. @default 64 */
  readonly ipv6Prefix?: number | undefined
}

export interface RulesOptions {
  /** Where the rules come from, for messages. */
  readonly file?: string | undefined
}

export interface CheckOptions {
  /**
   * Ask for a receipt, to give back what the decision takes; `'if-delayed'` for one only where the
   * call is to be held, because whoever holds it may see the caller leave. @default false
   */
  readonly receipt?: boolean | 'if-delayed' | undefined
  /** Whether the caller can be made to wait; if not, a delay is a refusal. @default true */
  readonly canWait?: boolean | undefined
}

export interface Limiter {
  /**
   * Decides a call and spends its cost. A refusal is a value; a failure rejects with a SluiceError.
   */
  check(call: Call, options?: CheckOptions): Promise<Decision>
  /** The same at once, for stores in this process. */
  checkSync(call: Call, options?: CheckOptions): Decision
  /** Whether a call would pass; spends nothing. */
  peek(call: Call): Promise<Decision>
  /** A peek with, in `explain`, every rule: matched or why not, and what its limits say. */
  explain(call: Call): Promise<Decision>
  /**
   * Every enforced rule that counts this caller somewhere, whatever method and path it is for, with
   * what is left; spends nothing. At most the first 1,000 limits.
   */
  limits(call: Call): Promise<readonly Policy[]>
  /** Gives back what a receipt says was taken, or the cost of a call in the present window. */
  refund(what: string | Call): Promise<void>
  /** Forgets the counters of a caller: every rule that counts by attributes the call has. */
  reset(call: Call, options?: ResetOptions): Promise<void>
  /**
   * Replaces the rules; throws a RulesError and changes nothing if they have errors. Returns
   * warnings.
   */
  setRules(rules: RulesInput, options?: RulesOptions): readonly Problem[]
  /**
   * The same with what `parseRules` of `@sluice/core` gave: parsing a large set takes seconds, and
   * may be done in another thread.
   */
  setParsedRules(parsed: ParsedRules): readonly Problem[]
  /** Whether the counters are in this process, so that `checkSync` answers. */
  readonly isSync: boolean
  /** Whether a rule in force counts messages of WebSockets. */
  readonly countsMessages: boolean
  /** What the rules in force probably do not mean. */
  readonly warnings: readonly Problem[]
  close(): Promise<void>
}

/**
 * Receipts refunded here are remembered, so that one is not paid out twice; the oldest are
 * forgotten.
 */
const REFUNDS_REMEMBERED = 10_000
const LIMITS_TOLD_MAX = 1000

export function createLimiter(options: LimiterOptions): Limiter {
  return new StoreLimiter(options)
}

class StoreLimiter implements Limiter {
  readonly #store: Store
  readonly #sync: SyncStore | undefined
  readonly #clock: Clock
  readonly #secret: SipKey
  readonly #ipv6Prefix: number
  readonly #refunded = new Map<string, boolean[]>()
  #snapshot: Snapshot
  #warnings: readonly Problem[]
  /** From a random start: limiters that share a secret do not make the same receipts. */
  #serial = randomInt(2 ** 40)
  #closed = false

  constructor({ rules, file, store, clock = systemClock, secret, ipv6Prefix }: LimiterOptions) {
    this.#clock = readPart('clock', clock, ['now'])
    this.#secret = readSecret(secret ?? randomBytes(16))
    this.#ipv6Prefix = readPrefix(ipv6Prefix ?? IPV6_PREFIX_DEFAULT)
    const loaded = this.load(rules, file)
    this.#snapshot = loaded.snapshot
    this.#warnings = loaded.warnings
    this.#store = readPart('store', store ?? memoryStore({ clock }), STORE_VERBS)
    this.#sync = this.#store.sync
  }

  get isSync(): boolean {
    return this.#sync !== undefined
  }

  get countsMessages(): boolean {
    return this.#snapshot.countsMessages
  }

  get warnings(): readonly Problem[] {
    return this.#warnings
  }

  check(call: Call, options: CheckOptions = NO_OPTIONS): Promise<Decision> {
    try {
      // Not an async function: a decision that is there already needs one promise, not two.
      if (this.#sync !== undefined) return Promise.resolve(this.checkSync(call, options))
      const plan = this.plan(call, options.canWait)
      if (plan === undefined) return Promise.resolve(UNMATCHED)
      return this.ask(this.#store.take(plan.groups)).then((outcomes) =>
        this.decide(plan, outcomes, options),
      )
    } catch (error) {
      return Promise.reject(error)
    }
  }

  checkSync(call: Call, options: CheckOptions = NO_OPTIONS): Decision {
    if (this.#sync === undefined) {
      throw new SluiceError('STORE_NOT_SYNC', 'checkSync: this store answers later; use check')
    }
    const plan = this.plan(call, options.canWait)
    if (plan === undefined) return UNMATCHED
    return this.decide(plan, this.#sync.take(plan.groups), options)
  }

  async peek(call: Call): Promise<Decision> {
    const plan = this.plan(call)
    if (plan === undefined) return UNMATCHED
    return combine(plan, await this.ask(this.#store.peek(plan.groups)), 'store')
  }

  async explain(call: Call): Promise<Decision> {
    const snapshot = this.#snapshot
    const plan = planCall(this.match(snapshot, call), call)
    const outcomes = await this.ask(this.#store.peek(plan.groups))
    const explain = explainRules(explainMatches(snapshot, call), plan, outcomes)
    if (explain.some(({ matched }) => matched)) return combine(plan, outcomes, 'store', { explain })
    return { ...UNMATCHED, explain }
  }

  async limits(call: Call): Promise<readonly Policy[]> {
    this.requireOpen()
    requireCall(call)
    const wallMs = Math.floor(this.#clock.now() / 1000)
    const standing = standingOf(this.#snapshot, call, wallMs)
    // A cost that an attribute tells is not known here; what is left does not depend on it.
    const plan = planCall(standing, { attributes: NO_ATTRIBUTES })
    const groups = [(plan.groups[0] ?? []).slice(0, LIMITS_TOLD_MAX)]
    const outcomes = await this.ask(this.#store.peek(groups))
    return combine({ ...plan, groups }, outcomes, 'store').policies()
  }

  async refund(what: string | Call): Promise<void> {
    this.requireOpen()
    if (typeof what !== 'string') {
      await this.giveAll(givesOfCall(planCall(this.match(this.#snapshot, what), what)))
      return
    }
    const gives = givesOfReceipt(this.#snapshot, what)
    const paid = this.paidOf(what, gives.length)
    const pay = gives.map(async (give, entry) => {
      if (give === undefined || paid[entry] === true) return
      paid[entry] = true
      try {
        await this.#store.give(give)
      } catch (error) {
        // Only what was not given back can be tried again.
        paid[entry] = false
        throw error
      }
    })
    await this.ask(Promise.all(pay))
  }

  async reset(call: Call, options: ResetOptions = {}): Promise<void> {
    this.requireOpen()
    requireCall(call)
    const keys = keysOfCaller(this.#snapshot, call, options)
    await this.ask(Promise.all(keys.map((key) => this.#store.reset(key))))
  }

  setRules(rules: RulesInput, { file }: RulesOptions = {}): readonly Problem[] {
    this.requireOpen()
    return this.use(this.load(rules, file))
  }

  setParsedRules(parsed: ParsedRules): readonly Problem[] {
    this.requireOpen()
    const options = { secret: this.#secret, ipv6Prefix: this.#ipv6Prefix }
    return this.use(compileParsed(parsed, options))
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    await this.#store.close()
  }

  private use({ snapshot, warnings }: LoadedRules): readonly Problem[] {
    this.#snapshot = snapshot
    this.#warnings = warnings
    return warnings
  }

  private load(rules: RulesInput, file: string | undefined) {
    return loadRules(rules, { secret: this.#secret, ipv6Prefix: this.#ipv6Prefix, file })
  }

  /** What the call asks of the store; undefined where no rule speaks of it. */
  private plan(call: Call, canWait = true): Plan | undefined {
    const matched = this.match(this.#snapshot, call)
    // A bad cost is told of even where no rule would look at it.
    if (matched.length === 0 && isCount(call.cost ?? 1)) return undefined
    return planCall(matched, call, canWait ? MAY_WAIT : MAY_NOT_WAIT)
  }

  private match(snapshot: Snapshot, call: Call): readonly Matched[] {
    if (this.#closed) this.requireOpen()
    requireCall(call)
    const wallMs = snapshot.needs.clock ? Math.floor(this.#clock.now() / 1000) : 0
    return matchRules(snapshot, call, wallMs)
  }

  private decide(
    plan: Plan,
    outcomes: readonly (readonly Outcome[])[],
    { receipt }: CheckOptions,
  ): Decision {
    const decision = receipt === true ? undefined : combine(plan, outcomes, 'store')
    if (decision !== undefined && (receipt !== 'if-delayed' || decision.delayMs === 0)) {
      return decision
    }
    return combine(plan, outcomes, 'store', {
      receipt: writeReceipt(plan, outcomes, { secret: this.#secret, serial: this.#serial++ }),
    })
  }

  private async giveAll(gives: readonly Give[]): Promise<void> {
    await this.ask(Promise.all(gives.map((give) => this.#store.give(give))))
  }

  private async ask<Answer>(answer: Promise<Answer>): Promise<Answer> {
    try {
      return await answer
    } catch (cause) {
      if (cause instanceof SluiceError) throw cause
      throw new SluiceError('STORE_FAILED', 'The store did not answer', { cause })
    }
  }

  /** Which entries of a receipt were given back here. */
  private paidOf(receipt: string, entries: number): boolean[] {
    const known = this.#refunded.get(receipt)
    if (known !== undefined) return known
    const paid = Array.from({ length: entries }, () => false)
    this.#refunded.set(receipt, paid)
    const [oldest] = this.#refunded.keys()
    if (this.#refunded.size > REFUNDS_REMEMBERED && oldest !== undefined) {
      this.#refunded.delete(oldest)
    }
    return paid
  }

  private requireOpen(): void {
    if (this.#closed) throw new SluiceError('LIMITER_CLOSED', 'This limiter was closed')
  }
}

const NO_OPTIONS: CheckOptions = {}
const NO_ATTRIBUTES = {}
const MAY_WAIT = { canWait: true } as const
const MAY_NOT_WAIT = { canWait: false } as const

function requireCall(call: Call): void {
  if (typeof call === 'object' && call !== null) {
    const { attributes } = call
    const isPlain = typeof attributes === 'object' && attributes !== null
    // A list or a Map would have no attribute at all, and so no limit.
    if (isPlain && !(Symbol.iterator in attributes)) return
  }
  throw new SluiceError(
    'CALL_INVALID',
    `call: found ${call === null ? 'null' : typeof call}; accepted: { attributes: { user: 'u1' }, cost: 1 }`,
  )
}

const STORE_VERBS = ['take', 'peek', 'give', 'charge', 'reset', 'close'] as const

/** A part that a user brings, with the functions it must have. */
function readPart<Part>(option: string, part: Part, verbs: readonly (keyof Part)[]): Part {
  const missing = verbs.filter((verb) => typeof part[verb] !== 'function')
  if (missing.length === 0) return part
  throw new SluiceError(
    'OPTION_INVALID',
    `${option}: found one without ${missing.join(', ')}; accepted: one with ${verbs.join(', ')}`,
  )
}

function readSecret(secret: Uint8Array): SipKey {
  if (secret instanceof Uint8Array && secret.length === 16) return sipKey(secret)
  const found = secret instanceof Uint8Array ? `${secret.length} bytes` : typeof secret
  throw new SluiceError('OPTION_INVALID', `secret: found ${found}; accepted: 16 bytes`)
}

function readPrefix(prefix: number): number {
  if (Number.isInteger(prefix) && prefix >= IPV6_PREFIX_MIN && prefix <= IPV6_PREFIX_MAX)
    return prefix
  throw new SluiceError(
    'OPTION_INVALID',
    `ipv6Prefix: found ${prefix}; accepted: a whole number from ${IPV6_PREFIX_MIN} to ${IPV6_PREFIX_MAX}`,
  )
}
