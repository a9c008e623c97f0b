/**
 * Numbers for limits, so that a record can say in three bytes what it is of. Limits of equal
 * numbers share one number, however often the rules are loaded; a number that no record uses any
 * more is used again.
 */
import type { Limit } from '@sluice/core'

interface RegisteredLimit {
  readonly id: number
  readonly limit: Limit
  readonly signature: string
  records: number
}

const ID_MAX = 0xffffff

export class LimitRegistry {
  readonly #entries: (RegisteredLimit | undefined)[] = []
  readonly #bySignature = new Map<string, RegisteredLimit>()
  readonly #byObject = new WeakMap<Limit, RegisteredLimit>()
  readonly #free: number[] = []

  get(id: number): Limit {
    const entry = this.#entries[id]
    if (entry === undefined) throw new RangeError(`No limit ${id}`)
    return entry.limit
  }

  /** Whether a number stands for these very limits. */
  matches(id: number, limit: Limit): boolean {
    const entry = this.#entries[id]
    return entry !== undefined && (entry.limit === limit || this.#byObject.get(limit) === entry)
  }

  /** The number of a limit, counting one more record of it. */
  acquire(limit: Limit): number {
    const entry = this.find(limit) ?? this.add(limit)
    entry.records += 1
    return entry.id
  }

  /** One record fewer. */
  release(id: number): void {
    const entry = this.#entries[id]
    if (entry === undefined) return
    entry.records -= 1
    if (entry.records > 0) return
    this.#entries[id] = undefined
    this.#bySignature.delete(entry.signature)
    this.#free.push(id)
  }

  private find(limit: Limit): RegisteredLimit | undefined {
    const known = this.#byObject.get(limit)
    if (known !== undefined && known.records > 0) return known
    const same = this.#bySignature.get(JSON.stringify(limit))
    if (same !== undefined) this.#byObject.set(limit, same)
    return same
  }

  private add(limit: Limit): RegisteredLimit {
    const id = this.#free.pop() ?? this.#entries.length
    if (id > ID_MAX) throw new RangeError(`More than ${ID_MAX} different limits in one store`)
    const entry = { id, limit, signature: JSON.stringify(limit), records: 0 }
    this.#entries[id] = entry
    this.#bySignature.set(entry.signature, entry)
    this.#byObject.set(limit, entry)
    return entry
  }
}
