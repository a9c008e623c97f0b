/**
 * The rules that share one path and method, found by their `where` values.
 *
 * Each rule is filed under one of its conditions, the attribute that tells most rules apart. A call
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

/** Most values lead to one rule, which then stands there without a list around it. */
type OneOrMore = CompiledRule | CompiledRule[]

interface ValueTable {
  readonly attribute: string
  readonly rules: Map<string, OneOrMore>
}

export class WhereIndex {
  readonly #always: CompiledRule[] = []
  readonly #tables: ValueTable[] = []
  /** By version, length and network, so that 10,000 address lists cost one look-up per length. */
  readonly #byNetwork = new Map<string, AddressEntry[]>()
  readonly #lengths = new Map<number, { readonly version: 4 | 6; readonly bits: number }>()

  constructor(rules: readonly CompiledRule[]) {
    for (const rule of rules) this.file(rule)
  }

  find(facts: Facts, found: CompiledRule[]): void {
    for (let i = 0; i < this.#always.length; i++) append(found, this.#always[i])
    for (let i = 0; i < this.#tables.length; i++) {
      const table = this.#tables[i]
      const value = table && readFact(facts, table.attribute)
      const matching = value === undefined ? undefined : table?.rules.get(value)
      if (matching === undefined) continue
      if (!Array.isArray(matching)) found.push(matching)
      else for (let j = 0; j < matching.length; j++) append(found, matching[j])
    }
    if (this.#lengths.size > 0 && facts.address !== undefined)
      this.findAddress(facts.address, found)
  }

  /** The most limits that one call could meet here, given how many each rule has. */
  heaviest(weightOf: (rule: CompiledRule) => number): number {
    const sum = (rules: readonly CompiledRule[]) =>
      rules.reduce((total, rule) => total + weightOf(rule), 0)
    let total = sum(this.#always)
    for (const { rules } of this.#tables) {
      let heaviest = 0
      for (const some of rules.values()) heaviest = Math.max(heaviest, sum([some].flat()))
      total += heaviest
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

  private file(rule: CompiledRule): void {
    const { filedUnder } = rule
    if (filedUnder?.values !== undefined) {
      const rules = this.tableOf(filedUnder.attribute)
      for (const value of filedUnder.values) {
        const before = rules.get(value)
        rules.set(value, before === undefined ? rule : [before, rule].flat())
      }
    } else if (filedUnder?.cidrs !== undefined) {
      for (const cidr of filedUnder.cidrs) {
        this.#lengths.set(lengthKey(cidr), { version: cidr.version, bits: cidr.bits })
        getOrMake(this.#byNetwork, networkKey(cidr, cidr.bits), () => []).push({ cidr, rule })
      }
    } else {
      this.#always.push(rule)
    }
  }

  private tableOf(attribute: string): Map<string, OneOrMore> {
    const known = this.#tables.find((table) => table.attribute === attribute)
    if (known !== undefined) return known.rules
    const rules = new Map<string, OneOrMore>()
    this.#tables.push({ attribute, rules })
    return rules
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

function append(found: CompiledRule[], rule: CompiledRule | undefined): void {
  if (rule !== undefined) found.push(rule)
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
