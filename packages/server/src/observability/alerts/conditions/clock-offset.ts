/** Clocks that are off, and whose they are. */
import { durationText } from '@sluice/core'
import type { StoreNodeHealth } from '@sluice/limiter'
import type { Finding } from '../alert.js'

/** Times that a node must place itself would be off by as much. */
const OFF_SECONDS_MAX = 0.02
/** One reading may be off because of the network. */
const CONSECUTIVE_MIN = 3
/** Looks after which it judges without the clocks of the other nodes. */
const PEERS_WAIT_MAX = 8
/** Of a larger fleet, so many vote. */
const PEERS_MAX = 100
/** A Cluster has at most about a thousand primaries. */
const STORES_MAX = 1000

interface ClockReading {
  readonly store: string
  readonly offset: number
  readonly error: number
}

/** This node, as alerts name it. */
export interface NodeName {
  readonly id: string
  readonly host: string
}

/** How far the clocks of the store are ahead of another node's, as that node published it. */
export interface PeerClock extends NodeName {
  readonly offsets: readonly { readonly store: string; readonly offsetMs: number }[]
}

/** One clock, in seconds ahead of this node's. */
interface Vote {
  readonly at: number
  readonly error: number
  /** Processes of one host that agree have one clock, and one vote. */
  readonly host: string | undefined
  readonly store: string | undefined
}

/**
 * Finds the clocks that are off: this node's own, and those of Redis. The clocks of Redis, of this
 * node and of the other nodes vote; the largest group that agrees is right, and of two groups of
 * one size the one with more clocks of Redis. So a node and one Redis that disagree are settled in
 * favour of Redis, and a Redis that several machines contradict is accused itself.
 */
export class ClockOffsets {
  readonly #own: NodeName
  readonly #reportsOwn: boolean
  /** For how many looks on end it was off, by subject. */
  #off = new Map<string, number>()
  /** For how many looks on end any was. */
  #consecutive = 0

  /** `tellsOwn`: whether it tells of this node's clock, which other workers have as well. */
  constructor(own: NodeName, reportsOwn = true) {
    this.#own = own
    this.#reportsOwn = reportsOwn
  }

