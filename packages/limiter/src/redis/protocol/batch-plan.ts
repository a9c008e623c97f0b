/**
 * The counters and limits of a batch, each once, with the numbers by which the script knows them:
 * first counters with a value, then lists (logs and places), then those that are only reset. The
 * memory is reused by the next batch.
 */
import {
  type Calendar,
  calendarWindowAt,
  type CounterKey,
  layoutOf,
  type Limit,
  SluiceError,
  show,
  type Take,
} from '@sluice/core'
import { systemClock } from '../../clock.js'
import { CounterTable } from './counter-table.js'
import { NumberWriter } from './msgpack.js'
import { requireAmount, requireCount, requireTake, type StoreOp } from './store-op.js'

/** The fields of a limit, in the order in which the script reads them. */
const LIMIT_FIELDS = [
  'format',
  'max',
  'windowUs',
  'capacity',
  'p',
  'q',
  'tickUs',
  'maxWaitUs',
  'borrowable',
  'scale',
  'scaledWindow',
] as const
/** After the fields: whether it charges refusals, and its debt. */
export const LIMIT_NUMBERS = LIMIT_FIELDS.length + 2

/**
 * The fields that carry the edges of a calendar window instead, because it has no rate: the starts
 * of the window before the present one, of the present, the next and the one after, and its end.
 */
const EDGE_FIELDS: readonly string[] = ['p', 'q', 'tickUs', 'scale', 'scaledWindow']

/** Lua cannot pass more than about 8,000 values at once. */
const COUNTERS_MAX = 4096
const NOTHING = new Uint8Array(0)
const REFERENCES_AT_FIRST = 1024
const FORGOTTEN = 0
const VALUE = 1
const LIST = 2

/** A limit as numbers, and its number in the last batch that used it. */
interface LimitEntry {
  numbers: Uint8Array
  /** The store's times for which the numbers were made; only a calendar window has new ones. */
  since: number
  until: number
  batch: number
  index: number
}

export interface BatchPlanOptions {
  readonly partitions: number
  /** Whether lists have their own keys, so that one counter may be two. */
  readonly hasSeparateLists: boolean
}

export class BatchPlan {
  readonly #options: BatchPlanOptions
  readonly #counters = new CounterTable()
  readonly #known = new WeakMap<Limit, LimitEntry>()
  #batch = 0
  #around = 0
  #last: Limit | undefined
  #lastIndex = 0
  /** In the order of the ops: a counter and its limit, or the two counters that a reset removes. */
  #references = new Int32Array(REFERENCES_AT_FIRST)
  #end = 0
  #next = 0
  /** The script's number of each counter, and which counter each number is. */
  #numbers = new Int32Array(REFERENCES_AT_FIRST)
  #order = new Int32Array(REFERENCES_AT_FIRST)
  readonly limits: Uint8Array[] = []
  values = 0
  lists = 0

  constructor(options: BatchPlanOptions) {
    this.#options = options
  }

  get counters(): CounterTable {
    return this.#counters
  }

  /**
   * Checks the numbers of all ops, then numbers every counter. `around` is about when the batch
   * will run, by the store's clock; 0 if that is not known.
   */
  make(ops: readonly StoreOp[], around: number): void {
    this.#batch += 1
    this.#around = around
    this.#counters.start()
    this.#last = undefined
    this.limits.length = 0
    this.#end = 0
    this.#next = 0
    for (let i = 0; i < ops.length; i++) {
      const op = ops[i]
      if (op !== undefined) this.add(op)
    }
    this.place()
  }

  /** The counter of the table that the script knows by this number. */
  counterAt(number: number): number {
    return this.#order[number - 1] ?? 0
  }

  /** The script's number of the next counter in the ops. */
  nextCounter(): number {
    return this.#numbers[this.nextReference()] ?? 0
  }

  /** The script's number of the limit of that counter. */
  nextLimit(): number {
    return this.nextReference()
  }

  private nextReference(): number {
    const reference = this.#references[this.#next] ?? 0
    this.#next += 1
    return reference
  }

  private add(op: StoreOp): void {
    switch (op.verb) {
      case 'take':
      case 'peek':
        for (const takes of op.groups) for (const take of takes) this.addTake(take)
        return
      case 'give':
        requireAmount(op.give.amount)
        requireCount('at', op.give.at ?? 0)
        this.refer(op.give.key, op.give.limit)
        return
      case 'charge':
        requireAmount(op.charge.amount)
        requireCount('at', op.charge.at)
        requireCount('debt', op.charge.debt)
        this.refer(op.charge.key, op.charge.limit)
        return
      case 'reset':
        this.referForgotten(op.key)
    }
  }

  private addTake(take: Take): void {
    requireTake(take)
    this.refer(take.key, take.limit)
  }

