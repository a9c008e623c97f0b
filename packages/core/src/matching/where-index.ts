/**
 * The rules that share one path and method, found by their `where` values.
 *
 * Each rule is filed under one of its conditions: the attribute that tells most rules apart. A call
 * then looks up its own values; what is found still has its other conditions checked.
 */
import { type Cidr, cidrContains } from '../identity/cidr.js'
import { type Address, maskWord } from '../identity/address.js'
import type { CompiledRule } from './compiled.js'
import type { Facts } from './facts.js'
import { readFact } from './facts.js'

interface AddressEntry {
  readonly cidr: Cidr
  readonly rule: CompiledRule
}

export class WhereIndex {
  readonly #always: CompiledRule[] = []
  readonly #byValue = new Map<string, Map<string, CompiledRule[]>>()
  /** By version, length and network, so that 10,000 address lists cost one look-up per length. */
  readonly #byNetwork = new Map<string, AddressEntry[]>()
  readonly #lengths = new Map<number, { readonly version: 4 | 6; readonly bits: number }>()

  constructor(rules: readonly CompiledRule[]) {
    const variety = countValues(rules)
    for (const rule of rules) this.file(rule, variety)
  }

  find(facts: Facts, found: CompiledRule[]): void {
    for (let i = 0; i < this.#always.length; i++) {
      const rule = this.#always[i]
      if (rule !== undefined) found.push(rule)
    }
    if (this.#byValue.size > 0) this.findValues(facts, found)
    if (this.#lengths.size > 0 && facts.address !== undefined)
      this.findAddress(facts.address, found)
  }

  /** The most limits that one call could meet here, given how many each rule has. */
  heaviest(weightOf: (rule: CompiledRule) => number): number {
    const sum = (rules: readonly CompiledRule[]) =>
      rules.reduce((total, rule) => total + weightOf(rule), 0)
    let total = sum(this.#always)
    for (const rules of this.#byValue.values()) {
      total += Math.max(...[...rules.values()].map(sum))
    }
    const perLength = new Map<number, number>()
    for (const entries of this.#byNetwork.values()) {
      const [first] = entries
      if (first === undefined) continue
      const length = lengthKey(first.cidr)
      const weight = sum(entries.map((entry) => entry.rule))
      perLength.set(length, Math.max(perLength.get(length) ?? 0, weight))
    }
    for (const weight of perLength.values()) total += weight
    return total
  }

  private file(rule: CompiledRule, variety: ReadonlyMap<string, number>): void {
    const equals = rule.conditions.filter((condition) => condition.values !== undefined)
    const [best] = equals.toSorted(
      (a, b) => (variety.get(b.attribute) ?? 0) - (variety.get(a.attribute) ?? 0),
    )
    if (best?.values !== undefined) {
      const byValue = getOrMake(this.#byValue, best.attribute, () => new Map())
      for (const value of best.values) getOrMake(byValue, value, () => []).push(rule)
      return
    }
    const cidrs = rule.conditions.find((condition) => condition.cidrs !== undefined)?.cidrs
    if (cidrs === undefined) {
      this.#always.push(rule)
      return
    }
    for (const cidr of cidrs) {
      this.#lengths.set(lengthKey(cidr), { version: cidr.version, bits: cidr.bits })
      getOrMake(this.#byNetwork, networkKey(cidr, cidr.bits), () => []).push({ cidr, rule })
    }
  }

  private findValues(facts: Facts, found: CompiledRule[]): void {
    for (const [attribute, rules] of this.#byValue) {
      const value = readFact(facts, attribute)
      const matching = value === undefined ? undefined : rules.get(value)
      if (matching !== undefined) found.push(...matching)
    }
  }

  private findAddress(address: Address, found: CompiledRule[]): void {
    for (const { version, bits } of this.#lengths.values()) {
      if (version !== address.version) continue
      for (const { cidr, rule } of this.#byNetwork.get(networkKey(address, bits)) ?? []) {
        if (cidrContains(cidr, address) && !found.includes(rule)) found.push(rule)
      }
    }
  }
}

function countValues(rules: readonly CompiledRule[]): Map<string, number> {
  const values = new Map<string, Set<string>>()
  for (const rule of rules) {
    for (const condition of rule.conditions) {
      const seen = getOrMake(values, condition.attribute, () => new Set<string>())
      for (const value of condition.values ?? []) seen.add(value)
    }
  }
  return new Map([...values].map(([attribute, seen]) => [attribute, seen.size]))
}

function lengthKey(cidr: Cidr): number {
  return cidr.version * 1000 + cidr.bits
}

function networkKey(address: Address, bits: number): string {
  const skip = address.version === 4 ? 96 : 0
  const word = (value: number, index: number) => maskWord(value, skip + bits - 32 * index)
  const { a, b, c, d } = address
  return `${address.version}/${bits}/${word(a, 0)}.${word(b, 1)}.${word(c, 2)}.${word(d, 3)}`
}

function getOrMake<Key, Value>(map: Map<Key, Value>, key: Key, make: () => Value): Value {
  let value = map.get(key)
  if (value === undefined) {
    value = make()
    map.set(key, value)
  }
  return value
}
