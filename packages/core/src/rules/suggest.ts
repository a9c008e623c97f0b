/** Suggests the word that was probably meant by an unknown one. */

/** No known word is longer, and the cost of the distance is the product of both lengths. */
const WORD_LENGTH_MAX = 64
const PREFIX_LENGTH_MIN = 3

/** The empty list of attributes to count by. It is no word, so messages show it without quotes. */
export const NO_ATTRIBUTES = '[]'

/** Returns the nearest of the words, or undefined if none is near enough. */
export function nearest(word: string, words: readonly string[]): string | undefined {
  if (word.length > WORD_LENGTH_MAX) return undefined
  const written = word.toLowerCase()
  let best: string | undefined
  // A third of the letters may be wrong: `windw`, `algoritm`, but not `rate` for `name`.
  let least = Math.max(1, Math.floor(written.length / 3)) + 1
  for (const candidate of words) {
    const meant = candidate.toLowerCase()
    const distance = distanceOf(written, meant)
    if (distance < least) {
      least = distance
      best = candidate
    }
  }
  return best
}

/** Converts a name to the form of ids: `Orders per_user` to `orders-per-user`. */
export function slug(text: string): string | undefined {
  const made = text
    .slice(0, 2 * WORD_LENGTH_MAX)
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, WORD_LENGTH_MAX)
    .replace(/^-|-$/g, '')
  return made === '' ? undefined : made
}

/** `Berlin` is nearly `Europe/Berlin`. */
function distanceOf(written: string, meant: string): number {
  if (written === meant) return 0
  const isPart = isBeginning(written, meant) || meant.endsWith(`/${written}`)
  return isPart ? 1 : editDistance(written, meant)
}

/** `algo` for `algorithm`, `windowMs` for `window`. */
function isBeginning(a: string, b: string): boolean {
  const shorter = Math.min(a.length, b.length)
  return shorter >= PREFIX_LENGTH_MIN && a.slice(0, shorter) === b.slice(0, shorter)
}

/** Counts letters added, removed, replaced, or swapped with their neighbour. */
function editDistance(a: string, b: string): number {
  let before: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      let cost = Math.min(
        (last[j] ?? 0) + 1,
        (row[j - 1] ?? 0) + 1,
        (last[j - 1] ?? 0) + (same ? 0 : 1),
      )
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      if (swapped) cost = Math.min(cost, (before[j - 2] ?? 0) + 1)
      row.push(cost)
    }
    before = last
    last = row
  }
  return last[b.length] ?? 0
}
