/** Where two lists differ. */

export interface ChangedRange<Item> {
  /** How many items both lists begin with. */
  readonly start: number
  readonly before: readonly Item[]
  readonly after: readonly Item[]
}

/**
 * Two lists without the items that both begin and end with: sets share the rules that nobody
 * touched, and mostly those are all but one of ten thousand.
 */
export function changedRange<Item>(
  before: readonly Item[],
  after: readonly Item[],
): ChangedRange<Item> {
  const shorter = Math.min(before.length, after.length)
  let start = 0
  while (start < shorter && before[start] === after[start]) start++
  let [last, end] = [before.length, after.length]
  while (last > start && end > start && before[last - 1] === after[end - 1]) {
    last--
    end--
  }
  return { start, before: before.slice(start, last), after: after.slice(start, end) }
}
