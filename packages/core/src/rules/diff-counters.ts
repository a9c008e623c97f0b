/**
 * Determines what a change does to the counters of a rule. A counter is identified by rule id,
 * limit name, caller and the attributes that the rule counts by; its state is readable only by one
 * algorithm. A candidate has its own counters. Those of a rule with coordination `split` or `node`
 * are on each node, not in the store.
 *
 * The report is from the view of callers: one whose tier is new had the rule's own limits before,
 * and one whose tier was removed has them now.
 */
import { moduleOf } from '../algorithms/index.js'
import { limitNameOf, type LimitSpec } from '../limit.js'
import { listText, tierField } from './diff-fields.js'
import { limitChanges, limitSpecText } from '../text/limit-text.js'
import type { Coordination, Override, Rule, Tiers } from './rule.js'

/** What a change does to the counters of one limit. */
export interface CounterFate {
  /** The position of the limit: `limits`, `tiers.plan.pro`, `candidate.limits`, `overrides`. */
  readonly where: string
  /** The name of the limit. */
  readonly limit: string
  /**
   * `go on`: usage is kept. `start anew`: callers begin with a full budget. `end`: counters are no
   * longer read, and expire.
   */
  readonly counters: 'go on' | 'start anew' | 'end'
  /** A readable description of the change: `max 100 to 50`. Empty if nothing changed. */
  readonly what: string
}

type Fate = CounterFate['counters']

interface Limits {
  readonly limits: readonly LimitSpec[]
  readonly tiers: Tiers | undefined
}

/** The limits of some callers of a rule, before and after. */
interface Place {
  readonly where: string
  readonly before: readonly LimitSpec[]
  readonly after: readonly LimitSpec[]
}

/** Changes of a rule that give it other counters. */
interface Shift {
  /** Empty if it counts by the same attributes. */
  readonly by: string
  readonly was: Coordination | undefined
  readonly is: Coordination | undefined
}

/** The most limit names of overrides reported; each caller may have its own. */
const OVERRIDE_LIMITS_MAX = 16

/** One of the two is undefined if the rule was added or removed. */
export function counterFates(
  before: Rule | undefined,
  after: Rule | undefined,
): readonly CounterFate[] {
  const by = byChange(before, after)
  const shift = { by, was: before?.coordination, is: after?.coordination }
  const inForce = fatesOf(placesOf(before, after, ''), shift)
  const candidateFates = fatesOf(placesOf(before?.candidate, after?.candidate, 'candidate.'), shift)
  const isOther = by !== '' || moveText(shift) !== ''
  if (before === undefined || after === undefined || isOther) return [...inForce, ...candidateFates]
  return [...inForce, ...overrideFates(before, after), ...candidateFates]
}

/** Returns why the previous counters are not found; empty if they are. */
function byChange(before: Rule | undefined, after: Rule | undefined): string {
  if (before === undefined || after === undefined) return ''
  const [was, is] = [listText(before.by), listText(after.by)]
  return was === is ? '' : `by ${was} to ${is}`
}

/** Where a coordination keeps counters: in the store, or in one of two stores of each node. */
function homeOf(coordination: Coordination | undefined): 'store' | 'split' | 'node' {
  return coordination === 'split' || coordination === 'node' ? coordination : 'store'
}

/** Returns how the counters move; empty if they stay. */
function moveText({ was, is }: Shift): string {
  if (was === undefined || is === undefined) return ''
  return homeOf(was) === homeOf(is) ? '' : `coordination ${was} to ${is}`
}

/** Only the store charges refusals, so a limit that charges them is always there. */
function homeOfLimit(coordination: Coordination | undefined, { onRefusal }: LimitSpec): string {
  return (onRefusal ?? 'none') === 'none' ? homeOf(coordination) : 'store'
}

function placesOf(
  before: Limits | undefined,
  after: Limits | undefined,
  prefix: string,
): readonly Place[] {
  const own = {
    where: `${prefix}limits`,
    before: before?.limits ?? [],
    after: after?.limits ?? [],
  }
  const tiers = new Map<string, Place>()
  for (const from of [after?.tiers, before?.tiers]) {
    for (const value of from?.limits.keys() ?? []) {
      const attribute = from?.attribute ?? ''
      const where = prefix + tierField(attribute, value)
      tiers.set(where, {
        where,
        before: limitsFor(before, attribute, value),
        after: limitsFor(after, attribute, value),
      })
    }
  }
  return [own, ...tiers.values()]
}

function limitsFor(
  from: Limits | undefined,
  attribute: string,
  value: string,
): readonly LimitSpec[] {
  const tier = from?.tiers?.attribute === attribute ? from.tiers.limits.get(value) : undefined
  return tier ?? from?.limits ?? []
}

