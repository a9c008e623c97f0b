/**
 * The overrides of one rule, by caller. The index is immutable: a change makes another index that
 * shares all shards but the changed one, so that one of 100,000 overrides is set in microseconds
 * while every snapshot keeps its own.
 *
 * Shards are small maps. The high half of a caller's hash selects the shard, the low half is the
 * key in it; callers that collide there are chained and distinguished by their values.
 */
import type { LimitSpec } from '../limit.js'
import type { Hash64 } from '../sip-hash.js'
import { CallerFilter } from './caller-filter.js'
import type { CompiledLimit } from './compiled.js'

/** The address version and prefix length of a network. */
export interface NetworkLength {
  readonly version: 4 | 6
  readonly bits: number
}

/** A network, with its `networkCode`. */
export interface Network extends NetworkLength {
  readonly code: number
}

interface OverrideFields {
  /** The normalized values of the caller. */
  readonly caller: readonly string[]
  /** The network in its `ip`, whose callers each have these limits; undefined for one caller. */
  readonly network: Network | undefined
  readonly limits: readonly CompiledLimit[]
  /** The wall-clock time at which it ends; Infinity if it has no end. */
  readonly untilMs: number
  /** Whether it was set separately and not as a part of its rule. */
  readonly isStandalone: boolean
  /** The caller and the limits as written, to compile them again. */
  readonly writtenCaller: readonly string[]
  readonly specs: readonly LimitSpec[]
}

/** An override, with the hash of its caller. */
export class CompiledOverride implements OverrideFields, Hash64 {
  readonly hi: number
  readonly lo: number
  readonly caller: readonly string[]
  readonly network: Network | undefined
  readonly limits: readonly CompiledLimit[]
  readonly untilMs: number
  readonly isStandalone: boolean
  readonly writtenCaller: readonly string[]
  readonly specs: readonly LimitSpec[]
  readonly next: CompiledOverride | undefined

  constructor({ hi, lo }: Hash64, fields: OverrideFields, next?: CompiledOverride) {
    this.hi = hi
    this.lo = lo
    this.caller = fields.caller
    this.network = fields.network
    this.limits = fields.limits
    this.untilMs = fields.untilMs
    this.isStandalone = fields.isStandalone
    this.writtenCaller = fields.writtenCaller
    this.specs = fields.specs
    this.next = next
  }
}

/** Removes the standalone override of the caller in this spelling. */
export interface Removal {
  readonly hash: Hash64
  readonly network: Network | undefined
  readonly writtenCaller: readonly string[]
}

type Shard = Map<number, CompiledOverride>

/** The filters that rule out most callers without an override. */
interface Filters {
  readonly callers: CallerFilter
  /** By the codes of networks. */
  readonly networks: CallerFilter
}

/** The number of entries that filters must have room for. */
interface FilterCapacity {
  readonly callers: number
  readonly networks: number
}

interface LengthCount {
  readonly network: NetworkLength
  readonly count: number
}

interface Totals {
  readonly size: number
  readonly ending: number
  /** How many networks of each length there are. */
  readonly lengths: ReadonlyMap<number, LengthCount>
}

const NO_LIMITS: readonly CompiledLimit[] = []

/** A change copies one shard and the list of shards; this size keeps both small. */
const SHARD_SIZE = 64
const SHARD_SIZE_MAX = 4 * SHARD_SIZE
const SHARD_SIZE_MIN = SHARD_SIZE / 8

export class OverrideIndex {
  static readonly EMPTY = new OverrideIndex(
    [new Map()],
    filtersOf([], { callers: 0, networks: 0 }),
    {
      size: 0,
      ending: 0,
      lengths: new Map(),
    },
  )

  readonly size: number
  /** How many overrides have an end. */
  readonly ending: number
  /** The lengths of its networks, longest first: a call looks up each one. */
  readonly networks: readonly NetworkLength[]
  readonly #lengths: Totals['lengths']
  #networkLimits: readonly CompiledLimit[] | undefined
  readonly #shards: readonly Shard[]
  readonly #mask: number
  readonly #filters: Filters

