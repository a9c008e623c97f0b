/**
 * Every decision of a fault run, in columns, because a log of objects would show up as memory
 * growth.
 */
import type { Decision } from '@sluice/limiter'

const SOURCES = ['none', 'store', 'deny-cache', 'posture', 'local', 'lease'] as const
type SourceName = (typeof SOURCES)[number]
const UNANSWERED = 0
const REJECTED = 255

/** One call. */
export interface CallKey {
  readonly node: number
  readonly kind: number
  readonly user: number
}

export interface Row extends CallKey {
  readonly askedMs: number
  /** NaN if it was never answered. */
  readonly answeredMs: number
  readonly isRejected: boolean
  readonly source: SourceName
  readonly allowed: boolean
  /** Whether `postures` match the rules of the call. */
  readonly isRight: boolean
  /** The partition of its first counter; -1 if the store received no request. */
  readonly partition: number
}

export class DecisionLog {
  readonly #askedMs: Float64Array
  readonly #answeredMs: Float64Array
  readonly #user: Uint32Array
  readonly #node: Uint8Array
  readonly #kind: Uint8Array
  readonly #source: Uint8Array
  readonly #allowed: Uint8Array
  readonly #right: Uint8Array
  readonly #partition: Int16Array
  #length = 0
  #answered = 0

  constructor(capacity: number) {
    this.#askedMs = new Float64Array(capacity)
    this.#answeredMs = new Float64Array(capacity).fill(Number.NaN)
    this.#user = new Uint32Array(capacity)
    this.#node = new Uint8Array(capacity)
    this.#kind = new Uint8Array(capacity)
    this.#source = new Uint8Array(capacity)
    this.#allowed = new Uint8Array(capacity)
    this.#right = new Uint8Array(capacity)
    this.#partition = new Int16Array(capacity).fill(-1)
  }

  get length(): number {
    return this.#length
  }

  get isFull(): boolean {
    return this.#length === this.#askedMs.length
  }

  /** Calls without an answer so far. */
  get openCount(): number {
    return this.#length - this.#answered
  }

  start({ node, kind, user }: CallKey): number {
    const row = this.#length
    this.#length += 1
    this.#node[row] = node
    this.#kind[row] = kind
    this.#user[row] = user
    this.#askedMs[row] = performance.now()
    return row
  }

  answer(row: number, { source, allowed }: Decision, isRight: boolean): void {
    this.#answeredMs[row] = performance.now()
    this.#answered += 1
    this.#source[row] = SOURCES.indexOf(source)
    this.#allowed[row] = allowed ? 1 : 0
    this.#right[row] = isRight ? 1 : 0
  }

  reject(row: number): void {
    this.#answeredMs[row] = performance.now()
    this.#answered += 1
    this.#source[row] = REJECTED
  }

  at(row: number, partition: number): void {
    this.#partition[row] = partition
  }

  /** From the first, or from an earlier `length`. */
  *rows(from = 0): Generator<Row> {
    for (let row = from; row < this.#length; row++) {
      const source = this.#source[row] ?? UNANSWERED
      yield {
        node: this.#node[row] ?? 0,
        kind: this.#kind[row] ?? 0,
        user: this.#user[row] ?? 0,
        askedMs: this.#askedMs[row] ?? 0,
        answeredMs: this.#answeredMs[row] ?? Number.NaN,
        isRejected: source === REJECTED,
        source: SOURCES[source] ?? 'none',
        allowed: this.#allowed[row] === 1,
        isRight: this.#right[row] === 1,
        partition: this.#partition[row] ?? -1,
      }
    }
  }
}
