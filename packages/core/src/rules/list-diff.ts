/** Finds where two lists differ. */

export interface ChangedRange<Item> {
  /** The number of equal items at the start of both lists. */
  readonly start: number
  readonly before: readonly Item[]
  readonly after: readonly Item[]
}

/**
 * Returns two lists without their common start and end: sets share the objects of unchanged rules,
 * usually all but one of ten thousand.
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
