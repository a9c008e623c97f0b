/** One counter of the store, and all that is known of it from outside. */
import type { CompiledLimit, CounterKey, Limit } from '@sluice/core'

/** A limit of a rule for one caller: of its tier, and of each version of the rule. */
export interface Counter {
  readonly name: string
  readonly key: CounterKey
  /** For people. */
  readonly label: string
  /** The rule it is of. */
  readonly rule: string
  /** Of a rule in shadow, or of a candidate. */
  readonly isShadow: boolean
  /** The limits that calls have met it by, each once; one, unless rules change or have tiers. */
  readonly variants: CompiledLimit[]
  /** When the store forgot it, in true time. */
  readonly resetsUs: number[]
  /** What the store forgave when it was counted by another limit than before. */
  readonly forgiven: { readonly us: number; readonly units: number }[]
  /** What was given back, when, and when it had been taken; in true time. */
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
 * The store changes it by a limit. Where that is another than before, what a bucket has in use is
 * cut to what the new one holds, and the fraction of a unit may be read as another; a queue is as
 * long as before in time, not in calls. Returns whether it is another.
 */
export function changeLimit(counter: Counter, limit: Limit, us: number): boolean {
  const last = counter.lastLimit
  counter.lastLimit = limit
  if (last === undefined || isSameLimit(last, limit)) return false
  const { algorithm, capacity } = limit
  if (isBucket(limit))
    counter.forgiven.push({ us, units: 1 + Math.max(0, last.capacity - capacity) })
  if (algorithm === 'leaky-bucket') counter.forgiven.push({ us, units: 1 + last.capacity })
  return true
}

/** Whether it was counted by one limit only, and never reset: some bounds are stated for that. */
export function hasOneLimit({ variants, resetsUs }: Counter): boolean {
  return variants.length === 1 && resetsUs.length === 0
}

export function isEver({ variants }: Counter, coordination: CompiledLimit['coordination']) {
  return variants.some((compiled) => compiled.coordination === coordination)
}

/** Takes in a limit that it was not met by before. */
export function addVariant({ variants }: Counter, compiled: CompiledLimit): void {
  if (!variants.some((other) => isSame(other, compiled))) variants.push(compiled)
}

/** The most that any of its limits has of something. */
export function mostOf({ variants }: Counter, units: (limit: Limit) => number): number {
  return variants.reduce((most, { limit }) => Math.max(most, units(limit)), 0)
}

/** What nodes together may hold of it without having spent it, if each is one of so many. */
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

/** Whether two limits count alike. */
export function isSameLimit(a: Limit, b: Limit): boolean {
  return (
    a.algorithm === b.algorithm &&
    a.max === b.max &&
    a.capacity === b.capacity &&
    a.windowUs === b.windowUs
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