  /**
   * Once a second. `peers` is called only while a clock is off, and returns undefined until the
   * clocks of the other nodes are known.
   */
  evaluate(
    nodes: readonly StoreNodeHealth[],
    peers: () => readonly PeerClock[] | undefined = () => [],
  ): readonly Finding[] {
    const readings = readingsOf(nodes)
    if (!readings.some(({ offset, error }) => isOff(offset, error))) {
      this.#off = new Map()
      this.#consecutive = 0
      return []
    }
    this.#consecutive++
    const known = peers()
    // Without the others a Redis that is off would be taken for a node that is.
    if (known === undefined && this.#consecutive < PEERS_WAIT_MAX) return []
    const found = this.judge(readings, known ?? [])
    this.#off = new Map(
      found.map(({ subject }) => [subject, (this.#off.get(subject) ?? 0) + 1] as const),
    )
    return found.filter(({ subject }) => (this.#off.get(subject) ?? 0) >= CONSECUTIVE_MIN)
  }

  private judge(
    readings: readonly ClockReading[],
    peers: readonly PeerClock[],
  ): readonly Finding[] {
    const own: Vote = { at: 0, error: 0, host: this.#own.host, store: undefined }
    const stores = readings.map(({ store, offset, error }): Vote => {
      return { at: offset, error, host: undefined, store }
    })
    const votes = [own, ...stores, ...peers.slice(0, PEERS_MAX).flatMap(voteOf(readings))]
    const right = largestGroup(votes)
    const reference = medianOf(right)
    const off = votes.filter(({ at, error }) => isOff(at - reference.at, error + reference.error))
    return off.flatMap((vote) => {
      const deviation = { seconds: vote.at - reference.at, error: vote.error + reference.error }
      if (vote.store !== undefined) return describeStore(vote.store, deviation)
      return vote === own && this.#reportsOwn ? describeOwn(this.#own, deviation, right) : []
    })
  }
}

function isOff(seconds: number, error: number): boolean {
  return Math.abs(seconds) - error > OFF_SECONDS_MAX
}

/** Where that node's clock stands by ours, through a store that both of us read. */
const voteOf =
  (readings: readonly ClockReading[]) =>
  ({ host, offsets }: PeerClock): readonly Vote[] => {
    for (const { store, offset, error } of readings) {
      const peerOffset = offsets.find((each) => each.store === store)
      if (peerOffset === undefined) continue
      return [{ at: offset - peerOffset.offsetMs / 1000, error, host, store: undefined }]
    }
    return []
  }

/** Those that agree with one of them, so many as there are. */
function largestGroup(votes: readonly Vote[]): readonly Vote[] {
  let best: readonly Vote[] = []
  for (const vote of votes) {
    const group = votes.filter(({ at, error }) => !isOff(at - vote.at, error + vote.error))
    if (isLarger(group, best)) best = group
  }
  return best
}

function isLarger(group: readonly Vote[], best: readonly Vote[]): boolean {
  const [size, bestSize] = [clocksOf(group), clocksOf(best)]
  return size !== bestSize ? size > bestSize : storesOf(group) > storesOf(best)
}

function clocksOf(group: readonly Vote[]): number {
  return new Set(group.map(({ host, store }) => (host === undefined ? `s ${store}` : `h ${host}`)))
    .size
}

function storesOf(group: readonly Vote[]): number {
  return group.filter(({ store }) => store !== undefined).length
}

function medianOf(group: readonly Vote[]): Vote {
  const sorted = group.toSorted((a, b) => a.at - b.at)
  const median = sorted[Math.floor(sorted.length / 2)]
  return median ?? { at: 0, error: 0, host: undefined, store: undefined }
}

/** Those of the nodes of the store among each other, as a caller meets them after a failover. */
export class ClockSpread {
  #consecutive = 0

  /** Once a second. */
  evaluate(nodes: readonly StoreNodeHealth[]): readonly Finding[] {
    const readings = readingsOf(nodes)
    const [ahead] = readings.toSorted((a, b) => b.offset - b.error - (a.offset - a.error))
    const [behind] = readings.toSorted((a, b) => a.offset + a.error - (b.offset + b.error))
    if (ahead === undefined || behind === undefined) return this.reset()
    const atLeast = ahead.offset - ahead.error - (behind.offset + behind.error)
    if (atLeast <= OFF_SECONDS_MAX) return this.reset()
    this.#consecutive++
    if (this.#consecutive < CONSECUTIVE_MIN) return []
    const spreadMs = toMs(ahead.offset - behind.offset)
    const text = (is: string) =>
      `The clock of Redis at ${ahead.store} ${is} ${durationText(spreadMs)} ahead of that at ` +
      `${behind.store}; they must agree within 20 ms.`
    const details = { spreadMs, stores: [ahead.store, behind.store] }
    return [{ subject: '', summary: text('is'), past: text('was'), details }]
  }

  private reset(): readonly Finding[] {
    this.#consecutive = 0
    return []
  }
}

/** What a node that does not answer said last is no reading of now. */
function readingsOf(nodes: readonly StoreNodeHealth[]): readonly ClockReading[] {
  return nodes.slice(0, STORES_MAX).flatMap(({ address, isAnswering, clock }) => {
    if (!isAnswering || clock === undefined) return []
    return { store: address, offset: clock.offsetSeconds, error: clock.errorSeconds }
  })
}

interface ClockDeviation {
  /** How far the clock is ahead of the right ones. */
  readonly seconds: number
  readonly error: number
}

const MUST_AGREE = 'they must agree within 20 ms.'

function describeStore(store: string, deviation: ClockDeviation): Finding {
  const text = (is: string) =>
    `The clock of Redis at ${store} ${is} ${deviationText(deviation)} the other clocks; ${MUST_AGREE}`
  const details = { store, offsetMs: toMs(deviation.seconds), errorMs: toMs(deviation.error) }
  return { subject: store, summary: text('is'), past: text('was'), details }
}

function describeOwn(
  { id, host }: NodeName,
  deviation: ClockDeviation,
  right: readonly Vote[],
): Finding {
  const store = right.find((vote) => vote.store !== undefined)?.store
  const others = store === undefined ? 'those of the other nodes' : `that of Redis at ${store}`
  const text = (is: string) =>
    `The clock of node ${id} on ${host} ${is} ${deviationText(deviation)} ${others}; ${MUST_AGREE}`
  const details = {
    node: id,
    host,
    offsetMs: toMs(deviation.seconds),
    errorMs: toMs(deviation.error),
    ...(store !== undefined && { store }),
  }
  return { subject: id, summary: text('is'), past: text('was'), details }
}

function deviationText({ seconds }: ClockDeviation): string {
  return `${durationText(Math.abs(seconds) * 1000)} ${seconds > 0 ? 'ahead of' : 'behind'}`
}

function toMs(seconds: number): number {
  return Math.round(seconds * 10_000) / 10
}
