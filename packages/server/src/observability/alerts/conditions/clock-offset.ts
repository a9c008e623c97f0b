/** Finds clocks that are off, and whose clock it is. */
import { durationText } from '@sluice/core'
import type { StoreNodeHealth } from '@sluice/limiter'
import { STORES_MAX } from '../../../counter-store/store-metrics.js'
import type { Finding } from '../alert.js'

/** Timestamps that a node assigns itself would be off by as much. */
const OFF_SECONDS_MAX = 0.02
/** A single reading may be off because of network delay. */
const CONSECUTIVE_MIN = 3
/** Ticks after which it judges without the clocks of the other nodes. */
const PEERS_WAIT_MAX = 8
/** Votes of other nodes; more nodes do not make the result better. */
const PEERS_MAX = 100

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

/** How far the clocks of Redis are ahead of another node's clock, as that node published it. */
export interface PeerClock extends NodeName {
  readonly offsets: readonly { readonly store: string; readonly offsetMs: number }[]
}

/** One clock, in seconds ahead of this node's. */
interface Vote {
  readonly at: number
  readonly error: number
  /** Processes of one host that agree share one vote. */
  readonly host: string | undefined
  readonly store: string | undefined
}

/**
 * Finds the clocks that are off: this node's own, and those of Redis. The clocks of Redis, of this
 * node and of the other nodes vote; the largest group that agrees is right, and among groups of
 * equal size the one with more Redis clocks. So if one node and one Redis disagree, the node is
 * off; if several machines contradict a Redis, the Redis is off.
 */
export class ClockOffsets {
  readonly #own: NodeName
  readonly #reportsOwn: boolean
  /** Consecutive ticks for which a clock was off, by subject. */
  #off = new Map<string, number>()
  /** Consecutive ticks for which any clock was off. */
  #consecutive = 0

  /** `reportsOwn` is false in all workers but one, because they share this node's clock. */
  constructor(own: NodeName, reportsOwn = true) {
    this.#own = own
    this.#reportsOwn = reportsOwn
  }

  /**
   * Called once a second. `peers` is called only while a clock is off, and returns undefined until
   * the clocks of the other nodes are known.
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
    // Without the other nodes a Redis that is off would look like a node that is off.
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

/** Compares the peer's clock with this node's, through a Redis that both read. */
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

/** The largest set of votes that agree with one of them. */
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

/** Compares the clocks of Redis nodes with each other: a failover would make time jump. */
export class ClockSpread {
  #consecutive = 0

  /** Called once a second. */
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

/** Leaves out nodes that do not answer: their last reading is stale. */
function readingsOf(nodes: readonly StoreNodeHealth[]): readonly ClockReading[] {
  return nodes.slice(0, STORES_MAX).flatMap(({ address, isAnswering, clock }) => {
    if (!isAnswering || clock === undefined) return []
    return { store: address, offset: clock.offsetSeconds, error: clock.errorSeconds }
  })
}

interface ClockDeviation {
  /** How far the clock is ahead of the correct ones. */
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
