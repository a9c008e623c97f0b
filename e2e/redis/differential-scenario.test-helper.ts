/**
 * Random scenarios of the differential run: rules, and steps that call, peek, give back, reset,
 * wait, and change the rules. All of it follows from a seed, so that a scenario can be replayed,
 * whole or with steps left out.
 */
import type { Attributes, Call } from '@sluice/limiter'
import { MODULE_CHOICES, RATE_MODULE_NAMES } from '@sluice/core'
import { Dice } from '../../packages/limiter/src/dice.test-helper.js'

export type Rules = readonly Readonly<Record<string, unknown>>[]

export type Step =
  | {
      readonly act: 'check'
      readonly call: Call
      readonly canWait: boolean
      readonly gate: boolean
    }
  | { readonly act: 'peek' | 'explain' | 'limits'; readonly call: Call }
  /** Gives back a receipt: 0 is the newest that there is. */
  | { readonly act: 'refund-receipt'; readonly back: number }
  | { readonly act: 'refund-call'; readonly call: Call }
  | { readonly act: 'reset'; readonly call: Call; readonly rule: string | undefined }
  | { readonly act: 'pass'; readonly us: number }
  /** Waits as long as the last refusal stated, less this many milliseconds. */
  | { readonly act: 'pass-retry'; readonly lessMs: number }
  | { readonly act: 'rules'; readonly rules: Rules }
  /** Sets overrides apart from the rules; limits of undefined take one away. */
  | { readonly act: 'overrides'; readonly changes: readonly OverrideStep[] }

export interface OverrideStep {
  readonly rule: string
  readonly caller: Readonly<Record<string, string>>
  readonly limits: readonly unknown[] | undefined
}

export interface Scenario {
  readonly layout: 'plain' | 'packed'
  readonly denyCacheMs: number
  readonly startUs: number
  readonly rules: Rules
  readonly steps: readonly Step[]
}

const WINDOWS = ['250ms', '1s', '7s', '1m', '1h', '1d'] as const
const WINDOWS_MS = [250, 1000, 7000, 60_000, 3_600_000, 86_400_000] as const
const USERS = ['ann', 'bob', 'cleo'] as const
const ADDRESSES = ['192.0.2.1', '192.0.2.2', '2001:db8::1'] as const
const KEYS = ['k1', 'k2'] as const
const PLANS = ['free', 'pro', 'partner'] as const
const COUNTED_BY = [['user'], ['ip'], ['api_key'], [], ['user', 'ip'], ['user']] as const
const BUCKETS: readonly string[] = ['token-bucket', 'gcra', 'leaky-bucket']
const RULES_MAX = 5
const LIMITS_MAX = 3
const RECEIPTS_BACK = 6
/** 2026-01-01T00:00:00Z. */
const START_US = 1_767_225_600_000_000
/** Seeds alternate between the layouts, and between a deny cache and none every other pair. */
const DENY_CACHE_MS = 1000

type Limits = readonly Readonly<Record<string, unknown>>[]

/** The caller decides whether rules load; numbers that do not fit together are drawn again. */
export function makeScenario(
  seed: number,
  stepCount: number,
  loads: (rules: Rules) => boolean,
): Scenario {
  return new Author(seed, loads).write(stepCount)
}

class Author {
  readonly #dice: Dice
  readonly #loads: (rules: Rules) => boolean
  readonly #layout: Scenario['layout']
  readonly #denyCacheMs: number
  /**
   * Whether limits of one name may change in every way. A Cluster takes from limits and gives back
   * to them if others refuse, so a bucket is brought up to date with the numbers of that moment,
   * and a single Redis leaves it alone: with other numbers later, both are right. So all rules then
   * count by one attribute, which makes a call one script on a Cluster too; otherwise buckets stay.
   */
  readonly #changesNumbers: boolean
  readonly #bucketOf = new Map<string, Limits[number]>()
  #rules: Rules

  constructor(seed: number, loads: (rules: Rules) => boolean) {
    this.#dice = new Dice(Math.imul(seed, 0x9e3779b1))
    this.#loads = loads
    this.#layout = seed % 2 === 0 ? 'plain' : 'packed'
    this.#denyCacheMs = seed % 4 < 2 ? 0 : DENY_CACHE_MS
    this.#changesNumbers = seed % 5 === 0
    this.#rules = this.draw(() => this.newRules())
  }

