/**
 * Parses priorities: their names, the lines that classify calls, the headroom that a rule keeps
 * free for the more important ones, and what a busy process sheds.
 */
import { defineLimit, type LimitSpec } from '../limit.js'
import { ceilingUnits, leastCeiling } from '../matching/ceilings.js'
import { readDistinct } from './parse-attribute.js'
import { readDuration } from './parse-limit.js'
import { EVERY_CALL, readMatch } from './parse-match.js'
import { locatedLimitsOf } from './located-limits.js'
import type { LocatedRule } from './parse-rule.js'
import { readShare } from './parse-share.js'
import type { ReportDiagnostic } from './diagnostics.js'
import {
  reportAt,
  fieldName,
  fieldOf,
  itemsOf,
  locateEntry,
  readAnyMap,
  readChoice,
  readList,
  readMap,
  readOptional,
  readRequired,
  readText,
  type Located,
} from './reader.js'
import type { Classification, Headroom, Match, Mode, Rule, ShedSpec } from './rule.js'
import { slug } from './suggest.js'
import { quote } from './tree.js'

/** Each priority is a label of metrics and a limit of its own for each limit with headroom. */
const PRIORITIES_MAX = 8
const CLASSIFY_MAX = 100
const NAME = /^[a-z0-9-]{1,32}$/
const ACCEPTED_NAME = '1 to 32 of a-z, 0-9 and "-", such as critical'
const ACCEPTED_PRIORITIES = 'one or more names, the most important first'
const NO_PRIORITIES = 'priorities: a list of names, beside rules'
/** What all priorities together may reserve: a tenth stays for everybody. */
const RESERVED_MAX = 9000
const ACCEPTED_SHARE =
  'a percentage above 0%, up to 90%, in steps of 0.01%, such as 20%, or as a number 0.2'
const LOOP_MS_MIN = 10
const LOOP_MS_MAX = 10_000
const ACCEPTED_LOOP = 'a duration from 10ms to 10s'
/** Some calls always pass, so that it is seen when the others may again. */
const MOST_MAX = 9900
const MOST = 9000
const ACCEPTED_MOST =
  'a percentage above 0%, up to 99%, in steps of 0.01%, such as 90%, or as a number 0.9'
const RESERVES = { least: 1, most: RESERVED_MAX, accepted: ACCEPTED_SHARE }
const SHED_SHARES = { least: 1, most: MOST_MAX, accepted: ACCEPTED_MOST }
const MODES: readonly Mode[] = ['enforce', 'shadow', 'off']

export function readPriorities(located: Located): readonly string[] | undefined {
  const list = readList(located, { items: 'priorities', most: PRIORITIES_MAX })
  if (list === undefined) return undefined
  if (list.node.items.length === 0)
    return reportAt(located, 'empty', { accepted: ACCEPTED_PRIORITIES })
  return readDistinct(itemsOf(list), readName)
}

function readName(located: Located): string | undefined {
  const name = readText(located, { accepted: ACCEPTED_NAME, most: Number.POSITIVE_INFINITY })
  if (name === undefined || NAME.test(name)) return name
  const suggestion = slug(name)
  return reportAt(located, 'bad-priority', {
    accepted: ACCEPTED_NAME,
    suggestion: suggestion !== undefined && NAME.test(suggestion) ? suggestion : undefined,
  })
}

/** Reads the name of one of the priorities. */
function readPriority(located: Located, priorities: readonly string[]): string | undefined {
  const accepted = priorities.length === 0 ? NO_PRIORITIES : priorities.join(', ')
  const name = readText(located, { accepted, most: Number.POSITIVE_INFINITY })
  if (name === undefined || priorities.includes(name)) return name
  return reportAt(located, 'unknown-priority', {
    accepted,
    near: { word: name, words: priorities },
  })
}

/** `priorities` are those of the set; empty if there are none, or if they are invalid. */
export function readClassify(
  located: Located,
  priorities: readonly string[],
): readonly Classification[] | undefined {
  const list = readList(located, { items: 'lines', most: CLASSIFY_MAX })
  if (list === undefined) return undefined
  const lines: Classification[] = []
  let why: string | undefined
  for (const item of itemsOf(list)) {
    const line = readLine(item, priorities)
    if (why !== undefined) {
      reportAt(item, 'never-matches', {
        found: `${why} matches every call before it`,
        accepted: 'a line without match last',
      })
    }
    if (line === undefined) continue
    if (isEveryCall(line.match)) why ??= item.field
    lines.push(line)
  }
  return lines
}

function readLine(located: Located, priorities: readonly string[]): Classification | undefined {
  const map = readMap(located, ['match', 'as'])
  if (map === undefined) return undefined
  const match = readOptional(map, 'match', readMatch) ?? EVERY_CALL
  if (match.where.has('priority')) {
    reportAt(fieldOf(map, 'match') ?? map, 'reserved-attribute', {
      found: '"priority"',
      accepted: 'as, which sets the priority',
    })
  }
  const as = readRequired(map, 'as', {
    accepted: priorities.length === 0 ? NO_PRIORITIES : priorities.join(', '),
    read: (field) => readPriority(field, priorities),
  })
  return as === undefined ? undefined : { match, as }
}

function isEveryCall({ method, path, where }: Match): boolean {
  return method.length === 0 && path === undefined && where.size === 0
}

