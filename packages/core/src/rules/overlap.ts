/** How the matches of two rules lie to each other, their paths aside. */
import type { Match, Rule } from './rule.js'

/**
 * Whether one call may meet both rules. For networks only those written alike count as overlapping,
 * so this may say no where a call could meet both.
 */
export function mayMeet(a: Rule, b: Rule): boolean {
  return (
    (a.match.method.length === 0 ||
      b.match.method.length === 0 ||
      meet(a.match.method, b.match.method)) &&
    needsNothingAbsent(a, b.match) &&
    needsNothingAbsent(b, a.match) &&
    [...a.match.where].every(([name, values]) => {
      const theirs = b.match.where.get(name)
      if (theirs === undefined) return true
      return values === null || theirs === null ? values === theirs : meet(values, theirs)
    })
  )
}

/** Whether every call of `inner`, but without the attribute `missing`, matches `outer`. */
export function isCoveredBy(inner: Match, outer: Match, missing: string): boolean {
  if (outer.method.length > 0) {
    const isEvery = inner.method.length > 0 && contains(outer.method, inner.method)
    if (!isEvery) return false
  }
  for (const [name, values] of outer.where) {
    const ours = name === missing ? null : inner.where.get(name)
    if (ours === undefined) return false
    if (ours === null || values === null) {
      if (ours !== values) return false
    } else if (!contains(values, ours)) return false
  }
  return true
}

function needsNothingAbsent({ by }: Rule, match: Match): boolean {
  return by.every((name) => match.where.get(name) !== null)
}

function meet(a: readonly string[], b: readonly string[]): boolean {
  return a.some((value) => b.includes(value))
}

function contains(all: readonly string[], some: readonly string[]): boolean {
  return some.every((value) => all.includes(value))
}
