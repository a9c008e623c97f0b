/** Clocks that are further apart than what they measure allows. */
import type { RedisNodeStats } from '@sluice/limiter/redis'
import type { Finding } from '../alert.js'

/** Times that a node must place itself would be off by as much. */
const OFF_SECONDS_MAX = 0.02
/** One reading may be off because of the network. */
const LOOKS = 3
/** A Cluster has at most about a thousand primaries. */
const STORES_MAX = 1000

interface Reading {
  readonly store: string
  readonly offset: number
  readonly error: number
}

/** Ours and that of each node of the store. */
export class ClockOffsets {
  /** For how many looks on end it was off, by store. */
  #off = new Map<string, number>()

  /** Once a second. */
  look(nodes: readonly RedisNodeStats[]): readonly Finding[] {
    const off = readingsOf(nodes).filter(
      ({ offset, error }) => Math.abs(offset) - error > OFF_SECONDS_MAX,
    )
    this.#off = new Map(off.map(({ store }) => [store, (this.#off.get(store) ?? 0) + 1]))
    return off.filter(({ store }) => (this.#off.get(store) ?? 0) >= LOOKS).map(describeOffset)
  }
}

/** Those of the nodes of the store among each other, as a caller meets them after a failover. */
export class ClockSpread {
  #looks = 0

  /** Once a second. */
  look(nodes: readonly RedisNodeStats[]): readonly Finding[] {
    const readings = readingsOf(nodes)
    const [ahead] = readings.toSorted((a, b) => b.offset - b.error - (a.offset - a.error))
    const [behind] = readings.toSorted((a, b) => a.offset + a.error - (b.offset + b.error))
    if (ahead === undefined || behind === undefined) return this.none()
    const atLeast = ahead.offset - ahead.error - (behind.offset + behind.error)
    if (atLeast <= OFF_SECONDS_MAX) return this.none()
    this.#looks++
    if (this.#looks < LOOKS) return []
    const spreadMs = toMs(ahead.offset - behind.offset)
    const said = (is: string) =>
      `The clock of Redis at ${ahead.store} ${is} ${spreadMs} ms ahead of that at ` +
      `${behind.store}; they must agree within 20 ms.`
    const details = { spreadMs, stores: [ahead.store, behind.store] }
    return [{ subject: '', summary: said('is'), past: said('was'), details }]
  }

  private none(): readonly Finding[] {
    this.#looks = 0
    return []
  }
}

/** What a node that does not answer said last is no reading of now. */
function readingsOf(nodes: readonly RedisNodeStats[]): readonly Reading[] {
  return nodes.slice(0, STORES_MAX).flatMap(({ address, isAnswering, clock }) => {
    if (!isAnswering || clock === undefined) return []
    return { store: address, offset: clock.offsetSeconds, error: clock.errorSeconds }
  })
}

function describeOffset({ store, offset, error }: Reading): Finding {
  const offsetMs = toMs(offset)
  const way = offset > 0 ? 'ahead of' : 'behind'
  const said = (is: string) =>
    `The clock of Redis at ${store} ${is} ${Math.abs(offsetMs)} ms ${way} that of this node; ` +
    'they must agree within 20 ms.'
  const details = { store, offsetMs, errorMs: toMs(error) }
  return { subject: store, summary: said('is'), past: said('was'), details }
}

function toMs(seconds: number): number {
  return Math.round(seconds * 10_000) / 10
}
