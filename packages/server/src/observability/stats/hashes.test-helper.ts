/** Uniform hashes like those of callers, the same for the same seed. */

export interface Hashes {
  next(): { readonly hi: number; readonly lo: number }
}

/** SplitMix32, a pseudo-random number generator. */
export function seededHashes(seed: number): Hashes {
  let state = seed | 0
  const draw = (): number => {
    state = (state + 0x9e3779b9) | 0
    let mixed = state ^ (state >>> 16)
    mixed = Math.imul(mixed, 0x21f0aaad)
    mixed ^= mixed >>> 15
    mixed = Math.imul(mixed, 0x735a2d97)
    return mixed ^ (mixed >>> 15)
  }
  return { next: () => ({ hi: draw(), lo: draw() }) }
}
