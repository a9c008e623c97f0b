/** Joins what a reservation holds of each counter with what an extension took of it. */
import type { ReservedEntry } from '@sluice/core'

/**
 * Entries of one counter. More would make the handle of a long stream longer than anybody reads;
 * older ones are rarely given back, because the newest units are given back first.
 */
const PARTS_MAX = 4

/**
 * Returns the entries with those of an extension. Where a counter has too many, the two that were
 * taken closest to each other become one, as if taken when the older was: what has left its window
 * since is then not given back, so that the reservation may stay charged for more, never for less.
 */
export function joinEntries(
  entries: readonly ReservedEntry[],
  added: readonly ReservedEntry[],
): readonly ReservedEntry[] {
  let joined = entries
  for (const entry of added) {
    const parts = joined.filter((other) => isOfSameCounter(entry, other))
    joined = parts.length < PARTS_MAX ? [...joined, entry] : joinClosest(joined, [...parts, entry])
  }
  return joined
}

/** `parts` are those of one counter, the oldest first; the last is not among the entries yet. */
function joinClosest(
  entries: readonly ReservedEntry[],
  parts: readonly ReservedEntry[],
): readonly ReservedEntry[] {
  const gap = (i: number) => (parts[i + 1]?.at ?? Number.POSITIVE_INFINITY) - (parts[i]?.at ?? 0)
  const closest = parts.reduce((best, _, i) => (gap(i) < gap(best) ? i : best), 0)
  const [older, newer] = parts.slice(closest, closest + 2)
  const last = parts.at(-1)
  if (older === undefined || newer === undefined || last === undefined) return entries
  const one = { ...older, amount: older.amount + newer.amount }
  return [...entries, last].flatMap((entry) =>
    entry === older ? [one] : entry === newer ? [] : [entry],
  )
}

function isOfSameCounter({ key, isKept }: ReservedEntry, other: ReservedEntry): boolean {
  return key.hi === other.key.hi && key.lo === other.key.lo && isKept === other.isKept
}
