/**
 * Assigns ids to limits, so that a record names its limit in three bytes. Equal limits share one
 * id, however often the rules are loaded; an id that no record uses is reused.
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

  /** Whether an id belongs to an equal limit. */
  matches(id: number, limit: Limit): boolean {
    const entry = this.#entries[id]
    return entry !== undefined && (entry.limit === limit || this.#byObject.get(limit) === entry)
  }

  /** Returns the id of a limit and counts one more record of it. */
  acquire(limit: Limit): number {
    const entry = this.find(limit) ?? this.add(limit)
    entry.records += 1
    return entry.id
  }

  /** Counts one record fewer. */
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
