/** The callers: 10^5 with three names each, drawn uniformly or by Zipf's law. */

export const CALLERS = 100_000
const DRAWS = 2 ** 20
const ZIPF_EXPONENT = 1

/** Created before the measurement, because building texts is not part of a decision. */
export function makeNames(count = CALLERS) {
  const list = (what) => Array.from({ length: count }, (_, i) => `${what}-${i}`)
  return { users: list('user'), teams: list('team'), devices: list('device') }
}

/** An endless sequence of callers, another one for each seed. */
export function makeDraws(spread, seed) {
  const random = randomFrom(seed)
  const draws = new Uint32Array(DRAWS)
  if (spread === 'uniform') fillUniform(draws, random)
  else fillZipf(draws, random)
  let next = 0
  return () => {
    next = (next + 1) % DRAWS
    return draws[next]
  }
}

function fillUniform(draws, random) {
  for (let i = 0; i < DRAWS; i++) draws[i] = Math.floor(random() * CALLERS)
}

/** The caller of rank k comes with a weight of 1/k: the first makes 8 % of all calls. */
function fillZipf(draws, random) {
  const sums = new Float64Array(CALLERS)
  let sum = 0
  for (let rank = 0; rank < CALLERS; rank++) {
    sum += 1 / (rank + 1) ** ZIPF_EXPONENT
    sums[rank] = sum
  }
  for (let i = 0; i < DRAWS; i++) draws[i] = firstAbove(sums, random() * sum)
}

function firstAbove(sums, wanted) {
  let low = 0
  let high = sums.length - 1
  while (low < high) {
    const middle = (low + high) >> 1
    if (sums[middle] > wanted) high = middle
    else low = middle + 1
  }
  return low
}

/** Mulberry32: the same numbers in every run. */
export function randomFrom(seed) {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
