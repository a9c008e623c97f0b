/** One counter of the store, and everything known about it from outside. */
import { algorithmOf, type CompiledLimit, type CounterKey, type Limit } from '@sluice/core'

/** A limit of a rule for one caller: of its tier, and of each version of the rule. */
export interface Counter {
  readonly name: string
  readonly key: CounterKey
  /** A readable name. */
  readonly label: string
  /** Its rule. */
  readonly rule: string
  /** Whether it belongs to a rule in shadow, or to a candidate. */
  readonly isShadow: boolean
  /** The distinct limits by which calls have used it: one, unless rules change or have tiers. */
  readonly variants: CompiledLimit[]
  /** When the store reset it, in true time. */
  readonly resetsUs: number[]
  /**
   * Units that the store forgave: when another limit took over, and when a caller's window was
   * moved back to units that were spent without the store, so that the next one begins earlier.
   */
  readonly forgiven: { readonly us: number; readonly units: number }[]
  /** Units given back, when, and when they had been taken; in true time. */
  readonly returned: { readonly takenUs: number; readonly us: number; readonly units: number }[]
  /** The limit by which the store last changed it. */
  lastLimit: Limit | undefined
}

export function newCounter(
  key: CounterKey,
  { rule, limit }: CompiledLimit,
  isShadow: boolean,
): Counter {
  const name = nameOf(key)
  const label = `${rule} ${limit.name}${isShadow ? ' in shadow' : ''} (${name})`
  const lists = { variants: [], resetsUs: [], forgiven: [], returned: [] }
  return { name, key, label, rule, isShadow, ...lists, lastLimit: undefined }
}

export function nameOf({ hi, lo }: CounterKey): string {
  return `${hi}.${lo}`
}

/**
 * The store changes the counter by a limit. If that is another limit than before, usage of a bucket
 * is cut to what the new one holds, and the fraction of a unit may be read differently; a queue
 * stays as long in time, not in calls. Returns whether it is another limit.
 */
export function changeLimit(counter: Counter, limit: Limit, us: number): boolean {
  const last = counter.lastLimit
  counter.lastLimit = limit
  if (last === undefined || isSameLimit(last, limit)) return false
  const { algorithm, capacity, debt } = limit
  const forgotten = Math.max(0, last.capacity + last.debt - capacity - debt)
  if (isBucket(limit)) counter.forgiven.push({ us, units: 1 + forgotten })
  if (algorithm === 'leaky-bucket') counter.forgiven.push({ us, units: 1 + last.capacity })
  return true
}

/** Whether it was counted by one limit only and never reset, as some bounds require. */
export function hasOneLimit({ variants, resetsUs }: Counter): boolean {
  return variants.length === 1 && resetsUs.length === 0
}

export function isEver({ variants }: Counter, coordination: CompiledLimit['coordination']) {
  return variants.some((compiled) => compiled.coordination === coordination)
}

/** Adds a limit by which it was not used before. */
export function addVariant({ variants }: Counter, compiled: CompiledLimit): void {
  if (!variants.some((other) => isSame(other, compiled))) variants.push(compiled)
}

/** The largest value of a property among its limits. */
export function mostOf({ variants }: Counter, units: (limit: Limit) => number): number {
  return variants.reduce((most, { limit }) => Math.max(most, units(limit)), 0)
}

/** The most unspent units that nodes may hold together, if each is one of this many. */
export function maxHeld({ variants }: Counter, nodes: Iterable<number>): number {
  let most = 0
  for (const { coordination, maxStranded, limit } of variants) {
    if (coordination !== 'leased') continue
    let sum = 0
    for (const size of nodes) sum += Math.floor((maxStranded * limit.capacity) / size)
    most = Math.max(most, sum)
  }
  return most
}

export function isBucket({ algorithm }: Limit): boolean {
  return algorithm === 'token-bucket' || algorithm === 'gcra'
}

/** Whether its windows begin at multiples of their length. */
export function isAligned({ variants }: Counter): boolean {
  return variants.every(({ limit }) => algorithmOf(limit).alignedToClock)
}

/** Whether it is a fixed window that begins with the caller's first call. */
export function isCallerWindow(limit: Limit): boolean {
  return limit.algorithm === 'fixed-window' && !algorithmOf(limit).alignedToClock
}

/** Whether two limits count alike. */
export function isSameLimit(a: Limit, b: Limit): boolean {
  return (
    a.format === b.format &&
    a.algorithm === b.algorithm &&
    a.max === b.max &&
    a.capacity === b.capacity &&
    a.windowUs === b.windowUs &&
    a.calendar?.zone === b.calendar?.zone
  )
}

function isSame(a: CompiledLimit, b: CompiledLimit): boolean {
  return (
    isSameLimit(a.limit, b.limit) &&
    a.coordination === b.coordination &&
    a.maxStranded === b.maxStranded &&
    a.syncEveryMs === b.syncEveryMs
  )
}
