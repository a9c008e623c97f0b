/** Compares the matches of two rules, except for their paths. */
import { type Cidr, cidrCovers, parseCidr } from '../identity/cidr.js'
import { isExclusion, type Match, type Rule, type WhereClause } from './rule.js'

/**
 * Whether one call may match both rules. Networks count as overlapping only if written alike, so
 * this may return false although a call could match both.
 */
export function mayMeet(a: Rule, b: Rule): boolean {
  return (
    (a.match.method.length === 0 ||
      b.match.method.length === 0 ||
      meet(a.match.method, b.match.method)) &&
    needsNothingAbsent(a, b.match) &&
    needsNothingAbsent(b, a.match) &&
    [...a.match.where].every(([name, clause]) => {
      const theirs = b.match.where.get(name)
      return theirs === undefined || mayBothHold(name, clause, theirs)
    })
  )
}

/** Whether every call of `inner`, but without the attribute `missing`, matches `outer`. */
export function isCoveredBy(inner: Match, outer: Match, missing: string): boolean {
  if (outer.method.length > 0) {
    const isEvery = inner.method.length > 0 && contains(outer.method, inner.method)
    if (!isEvery) return false
  }
  for (const [name, clause] of outer.where) {
    const ours = name === missing ? null : inner.where.get(name)
    if (ours === undefined || !implies(name, ours, clause)) return false
  }
  return true
}

function needsNothingAbsent({ by }: Rule, match: Match): boolean {
  return by.every((name) => match.where.get(name) !== null)
}

/** Whether some value of an attribute, or its absence, satisfies both clauses. */
function mayBothHold(name: string, a: WhereClause, b: WhereClause): boolean {
  // Some value is always excluded by neither; absence is one.
  if (isExclusion(a))
    return isExclusion(b) || b === null || b.some((each) => !isIn(name, each, a.not))
  if (isExclusion(b)) return mayBothHold(name, b, a)
  return a === null || b === null ? a === b : meet(a, b)
}

/** Whether every attribute that satisfies `ours` also satisfies `theirs`. */
function implies(name: string, ours: WhereClause, theirs: WhereClause): boolean {
  if (!isExclusion(theirs)) {
    if (isExclusion(ours)) return false
    return ours === null || theirs === null ? ours === theirs : contains(theirs, ours)
  }
  if (ours === null) return true
  if (isExclusion(ours)) return theirs.not.every((each) => isIn(name, each, ours.not))
  return !ours.some((each) => theirs.not.some((other) => mayShare(name, each, other)))
}

/** Whether a value is among these; for `ip`, whether all addresses of a network are. */
function isIn(name: string, value: string, values: readonly string[]): boolean {
  if (name !== 'ip') return values.includes(value)
  const network = readNetwork(value)
  return values.some((other) => cidrCovers(readNetwork(other), network))
}

/** Whether two values are equal, or two networks have an address in common. */
function mayShare(name: string, a: string, b: string): boolean {
  if (name !== 'ip') return a === b
  const [one, other] = [readNetwork(a), readNetwork(b)]
  return cidrCovers(one, other) || cidrCovers(other, one)
}

/** Parses a network of a valid rule. */
function readNetwork(text: string): Cidr {
  const cidr = parseCidr(text)
  if ('problem' in cidr) throw new RangeError(`where.ip: ${cidr.problem}`)
  return cidr
}

function meet(a: readonly string[], b: readonly string[]): boolean {
  return a.some((value) => b.includes(value))
}

function contains(all: readonly string[], some: readonly string[]): boolean {
  return some.every((value) => all.includes(value))
}