/** Returns each change with its position, and once per counter that it continues. */
function fatesOf(places: readonly Place[], shift: Shift): readonly CounterFate[] {
  const fates = places.flatMap((place) => fatesAt(place, shift))
  const moved = moveText(shift)
  const reasons = [shift.by, moved, `${shift.by}, ${moved}`]
  const isAllNew = places.every(({ before }) => before.length === 0)
  const isAllGone = places.every(({ after }) => after.length === 0)
  const reported = new Set<string>()
  const isNews = ({ where, limit, what }: CounterFate) => {
    // A result that is the same everywhere, for the same reason, is reported once.
    const isEverywhere = isAllNew || isAllGone || reasons.includes(what)
    const id = isEverywhere ? limit : `${where} ${limit}`
    if (reported.has(id)) return false
    reported.add(id)
    return true
  }
  const changed = fates.filter((fate) => fate.what !== '' && isNews(fate))
  const goingOn = changed.filter(({ counters }) => counters === 'go on')
  const names = new Set(goingOn.map(({ limit }) => limit))
  const unchanged = fates.filter(({ limit, what }) => {
    if (what !== '' || names.has(limit)) return false
    names.add(limit)
    return true
  })
  return [...changed, ...unchanged].toSorted(
    (a, b) => placeOf(places, a.where) - placeOf(places, b.where),
  )
}

function placeOf(places: readonly Place[], where: string): number {
  return places.findIndex((place) => place.where === where)
}

function fatesAt({ where, before, after }: Place, shift: Shift): readonly CounterFate[] {
  const { by, was: coordinated, is: coordination } = shift
  const was = byName(before)
  const is = byName(after)
  const present = [...is].map(([limit, spec]): CounterFate => {
    const old = was.get(limit)
    if (old === undefined) {
      return { where, limit, counters: 'start anew', what: `new: ${limitSpecText(spec)}` }
    }
    const isMoved = homeOfLimit(coordinated, old) !== homeOfLimit(coordination, spec)
    const isFound = by === '' && !isMoved && moduleOf(old) === moduleOf(spec)
    const reasons = [by, isMoved ? moveText(shift) : '', limitChanges(old, spec)]
    const what = reasons.filter((text) => text !== '').join(', ')
    return { where, limit, counters: isFound ? 'go on' : 'start anew', what }
  })
  const ended = [...was]
    .filter(([limit]) => !is.has(limit))
    .map(([limit, spec]): CounterFate => {
      return { where, limit, counters: 'end', what: `was ${limitSpecText(spec)}` }
    })
  return [...present, ...ended]
}

function byName(limits: readonly LimitSpec[]): ReadonlyMap<string, LimitSpec> {
  return new Map(limits.map((limit) => [limitNameOf(limit), limit]))
}

/** Returns the overrides of a rule by caller, with values in the order of `by`. */
export function overridesByCaller({ by, overrides }: Rule): ReadonlyMap<string, Override> {
  return new Map(
    overrides.map((override) => [
      JSON.stringify(by.map((attribute) => override.caller.get(attribute))),
      override,
    ]),
  )
}

export function isSameOverride(a: Override, b: Override): boolean {
  return a.untilMs === b.untilMs && limitsKey(a.limits) === limitsKey(b.limits)
}

function limitsKey(limits: readonly LimitSpec[]): string {
  return limits.map(limitSpecText).join(' ')
}

/**
 * Returns what happens to the counters of callers whose override was added, removed or changed. The
 * tier of such a caller is unknown: a counter continues if any of its possible limits keeps it.
 */
function overrideFates(before: Rule, after: Rule): readonly CounterFate[] {
  if (before.overrides.length === 0 && after.overrides.length === 0) return []
  const [was, is] = [overridesByCaller(before), overridesByCaller(after)]
  const reported = new Map<string, { limit: string; counters: Fate; callers: number }>()
  const count = (limit: string, counters: Fate) => {
    const id = `${counters} ${limit}`
    const known = reported.get(id)
    if (known !== undefined) known.callers += 1
    else if (reported.size < OVERRIDE_LIMITS_MAX) reported.set(id, { limit, counters, callers: 1 })
  }
  const [ownBefore, ownAfter] = [ownLimits(before), ownLimits(after)]
  for (const caller of new Set([...is.keys(), ...was.keys()])) {
    const [old, now] = [was.get(caller), is.get(caller)]
    if (old !== undefined && now !== undefined && isSameOverride(old, now)) continue
    const [had, has] = [formats(old?.limits ?? ownBefore), formats(now?.limits ?? ownAfter)]
    // A removed override is reported by its own limit names, not by those of all tiers.
    const names = new Set([
      ...formats(now?.limits ?? []).keys(),
      ...formats(old?.limits ?? []).keys(),
    ])
    for (const name of names) {
      const [from, to] = [had.get(name), has.get(name)]
      if (to === undefined) count(name, 'end')
      else count(name, from !== undefined && meets(from, to) ? 'go on' : 'start anew')
    }
  }
  return [...reported.values()].map(({ limit, counters, callers }) => ({
    where: 'overrides',
    limit,
    counters,
    what: callers === 1 ? '1 caller' : `${callers} callers`,
  }))
}

function ownLimits({ limits, tiers }: Rule): readonly LimitSpec[] {
  return [...limits, ...[...(tiers?.limits.values() ?? [])].flat()]
}

/** Returns the formats of the states of the limits of each name. */
function formats(limits: readonly LimitSpec[]): ReadonlyMap<string, ReadonlySet<number>> {
  const found = new Map<string, Set<number>>()
  for (const limit of limits) {
    const name = limitNameOf(limit)
    found.set(name, (found.get(name) ?? new Set()).add(moduleOf(limit).format))
  }
  return found
}

function meets(a: ReadonlySet<number>, b: ReadonlySet<number>): boolean {
  return [...a].some((item) => b.has(item))
}