  private constructor(shards: readonly Shard[], filters: Filters, totals: Totals) {
    this.#shards = shards
    this.#filters = filters
    this.#mask = shards.length - 1
    this.size = totals.size
    this.ending = totals.ending
    this.#lengths = totals.lengths
    this.networks = [...totals.lengths.values()]
      .map(({ network }) => network)
      .toSorted((a, b) => b.bits - a.bits)
  }

  /** The limits that callers of networks may have, each once. */
  get networkLimits(): readonly CompiledLimit[] {
    if (this.networks.length === 0) return NO_LIMITS
    this.#networkLimits ??= [
      ...new Set(
        this.all().flatMap(({ network, limits }) => (network === undefined ? [] : limits)),
      ),
    ]
    return this.#networkLimits
  }

  /**
   * Returns the caller's own override, unless it has ended. Callers are identified by their hashes,
   * like their counters. The override of a network is found by the hash with the network in place
   * of the address.
   */
  find(caller: Hash64, wallMs: number): CompiledOverride | undefined {
    if (!this.#filters.callers.mayHave(caller.lo)) return undefined
    let own = this.#shards[caller.hi & this.#mask]?.get(caller.lo)
    while (own !== undefined) {
      if (own.hi === caller.hi && own.untilMs > wallMs) return own
      own = own.next
    }
    return undefined
  }

  /** False if there is no network of that `networkCode`; true may be a false positive. */
  mayHaveNetwork(code: number): boolean {
    return this.#filters.networks.mayHave(code)
  }

  /** Returns all overrides for callers of one hash, ended or not. */
  allFor(caller: Hash64): readonly CompiledOverride[] {
    const first = this.#shards[caller.hi & this.#mask]?.get(caller.lo)
    return chainOf(first).filter(({ hi }) => hi === caller.hi)
  }

  all(): readonly CompiledOverride[] {
    return this.#shards.flatMap((shard) => [...shard.values()].flatMap(chainOf))
  }

  /**
   * Returns the index after these changes, in order. A standalone override replaces the one for the
   * caller in the same spelling; those of the rule itself are added.
   */
  with(changes: readonly (CompiledOverride | Removal)[]): OverrideIndex {
    const most = this.size + changes.length
    const isCrowded = most > SHARD_SIZE_MAX * this.#shards.length
    const shards = isCrowded ? distribute(this.all(), most) : [...this.#shards]
    // The filters of the empty index are shared by all and stay empty.
    const room = { callers: most, networks: this.networkCount + networksAmong(changes) }
    const isRoomy = this.size > 0 && haveRoomFor(this.#filters, room)
    const filters = isRoomy ? this.#filters : filtersOf(this.all(), room)
    // Shards of this index are copied before a write; newly distributed ones are not shared yet.
    const own = new Set(isCrowded ? shards : [])
    let { size, ending } = this
    const lengths = new Map(this.#lengths)
    for (const change of changes) {
      const isSet = change instanceof CompiledOverride
      const hash = isSet ? change : change.hash
      const i = hash.hi & (shards.length - 1)
      let shard = shards[i] ?? new Map<number, CompiledOverride>()
      if (!own.has(shard)) {
        shard = new Map(shard)
        own.add(shard)
        shards[i] = shard
      }
      if (isSet) addToFilters(filters, change)
      const before = shard.get(hash.lo)
      const after = isSet ? link(before, change) : unlink(before, change.writtenCaller)
      setChain(shard, hash.lo, after)
      size += countOf(after) - countOf(before)
      ending += countOf(after, hasEnd) - countOf(before, hasEnd)
      countLengths(lengths, before, -1)
      countLengths(lengths, after, 1)
    }
    if (size === 0) return OverrideIndex.EMPTY
    const totals = { size, ending, lengths }
    const changed = new OverrideIndex(shards, filters, totals)
    if (shards.length === 1 || size >= SHARD_SIZE_MIN * shards.length) return changed
    const all = changed.all()
    const left = { callers: size, networks: changed.networkCount }
    return new OverrideIndex(distribute(all, size), filtersOf(all, left), totals)
  }

  private get networkCount(): number {
    let networks = 0
    for (const { count } of this.#lengths.values()) networks += count
    return networks
  }
}

function filtersOf(
  overrides: readonly CompiledOverride[],
  { callers, networks }: FilterCapacity,
): Filters {
  const filters = { callers: new CallerFilter(callers), networks: new CallerFilter(networks) }
  for (const override of overrides) addToFilters(filters, override)
  return filters
}

function addToFilters({ callers, networks }: Filters, { lo, network }: CompiledOverride): void {
  callers.add(lo)
  if (network !== undefined) networks.add(network.code)
}

/** Whether both are large enough. */
function haveRoomFor({ callers, networks }: Filters, room: FilterCapacity): boolean {
  return callers.hasRoomFor(room.callers) && networks.hasRoomFor(room.networks)
}

function networksAmong(changes: readonly (CompiledOverride | Removal)[]): number {
  let networks = 0
  for (const { network } of changes) if (network !== undefined) networks++
  return networks
}

/** Distributes overrides over as many shards as suit `size` of them. */
function distribute(overrides: readonly CompiledOverride[], size: number): Shard[] {
  let count = 1
  while (count * SHARD_SIZE < size) count *= 2
  const shards = Array.from({ length: count }, (): Shard => new Map())
  for (const override of overrides) {
    const shard = shards[override.hi & (count - 1)]
    if (shard !== undefined) setChain(shard, override.lo, link(shard.get(override.lo), override))
  }
  return shards
}

function setChain(shard: Shard, lo: number, chain: CompiledOverride | undefined): void {
  if (chain === undefined) shard.delete(lo)
  else shard.set(lo, chain)
}

function link(chain: CompiledOverride | undefined, own: CompiledOverride) {
  if (chain === undefined) return own.next === undefined ? own : chained([own])
  const before = chainOf(chain)
  const others = own.isStandalone
    ? before.filter((other) => !isStandaloneFor(other, own.writtenCaller))
    : before
  return chained([...others, own].toSorted(compare))
}

function unlink(chain: CompiledOverride | undefined, writtenCaller: readonly string[]) {
  return chained(chainOf(chain).filter((other) => !isStandaloneFor(other, writtenCaller)))
}

function isStandaloneFor(override: CompiledOverride, writtenCaller: readonly string[]): boolean {
  return override.isStandalone && isSameList(override.writtenCaller, writtenCaller)
}

/**
 * Orders standalone overrides first, by their spelling: nodes that received them one by one and
 * nodes that read all at once must agree if two spellings name one caller.
 */
function compare(a: CompiledOverride, b: CompiledOverride): number {
  if (a.isStandalone !== b.isStandalone) return a.isStandalone ? -1 : 1
  if (!a.isStandalone) return 0
  const at = a.writtenCaller.findIndex((value, i) => value !== b.writtenCaller[i])
  return (a.writtenCaller[at] ?? '') < (b.writtenCaller[at] ?? '') ? -1 : 1
}

function chained(overrides: readonly CompiledOverride[]): CompiledOverride | undefined {
  return overrides.reduceRight<CompiledOverride | undefined>(
    (next, own) => (own.next === next ? own : new CompiledOverride(own, own, next)),
    undefined,
  )
}

function chainOf(first: CompiledOverride | undefined): readonly CompiledOverride[] {
  const chain: CompiledOverride[] = []
  for (let own = first; own !== undefined; own = own.next) chain.push(own)
  return chain
}

function countOf(
  first: CompiledOverride | undefined,
  counts: (override: CompiledOverride) => boolean = () => true,
): number {
  let count = 0
  for (let own = first; own !== undefined; own = own.next) if (counts(own)) count += 1
  return count
}

/** Adds or subtracts one for each override of a network in a chain. */
function countLengths(
  lengths: Map<number, LengthCount>,
  first: CompiledOverride | undefined,
  sign: 1 | -1,
): void {
  for (let own = first; own !== undefined; own = own.next) {
    if (own.network === undefined) continue
    const { version, bits } = own.network
    const key = version * 1000 + bits
    const count = (lengths.get(key)?.count ?? 0) + sign
    if (count === 0) lengths.delete(key)
    else lengths.set(key, { network: { version, bits }, count })
  }
}

function hasEnd({ untilMs }: CompiledOverride): boolean {
  return untilMs !== Infinity
}

export function isSameList(a: readonly string[], b: readonly string[]): boolean {
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false
  return true
}
