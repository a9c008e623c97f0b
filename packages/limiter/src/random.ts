/** Random bytes by Web Crypto, which every runtime has: the memory store runs without Node. */
import type { Hash64 } from '@sluice/core'

const KEY_BYTES = 16
/** 2 KB. */
const HASHES_DRAWN = 256

/** A key of hashes. */
export function randomKey(): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(KEY_BYTES))
}

/**
 * A key of hashes, or undefined where the runtime forbids random values for now: Workers allow none
 * before the first request, while modules are loaded.
 */
export function randomKeyIfAllowed(): Uint8Array | undefined {
  try {
    return randomKey()
  } catch {
    return undefined
  }
}

/**
 * The number of a holder of places, from 1 to 2^48: two nodes of a fleet that had the same would
 * overwrite each other's records.
 */
export function randomHolder(): number {
  const [high = 0, low = 0] = crypto.getRandomValues(new Uint32Array(2))
  return (high % 2 ** 16) * 2 ** 32 + low + 1
}

/** A whole number from 0 to 2^40 - 1, each as likely as any other. */
export function randomSerial(): number {
  const [high = 0, low = 0] = crypto.getRandomValues(new Uint32Array(2))
  return (high % 2 ** 8) * 2 ** 32 + low
}

/** Hashes at random, drawn many at once: a single one costs more than a decision. */
export class RandomHashes {
  readonly #words = new Int32Array(2 * HASHES_DRAWN)
  #next = 2 * HASHES_DRAWN

  next(): Hash64 {
    if (this.#next === this.#words.length) {
      crypto.getRandomValues(this.#words)
      this.#next = 0
    }
    const hi = this.#words[this.#next] ?? 0
    const lo = this.#words[this.#next + 1] ?? 0
    this.#next += 2
    return { hi, lo }
  }
}
