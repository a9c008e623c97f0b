/** A map by counter key that builds no key string. */
import type { CounterKey } from '@sluice/core'

export interface CounterEntry {
  readonly key: CounterKey
}

/**
 * Indexed by half of the key's hash; the few entries that share it are in a list. Attackers cannot
 * target a half, because the hashes are keyed.
 */
export class CounterMap<Entry extends CounterEntry> {
  readonly #byHalf = new Map<number, Entry | Entry[]>()
  #size = 0

  get size(): number {
    return this.#size
  }

  get({ hi, lo }: CounterKey): Entry | undefined {
    const found = this.#byHalf.get(lo)
    if (found === undefined) return undefined
    if (!Array.isArray(found)) return found.key.hi === hi ? found : undefined
    return found.find(({ key }) => key.hi === hi)
  }

  /** Entries may be deleted meanwhile. */
  *[Symbol.iterator](): Generator<Entry, void, void> {
    for (const found of this.#byHalf.values()) {
      if (Array.isArray(found)) yield* found
      else yield found
    }
  }

  /** The key must not be in the map yet. */
  add(entry: Entry): void {
    const { lo } = entry.key
    const found = this.#byHalf.get(lo)
    this.#size += 1
    if (found === undefined) this.#byHalf.set(lo, entry)
    else this.#byHalf.set(lo, Array.isArray(found) ? [...found, entry] : [found, entry])
  }

  delete(entry: Entry): void {
    const { lo } = entry.key
    const found = this.#byHalf.get(lo)
    if (found === entry) this.#byHalf.delete(lo)
    else if (Array.isArray(found) && found.includes(entry)) {
      const rest = found.filter((other) => other !== entry)
      if (rest.length > 0) this.#byHalf.set(lo, rest)
      else this.#byHalf.delete(lo)
    } else return
    this.#size -= 1
  }
}
