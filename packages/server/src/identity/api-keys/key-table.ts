/**
 * Stores a million keys in tens of megabytes: the index is in typed arrays, and only keys that are
 * used become objects.
 *
 * A key is found by the first 96 bits of its hash, which is keyed with a secret of the rule store:
 * no attacker can aim at a collision, and a million keys collide with a probability of 10^-17.
 */

/** A key as calls use it: `form` is computed at its first use. */
export interface KeyIdentity {
  readonly user: string | undefined
  readonly plan: string | undefined
  readonly state: 'active' | 'disabled'
  maskedValue: string | undefined
}

export interface TableKey {
  readonly user?: string | undefined
  readonly plan?: string | undefined
  readonly state: 'active' | 'disabled'
}

/** Of 32 bits: as much of a hash as the ids of keys contain. */
const WORDS = 3
const EMPTY = 0
const REMOVED = 1
const FIRST_PLACE = 2
const CAPACITY_MIN = 16
/** The maximum of objects for keys in use; beyond it all are dropped and created again on use. */
const CACHED_MAX = 100_000

export class KeyTable {
  /** Three words of a hash for each slot. */
  #words = new Uint32Array(CAPACITY_MIN * WORDS)
  /** For each slot: empty, removed, or the position of the key. */
  #places = new Uint32Array(CAPACITY_MIN)
  #users: (string | undefined)[] = []
  #plans: (string | undefined)[] = []
  #isActive: boolean[] = []
  readonly #free: number[] = []
  /** Keys share few plans; each text is stored once. */
  readonly #texts = new Map<string, string>()
  readonly #cached = new Map<number, KeyIdentity>()
  #count = 0
  /** Slots that are not empty, including those of removed keys. */
  #taken = 0

  get size(): number {
    return this.#count
  }

  /** `hash` has at least 24 hex digits; further ones are ignored. */
  set(hash: string, { user, plan, state }: TableKey): void {
    this.makeRoom()
    const slot = this.slotOf(hash)
    let place = this.#places[slot] ?? EMPTY
    if (place < FIRST_PLACE) {
      if (place === EMPTY) this.#taken++
      this.#count++
      place = (this.#free.pop() ?? this.#users.length) + FIRST_PLACE
      this.#places[slot] = place
      for (let i = 0; i < WORDS; i++) this.#words[slot * WORDS + i] = wordOf(hash, i)
    }
    const at = place - FIRST_PLACE
    this.#users[at] = user
    this.#plans[at] = plan === undefined ? undefined : this.intern(plan)
    this.#isActive[at] = state === 'active'
    this.#cached.delete(at)
  }

  remove(hash: string): void {
    const slot = this.slotOf(hash)
    const at = (this.#places[slot] ?? EMPTY) - FIRST_PLACE
    if (at < 0) return
    this.#places[slot] = REMOVED
    this.#count--
    this.#users[at] = undefined
    this.#free.push(at)
    this.#cached.delete(at)
  }

  find(hash: string): KeyIdentity | undefined {
    if (this.#count === 0) return undefined
    const at = (this.#places[this.slotOf(hash)] ?? EMPTY) - FIRST_PLACE
    if (at < 0) return undefined
    const known = this.#cached.get(at)
    if (known !== undefined) return known
    const found: KeyIdentity = {
      user: this.#users[at],
      plan: this.#plans[at],
      state: this.#isActive[at] === true ? 'active' : 'disabled',
      maskedValue: undefined,
    }
    if (this.#cached.size >= CACHED_MAX) this.#cached.clear()
    this.#cached.set(at, found)
    return found
  }

  /** The slot of the key, or the slot where it would be inserted. */
  private slotOf(hash: string): number {
    const first = wordOf(hash, 0)
    const second = wordOf(hash, 1)
    const third = wordOf(hash, 2)
    const mask = this.#places.length - 1
    let reusable = -1
    for (let slot = first & mask; ; slot = (slot + 1) & mask) {
      const place = this.#places[slot]
      if (place === EMPTY) return reusable === -1 ? slot : reusable
      if (place === REMOVED) {
        if (reusable === -1) reusable = slot
        continue
      }
      const at = slot * WORDS
      if (
        this.#words[at] === first &&
        this.#words[at + 1] === second &&
        this.#words[at + 2] === third
      ) {
        return slot
      }
    }
  }

  /** At most two thirds are used, so that a search soon reaches an empty slot. */
  private makeRoom(): void {
    const { length } = this.#places
    if ((this.#taken + 1) * 3 <= length * 2) return
    const capacity = this.#count * 3 >= length ? length * 2 : length
    const words = this.#words
    const places = this.#places
    this.#words = new Uint32Array(capacity * WORDS)
    this.#places = new Uint32Array(capacity)
    this.#taken = this.#count
    const mask = capacity - 1
    for (let old = 0; old < length; old++) {
      const place = places[old] ?? EMPTY
      if (place < FIRST_PLACE) continue
      let slot = (words[old * WORDS] ?? 0) & mask
      while (this.#places[slot] !== EMPTY) slot = (slot + 1) & mask
      this.#places[slot] = place
      this.#words.set(words.subarray(old * WORDS, (old + 1) * WORDS), slot * WORDS)
    }
  }

  private intern(text: string): string {
    const known = this.#texts.get(text)
    if (known !== undefined) return known
    // If every key has a plan of its own, there is nothing to share.
    if (this.#texts.size >= CACHED_MAX) this.#texts.clear()
    this.#texts.set(text, text)
    return text
  }
}

function wordOf(hash: string, index: number): number {
  return Number.parseInt(hash.slice(index * 8, index * 8 + 8), 16)
}
