/** The calls of descriptors, as metrics, statistics and logs see them. */
import type {
  Attributes,
  Call,
  CompiledLimit,
  CompiledRule,
  Hash64,
  MatchedRule,
  NormalizedCall,
  Plan,
  PlannedTake,
} from '@sluice/core'
import { OVERRIDE_ATTRIBUTE } from './descriptor-limits.js'
import { attributeValues } from './limit-names.js'
import { attributesOf } from './native-attributes.js'
import type { DescriptorEntry } from './rate-limit-messages.js'

export type ReportedCall = Call

/** Masks the values of secret attributes. */
export type MaskSecrets = (attributes: Attributes) => Attributes

const NO_SHADOWS: readonly string[] = []
const NO_TAKES: readonly PlannedTake[] = []

/**
 * A descriptor with its limit, as one object for all who read it: the call, its view, and the rule
 * that it matched. Its attributes are made only if somebody reads them.
 */
export class DescriptorCall implements Call, NormalizedCall, MatchedRule {
  readonly rule: CompiledRule
  readonly limits: readonly CompiledLimit[]
  readonly caller: Hash64
  readonly cost: number
  readonly candidate = undefined
  readonly override = undefined
  readonly priority = undefined
  readonly address = undefined
  readonly route = undefined
  /** Keys and values in turn. */
  readonly #counter: readonly string[] | undefined
  readonly #entries: readonly DescriptorEntry[]
  readonly #mask: MaskSecrets
  #attributes: Attributes | undefined

  /** Without `counter` it is an override, which counts by all entries. */
  constructor(
    rule: CompiledRule,
    caller: Hash64,
    cost: number,
    counter: readonly string[] | undefined,
    entries: readonly DescriptorEntry[],
    mask: MaskSecrets,
  ) {
    this.rule = rule
    this.limits = rule.limits
    this.caller = caller
    this.cost = cost
    this.#counter = counter
    this.#entries = entries
    this.#mask = mask
    this.#attributes = undefined
  }

  get view(): NormalizedCall {
    return this
  }

  get attributes(): Attributes {
    this.#attributes ??= this.makeAttributes()
    return this.#attributes
  }

  get method(): string | undefined {
    return this.text('method')
  }

  get path(): string | undefined {
    return this.text('path')
  }

  get ip(): string | undefined {
    return this.text('ip')
  }

  private text(name: string): string | undefined {
    const value = Object.hasOwn(this.attributes, name) ? this.attributes[name] : undefined
    return typeof value === 'string' ? value : undefined
  }

  private makeAttributes(): Attributes {
    const counter = this.#counter
    if (counter === undefined) {
      const pairs = this.#entries.map(({ key, value }) => [key, value] as const)
      const masked = this.#mask(Object.fromEntries(pairs))
      const shown = Object.entries(masked).map(([key, value]) => `${key}=${String(value)}`)
      return { [OVERRIDE_ATTRIBUTE]: shown.join(' ') }
    }
    return this.#mask(attributeValues(this.rule.by, counter))
  }
}

/** A descriptor without a limit. */
export class UnmatchedCall implements Call {
  readonly cost: number
  readonly #domain: string
  readonly #entries: readonly DescriptorEntry[]
  readonly #mask: MaskSecrets

  constructor(
    domain: string,
    entries: readonly DescriptorEntry[],
    cost: number,
    mask: MaskSecrets,
  ) {
    this.cost = cost
    this.#domain = domain
    this.#entries = entries
    this.#mask = mask
  }

  get attributes(): Attributes {
    return this.#mask(attributesOf(this.#domain, this.#entries))
  }
}

/** The take of one descriptor. A class for the same reason as those of ordinary plans. */
export class DescriptorTake implements PlannedTake {
  readonly key: PlannedTake['key']
  readonly limit: PlannedTake['limit']
  readonly amount: number
  readonly atLeast = undefined
  readonly compiled: CompiledLimit
  readonly gate: boolean
  readonly overdraw: boolean

  constructor(
    key: PlannedTake['key'],
    limit: PlannedTake['limit'],
    amount: number,
    compiled: CompiledLimit,
    gate: boolean,
    overdraw: boolean,
  ) {
    this.key = key
    this.limit = limit
    this.amount = amount
    this.compiled = compiled
    this.gate = gate
    this.overdraw = overdraw
  }
}

/** The plan of one descriptor with one limit. */
export class DescriptorPlan implements Plan {
  readonly matched: readonly MatchedRule[]
  readonly groups: readonly (readonly PlannedTake[])[]
  readonly shadows: readonly string[]

  constructor(match: MatchedRule, take: PlannedTake) {
    const isShadow = match.rule.mode === 'shadow'
    this.matched = [match]
    this.groups = isShadow ? [NO_TAKES, [take]] : [[take]]
    this.shadows = isShadow ? [match.rule.id] : NO_SHADOWS
  }
}
