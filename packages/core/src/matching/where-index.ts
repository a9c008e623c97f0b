/**
 * Indexes the rules that share one path and method by their `where` values.
 *
 * Each rule is indexed by one of its conditions, that of the most selective attribute. A call looks
 * up its own values; the rules found still have their other conditions checked.
 */
import { type Cidr, cidrContains } from '../identity/cidr.js'
import { type Address, maskWord } from '../identity/address.js'
import type { IndexedRule } from './compiled.js'
import type { NormalizedCall } from './call-view.js'
import { readNormalized } from './call-view.js'

interface AddressEntry<Rule> {
  readonly cidr: Cidr
  readonly rule: Rule
}

/** Most values lead to one rule, which is then stored without a list. */
type OneOrMore<Rule> = Rule | Rule[]

interface ValueTable<Rule> {
  readonly attribute: string
  readonly rules: Map<string, OneOrMore<Rule>>
}

/** By version, length and network, so that 10,000 address lists cost one lookup per length. */
interface Networks<Rule> {
  readonly rules: Map<string, AddressEntry<Rule>[]>
  readonly lengths: Map<number, { readonly version: 4 | 6; readonly bits: number }>
}

export class WhereIndex<Rule extends IndexedRule> {
  readonly #always: Rule[] = []
  readonly #tables: ValueTable<Rule>[] = []
  /** Usually undefined, to save memory: a set may have an index for each of 10,000 paths. */
  #networks: Networks<Rule> | undefined

  constructor(rules: readonly Rule[]) {
    for (const rule of rules) this.file(rule)
  }

  find(view: NormalizedCall, found: Rule[]): void {
    for (let i = 0; i < this.#always.length; i++) append(found, this.#always[i])
    for (let i = 0; i < this.#tables.length; i++) {
      const table = this.#tables[i]
      const value = table && readNormalized(view, table.attribute)
      const matching = value === undefined ? undefined : table?.rules.get(value)
      if (matching === undefined) continue
      if (!Array.isArray(matching)) found.push(matching)
      else for (let j = 0; j < matching.length; j++) append(found, matching[j])
    }
    const networks = this.#networks
    if (networks === undefined || view.address === undefined) return
    findAddress(networks, view.address, found)
  }

  private file(rule: Rule): void {
    const { filedUnder } = rule
    if (filedUnder?.values !== undefined) {
      const rules = this.tableOf(filedUnder.attribute)
      for (const value of filedUnder.values) {
        const before = rules.get(value)
        if (before === undefined) rules.set(value, rule)
        else if (Array.isArray(before)) before.push(rule)
        else rules.set(value, [before, rule])
      }
    } else if (filedUnder?.cidrs !== undefined) {
      this.#networks ??= { rules: new Map(), lengths: new Map() }
      const { rules, lengths } = this.#networks
      for (const cidr of filedUnder.cidrs) {
        lengths.set(lengthKey(cidr), { version: cidr.version, bits: cidr.bits })
        getOrMake(rules, networkKey(cidr, cidr.bits), () => []).push({ cidr, rule })
      }
    } else {
      this.#always.push(rule)
    }
  }

  private tableOf(attribute: string): Map<string, OneOrMore<Rule>> {
    const known = this.#tables.find((table) => table.attribute === attribute)
    if (known !== undefined) return known.rules
    const rules = new Map<string, OneOrMore<Rule>>()
    this.#tables.push({ attribute, rules })
    return rules
  }
}

function findAddress<Rule>(
  { rules, lengths }: Networks<Rule>,
  address: Address,
  found: Rule[],
): void {
  for (const { version, bits } of lengths.values()) {
    if (version !== address.version) continue
    for (const { cidr, rule } of rules.get(networkKey(address, bits)) ?? []) {
      if (cidrContains(cidr, address) && !found.includes(rule)) found.push(rule)
    }
  }
}

function append<Rule>(found: Rule[], rule: Rule | undefined): void {
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