  private refer(key: CounterKey, limit: Limit): void {
    this.push(this.find(key, layoutOf(limit) === undefined ? LIST : VALUE))
    this.push(this.limitIndex(limit))
  }

  /** Where lists have their own keys, a reset does not know which of the two the counter is. */
  private referForgotten(key: CounterKey): void {
    if (this.#options.hasSeparateLists) {
      this.push(this.find(key, VALUE))
      this.push(this.find(key, LIST))
    } else this.push(this.find(key, FORGOTTEN))
  }

  private find(key: CounterKey, use: number): number {
    const { partitions, hasSeparateLists } = this.#options
    const { partition } = key
    if (!Number.isInteger(partition) || partition < 0 || partition >= partitions) {
      throw new SluiceError(
        'OPTION_INVALID',
        `partition: found ${show(partition)}; accepted: 0 to ${partitions - 1}`,
      )
    }
    const counter = this.#counters.find(key, hasSeparateLists && use === LIST ? 1 : 0)
    if (counter >= COUNTERS_MAX) {
      throw new SluiceError(
        'OPTION_INVALID',
        `counters of one batch: found more than ${COUNTERS_MAX}; accepted: ${COUNTERS_MAX} at most`,
      )
    }
    this.#counters.use(counter, use)
    return counter
  }

  private limitIndex(limit: Limit): number {
    if (limit === this.#last) return this.#lastIndex
    let entry = this.#known.get(limit)
    if (entry === undefined) {
      entry = { numbers: NOTHING, since: 0, until: 0, batch: 0, index: 0 }
      this.#known.set(limit, entry)
    }
    if (entry.batch !== this.#batch) {
      if (this.#around >= entry.until || this.#around < entry.since) this.refresh(entry, limit)
      this.limits.push(entry.numbers)
      entry.batch = this.#batch
      entry.index = this.limits.length
    }
    this.#last = limit
    this.#lastIndex = entry.index
    return entry.index
  }

  private refresh(entry: LimitEntry, limit: Limit): void {
    const { calendar } = limit
    if (calendar === undefined) {
      entry.numbers = limitNumbers(limit, [])
      entry.until = Infinity
      return
    }
    const around = this.#around === 0 ? Math.floor(systemClock.now()) : this.#around
    const { start, end } = calendarWindowAt(calendar, around)
    entry.numbers = limitNumbers(limit, edgesAround(calendar, start, end))
    entry.since = start
    entry.until = end
  }

  private push(reference: number): void {
    if (this.#end === this.#references.length) {
      const grown = new Int32Array(2 * this.#end)
      grown.set(this.#references)
      this.#references = grown
    }
    this.#references[this.#end] = reference
    this.#end += 1
  }

  private kindOf(counter: number): number {
    const uses = this.#counters.uses(counter)
    return (uses & VALUE) === 0 ? uses : VALUE
  }

  private place(): void {
    const { size } = this.#counters
    if (this.#order.length < size) {
      this.#numbers = new Int32Array(2 * size)
      this.#order = new Int32Array(2 * size)
    }
    this.values = this.placeKind(VALUE, 0)
    this.lists = this.values < size ? this.placeKind(LIST, this.values) : 0
    const placed = this.values + this.lists
    if (placed < size) this.placeKind(FORGOTTEN, placed)
  }

  /**
   * Numbers the counters of one kind after those that are taken, and returns how many there are.
   */
  private placeKind(kind: number, taken: number): number {
    const { size } = this.#counters
    let end = taken
    for (let counter = 0; counter < size; counter++) {
      if (this.kindOf(counter) !== kind) continue
      this.#order[end] = counter
      end += 1
      this.#numbers[counter] = end
    }
    return end - taken
  }
}

/**
 * Limits made by `defineLimit` are checked; a limit that a caller built itself is not. `edges` is
 * empty for a limit that is no calendar window.
 */
function limitNumbers(limit: Limit, edges: readonly number[]): Uint8Array {
  const writer = new NumberWriter()
  for (const field of LIMIT_FIELDS) {
    requireCount(`limit.${field}`, limit[field])
    writer.write(edges[EDGE_FIELDS.indexOf(field)] ?? limit[field])
  }
  writer.write(limit.onRefusal === 'charge' ? 1 : 0)
  requireCount('limit.debt', limit.debt)
  writer.write(limit.debt)
  return Uint8Array.from(writer.finish())
}

/**
 * The edges of the windows around the present one, which begins at `start`. By these the script
 * finds the window of its own time, of a state that is up to one window ahead, and of a node whose
 * estimate of the store's time is off by up to one window. No time is before 1970.
 */
function edgesAround(calendar: Calendar, start: number, end: number): readonly number[] {
  const next = calendarWindowAt(calendar, end).end
  const last = calendarWindowAt(calendar, next).end
  const first = start > 0 ? calendarWindowAt(calendar, start - 1).start : 0
  return [Math.max(0, first), Math.max(0, start), end, next, last]
}