/**
 * Reads the shares that a rule reserves. Whether the priorities exist is known of the set only:
 * their names are returned even if a share is invalid.
 */
export function readHeadroom(located: Located): Headroom | undefined {
  const map = readAnyMap(located, 'a map of priorities to shares, such as { critical: 20% }')
  if (map === undefined) return undefined
  const { entries } = map.node
  if (entries.size === 0) return reportAt(located, 'empty', { accepted: 'one or more priorities' })
  const headroom = new Map<string, number>()
  let sum = 0
  for (const entry of entries.values()) {
    const share = readShare(locateEntry(map, entry), RESERVES)
    headroom.set(entry.key, share ?? 0)
    sum += share ?? 0
  }
  if (sum > RESERVED_MAX) {
    reportAt(located, 'bad-headroom', {
      found: `${sum / 100}% reserved in all`,
      accepted: `up to ${RESERVED_MAX / 100}% in all`,
    })
  }
  return headroom
}

/** `priorities` are those of the set; empty if there are none, or if they are invalid. */
export function readShed(located: Located, priorities: readonly string[]): ShedSpec | undefined {
  const map = readMap(located, ['loop', 'keep', 'most', 'mode'])
  if (map === undefined) return undefined
  if (priorities.length === 0) {
    return reportAt(located, 'missing-field', { field: 'priorities', accepted: NO_PRIORITIES })
  }
  const loopMs = readRequired(map, 'loop', { accepted: ACCEPTED_LOOP, read: readLoop })
  const keep = readOptional(map, 'keep', (field) => readKeep(field, priorities)) ?? []
  const most = readOptional(map, 'most', (field) => readShare(field, SHED_SHARES))
  const mode = readOptional(map, 'mode', (field) => readChoice(field, MODES)) ?? 'enforce'
  return loopMs === undefined ? undefined : { loopMs, keep, most: most ?? MOST, mode }
}

function readLoop(located: Located): number | undefined {
  const ms = readDuration(located)
  if (ms === undefined || (ms >= LOOP_MS_MIN && ms <= LOOP_MS_MAX)) return ms
  return reportAt(located, 'bad-duration', { accepted: ACCEPTED_LOOP })
}

function readKeep(located: Located, priorities: readonly string[]): readonly string[] | undefined {
  const list = readList(located, { items: 'priorities', most: PRIORITIES_MAX })
  return list && readDistinct(itemsOf(list), (item) => readPriority(item, priorities))
}

/** For a rule without problems: every limit leaves a call to the least important priority. */
export function checkHeadroom({ rule, map }: LocatedRule): void {
  if (rule.headroom === undefined) return
  for (const { located, limit } of locatedLimitsOf(rule, map)) {
    checkHeadroomOf(limit, rule, located)
  }
}

export function checkHeadroomOf(
  spec: LimitSpec,
  { headroom, cost }: Pick<Rule, 'headroom' | 'cost'>,
  located: Located,
): void {
  if (headroom === undefined || spec.max === 0) return
  if (spec.block !== undefined) {
    reportAt(located, 'bad-headroom', {
      found: 'block beside headroom',
      accepted: 'either of them, because a block holds for all priorities',
    })
    return
  }
  const limit = defineLimit(spec)
  const least = Math.max(leastCeiling(limit), typeof cost === 'number' ? cost : 1)
  const left = ceilingUnits(limit.capacity, [...headroom.values()])
  if (left >= least) return
  reportAt(located, 'headroom-too-large', {
    found: `headroom of ${limit.capacity - left}`,
    why: `${limit.capacity}`,
    accepted: `headroom that leaves at least ${least}, or a larger limit`,
  })
}

/** The rules of a set, of which some may have no position: they were parsed with an earlier set. */
interface SetRules {
  readonly rules: readonly Rule[]
  readonly located: readonly LocatedRule[]
}

/**
 * Checks that the priorities of each headroom exist, and that another one is below. A set without
 * priorities gets a warning: a rule of it may be meant for another set.
 */
export function checkPriorities(
  { rules, located }: SetRules,
  priorities: readonly string[],
  report: ReportDiagnostic,
): void {
  const reserving = rules.filter(({ headroom }) => headroom !== undefined)
  if (reserving.length === 0) return
  const byRule = new Map(located.map((each) => [each.rule, each]))
  for (const rule of reserving) {
    const map = byRule.get(rule)?.map
    const field = map && fieldOf(map, 'headroom')
    const at = field?.node.at ?? -1
    const where = { rule: rule.id, at, field: 'headroom' }
    if (priorities.length === 0) {
      report({ ...where, code: 'idle-headroom', found: 'no priorities', accepted: NO_PRIORITIES })
      continue
    }
    for (const name of rule.headroom?.keys() ?? []) {
      const share = field?.node.kind === 'map' ? field.node.entries.get(name) : undefined
      const named =
        field === undefined || share === undefined
          ? where
          : { ...where, at: share.at, field: fieldName(field, name) }
      if (!priorities.includes(name)) {
        report({
          ...named,
          code: 'unknown-priority',
          found: quote(name),
          accepted: priorities.slice(0, -1).join(', '),
          near: { word: name, words: priorities },
        })
      } else if (name === priorities.at(-1)) {
        report({
          ...named,
          code: 'bad-headroom',
          found: `${quote(name)}, the last priority, from which nobody takes`,
          accepted: priorities.slice(0, -1).join(', ') || 'no headroom',
        })
      }
    }
  }
}