  write(stepCount: number): Scenario {
    const rules = this.#rules
    const steps = Array.from({ length: stepCount }, () => this.step())
    const startUs = START_US + this.#dice.below(86_400_000) * 1000 + this.#dice.below(1000)
    return { layout: this.#layout, denyCacheMs: this.#denyCacheMs, startUs, rules, steps }
  }

  private step(): Step {
    const dice = this.#dice
    const roll = dice.below(1000)
    if (roll < 500) {
      return { act: 'check', call: this.call(), canWait: !dice.oneIn(4), gate: dice.oneIn(8) }
    }
    if (roll < 700) return this.pass()
    if (roll < 760) return { act: 'peek', call: this.call() }
    if (roll < 800) return { act: 'explain', call: this.call() }
    if (roll < 840) return { act: 'limits', call: this.call() }
    if (roll < 900) return { act: 'refund-receipt', back: dice.below(RECEIPTS_BACK) }
    if (roll < 920) return { act: 'refund-call', call: this.call() }
    if (roll < 945) return { act: 'reset', call: this.call(), rule: this.ruleToReset() }
    if (roll < 975) return { act: 'overrides', changes: this.overrideChanges() }
    this.#rules = this.draw(() => this.changedRules())
    return { act: 'rules', rules: this.#rules }
  }

  private pass(): Step {
    const dice = this.#dice
    const windowMs = dice.pick(WINDOWS_MS)
    switch (dice.below(6)) {
      case 0:
        return { act: 'pass', us: dice.below(3000) }
      case 1:
        return { act: 'pass', us: dice.below(windowMs) * 1000 + dice.below(1000) }
      case 2:
        return { act: 'pass', us: windowMs * 1000 }
      case 3:
        return { act: 'pass', us: dice.below(2000) * 1000 }
      default:
        return { act: 'pass-retry', lessMs: dice.below(2) }
    }
  }

  private call(): Call {
    const dice = this.#dice
    const attributes: Record<string, string> = {}
    if (!dice.oneIn(5)) attributes['user'] = dice.pick(USERS)
    if (!dice.oneIn(4)) attributes['ip'] = dice.pick(ADDRESSES)
    if (!dice.oneIn(3)) attributes['api_key'] = dice.pick(KEYS)
    if (!dice.oneIn(3)) attributes['plan'] = dice.pick(PLANS)
    if (dice.oneIn(4)) attributes['tokens'] = String(dice.below(5))
    const cost = dice.oneIn(2) ? 1 : dice.pick([0, 2, 3, 7, 50])
    return { attributes, cost }
  }

  private ruleToReset(): string | undefined {
    return this.#dice.oneIn(2) ? undefined : String(this.#dice.pick(this.#rules)['id'])
  }

  private overrideChanges(): readonly OverrideStep[] {
    const dice = this.#dice
    return Array.from({ length: 1 + dice.below(2) }, () => {
      const rule = dice.pick(this.#rules)
      const caller = this.callerOf(rule['by'] as readonly string[])
      const limits = dice.oneIn(3) ? undefined : this.limits(true)
      return { rule: String(rule['id']), caller, limits }
    })
  }

  private newRules(): Rules {
    return Array.from({ length: 1 + this.#dice.below(RULES_MAX) }, (_, n) => this.rule(n))
  }

  /** Replaces a rule, promotes its candidate, adds or removes one. */
  private changedRules(): Rules {
    const dice = this.#dice
    const rules = [...this.#rules]
    const at = dice.below(rules.length)
    const rule = rules[at]
    if (rule === undefined) return rules
    const { candidate, ...others } = rule
    if (candidate !== undefined && dice.oneIn(2)) {
      const promoted = candidate as { readonly limits: unknown; readonly tiers?: unknown }
      rules[at] = { ...others, ...promoted }
    } else if (dice.oneIn(4) && rules.length > 1) {
      rules.splice(at, 1)
    } else if (dice.oneIn(4) && rules.length < RULES_MAX) {
      const taken = new Set(rules.map(({ id }) => id))
      const free = Array.from({ length: RULES_MAX }, (_, n) => n).find((n) => !taken.has(`r${n}`))
      rules.push(this.rule(free ?? 0))
    } else {
      rules[at] = this.rule(Number(String(rule['id']).slice(1)))
    }
    return rules
  }

  private rule(n: number): Rules[number] {
    const dice = this.#dice
    const by = this.#changesNumbers ? ['user'] : dice.pick(COUNTED_BY)
    const roll = dice.below(20)
    return {
      id: `r${n}`,
      by,
      ...(dice.oneIn(6) ? { match: { where: { plan: dice.pick(PLANS) } } } : {}),
      limits: this.limits(false),
      ...(dice.oneIn(3) ? { tiers: this.tiers() } : {}),
      ...(dice.oneIn(4) ? { overrides: [this.override(by)] } : {}),
      ...(dice.oneIn(3) ? { candidate: this.candidate() } : {}),
      ...(dice.oneIn(5) ? { cost: dice.pick([0, 2, { attribute: 'tokens' }]) } : {}),
      mode: roll < 14 ? 'enforce' : roll < 19 ? 'shadow' : 'off',
    }
  }

  private tiers(): unknown {
    const dice = this.#dice
    return {
      plan: {
        pro: this.limits(true),
        ...(dice.oneIn(2) ? { partner: dice.oneIn(2) ? [] : this.limits(true) } : {}),
      },
    }
  }

  private candidate(): unknown {
    const tiers = this.#dice.oneIn(3) ? { tiers: this.tiers() } : {}
    return { limits: this.limits(false), ...tiers }
  }

  private override(by: readonly string[]): unknown {
    const dice = this.#dice
    const until = new Date(START_US / 1000 + dice.below(172_800_000)).toISOString()
    return {
      caller: this.callerOf(by),
      limits: this.limits(true),
      ...(dice.oneIn(3) ? { until } : {}),
    }
  }

  private callerOf(by: readonly string[]): Record<string, string> {
    const values: Attributes = {
      user: this.#dice.pick(USERS),
      ip: this.#dice.pick(ADDRESSES),
      api_key: this.#dice.pick(KEYS),
    }
    return Object.fromEntries(by.map((name) => [name, String(values[name])]))
  }

  private limits(mayBeNone: boolean): Limits {
    const dice = this.#dice
    if (mayBeNone && dice.oneIn(4)) return []
    return Array.from({ length: 1 + dice.below(LIMITS_MAX) }, (_, n) => this.limit(n))
  }

  private limit(n: number): Limits[number] {
    const module = this.#dice.pick(RATE_MODULE_NAMES)
    const choice = MODULE_CHOICES[module]
    const { algorithm } = choice
    const window = choice.window ?? this.#dice.pick(WINDOWS)
    const name = this.nameOf(module, window, n)
    const max = this.max(algorithm)
    const onRefusal = this.onRefusal(algorithm, max)
    const numbers = { ...choice, window, name, max, ...this.numbers(algorithm, max) }
    const others = { ...onRefusal, ...this.block(algorithm) }
    if (this.#changesNumbers || !BUCKETS.includes(algorithm)) return { ...numbers, ...others }
    const known = this.#bucketOf.get(name) ?? numbers
    this.#bucketOf.set(name, known)
    return { ...known, ...others }
  }

  private onRefusal(algorithm: string, max: number): object {
    const dice = this.#dice
    const canOwe = algorithm !== 'leaky-bucket' && max > 0
    const debt = canOwe && dice.oneIn(3) ? { debt: dice.below(10) } : {}
    if (!dice.oneIn(4)) return debt
    if (!canOwe || dice.oneIn(2)) return { ...debt, onRefusal: 'charge' }
    return { ...debt, onRefusal: 'overdraw' }
  }

  /**
   * A leaky bucket in another slot of a Cluster is not reached by a call that other limits refuse,
   * so its block does not begin as in one store.
   */
  private block(algorithm: string): object {
    const dice = this.#dice
    if (!dice.oneIn(4) || (algorithm === 'leaky-bucket' && !this.#changesNumbers)) return {}
    const first = dice.pick(WINDOWS)
    if (dice.oneIn(3)) return { block: first }
    const factor = dice.pick([1, 2, 3])
    return { block: { first, factor, max: dice.pick(['1d', '7d']), forget: dice.pick(WINDOWS) } }
  }

  /**
   * A name keeps its window. In the packed layout a log has its own key, which stays while another
   * algorithm counts under the same name; so there a log has its own names.
   */
  private nameOf(algorithm: string, window: string, n: number): string {
    if (!this.#changesNumbers) return `${algorithm}-${window}-${n}`
    const isApart = this.#layout === 'packed' && algorithm === 'sliding-window-log'
    return `${isApart ? 'log' : 'any'}-${window}-${n}`
  }

  private max(algorithm: string): number {
    const dice = this.#dice
    if (dice.oneIn(25)) return 0
    if (!dice.oneIn(8)) return 1 + dice.below(12)
    return algorithm === 'sliding-window-log' ? 10_000 : 1_000_000_007
  }

  private numbers(algorithm: string, max: number): object {
    const dice = this.#dice
    if (max === 0 || !BUCKETS.includes(algorithm)) return {}
    if (algorithm === 'leaky-bucket') {
      return {
        ...(dice.oneIn(2) ? { queue: 1 + dice.below(8) } : {}),
        ...(dice.oneIn(2) ? { maxWait: dice.pick(WINDOWS) } : {}),
      }
    }
    return {
      ...(dice.oneIn(2) ? { burst: 1 + dice.below(12) } : {}),
      ...(dice.oneIn(3) ? { wait: dice.pick(['1ms', '500ms', '10s', '2h']) } : {}),
    }
  }

  private draw(make: () => Rules): Rules {
    for (;;) {
      const rules = make()
      if (this.#loads(rules)) return rules
    }
  }
}
