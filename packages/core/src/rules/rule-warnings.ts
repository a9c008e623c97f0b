/** Warns of likely mistakes within one rule. Errors with `strict`. */
import { moduleOf } from '../algorithms/index.js'
import { MESSAGE } from '../call.js'
import { formatDuration } from '../text/duration.js'
import { MAX_UNITS } from '../numbers.js'
import { defineLimit, type LimitSpec } from '../limit.js'
import { MAX_STRANDED_MAX } from './parse-coordination.js'
import { meansEverybody } from './parse-attribute.js'
import { type LocatedLimit, locatedLimitsOf } from './located-limits.js'
import type { LocatedRule } from './parse-rule.js'
import { reportAt, fieldOf } from './reader.js'
import { NO_ATTRIBUTES } from './suggest.js'
import { quote } from './tree.js'

/** The bytes per caller from which a log is reported, about ten times those of other algorithms. */
const LOG_BYTES_MANY = 512
const LOG_CALLS_PER_SECOND_MANY = 10
/** The most bytes of one log entry in Redis. */
const LOG_ENTRY_BYTES = 16
const FIXED_WINDOW_MS_LONG = 1000
/** With fewer units a lease would save no request to the store. */
const LEASE_UNITS_MIN = 2

/** For a rule without problems. A rule that is off has no effect and gives no warnings. */
export function warnOfRule({ rule, map }: LocatedRule): void {
  if (rule.mode === 'off') return
  // Shadow rules use memory and counters too; only refusals need `enforce`.
  if (rule.by.includes('path')) {
    const accepted = 'by route, or by the attributes of the caller alone'
    reportAt(fieldOf(map, 'by') ?? map, 'by-path', { found: '"path"', accepted })
  }
  for (const attribute of rule.by.filter(meansEverybody)) {
    reportAt(fieldOf(map, 'by') ?? map, 'by-everybody', {
      found: quote(attribute),
      accepted: 'by: [] for one counter for everybody, or the attributes of the caller',
      suggestion: NO_ATTRIBUTES,
    })
  }
  for (const locatedLimit of locatedLimitsOf(rule, map)) {
    warnOfLog(locatedLimit)
    if (rule.hedge) warnOfHedgedList(locatedLimit)
    if (rule.match.method.join() === MESSAGE) warnOfUnseenEnd(locatedLimit)
    if (rule.mode === 'enforce' && !locatedLimit.isCandidate) warnOfFixedWindow(locatedLimit)
    if (isShared(locatedLimit)) {
      if (rule.coordination === 'leased') warnOfSmallLease(locatedLimit, rule.maxStranded)
      if (rule.coordination === 'local') warnOfSlowSync(locatedLimit, rule.syncEveryMs)
    }
  }
}

function warnOfLog({ located, limit }: LocatedLimit): void {
  const { max, windowMs } = limit
  if (moduleOf(limit).family !== 'log') return
  const isFast = max * 1000 > LOG_CALLS_PER_SECOND_MANY * windowMs
  const bytes = max * LOG_ENTRY_BYTES
  if (bytes <= LOG_BYTES_MANY && !isFast) return
  reportAt(located, 'large-log', {
    found: `${max}/${formatDuration(windowMs)}, up to ${bytes} bytes for each caller`,
    accepted:
      `up to ${LOG_CALLS_PER_SECOND_MANY} calls a second and ${LOG_BYTES_MANY} bytes ` +
      `(${LOG_BYTES_MANY / LOG_ENTRY_BYTES} entries), or a sliding-window-counter`,
  })
}

/**
 * Warns of a hedged log: its state is all of its entries, too much to send with every decision. And
 * of hedged places: those that are taken now are no guess of those that will be.
 */
function warnOfHedgedList({ located, limit }: LocatedLimit): void {
  const { family } = moduleOf(limit)
  if (family === 'places') {
    reportAt(located, 'hedged-log', { found: limit.algorithm, accepted: 'hedge: false' })
  }
  if (family !== 'log') return
  reportAt(located, 'hedged-log', {
    found: limit.algorithm,
    accepted: 'another algorithm such as sliding-window-counter, or hedge: false',
  })
}

/** Warns of calls in flight that are messages: nobody says when a message has been dealt with. */
function warnOfUnseenEnd({ located, limit }: LocatedLimit): void {
  if (moduleOf(limit).family !== 'places') return
  reportAt(located, 'end-unseen', {
    found: MESSAGE,
    accepted: 'a rule for the upgrades of WebSockets (method: GET), or another algorithm',
  })
}

function warnOfFixedWindow({ located, limit }: LocatedLimit): void {
  const { max, windowMs } = limit
  if (windowMs <= FIXED_WINDOW_MS_LONG || max === 0) return
  // A calendar window is a budget, and chosen so that all of it is there again at the edge.
  if (!moduleOf(limit).resetsAtOnce || limit.window !== undefined) return
  reportAt(located, 'long-fixed-window', {
    found: formatDuration(windowMs),
    why: `admits up to ${2 * max} calls around its edge`,
    accepted: 'a sliding-window-counter or a token-bucket, a window up to 1s, or mode: shadow',
  })
}

/**
 * Whether nodes share a limit: one that charges refusals is always exact, and one of 0 refuses all.
 */
function isShared({ limit }: LocatedLimit): boolean {
  return (limit.onRefusal ?? 'none') === 'none' && limit.max > 0
}

function warnOfSmallLease({ located, limit, isOverride }: LocatedLimit, maxStranded: number): void {
  // An override of one caller does not determine how the rule should be coordinated.
  if (isOverride) return
  const { capacity } = defineLimit(limit)
  if (isLeasable(capacity, maxStranded)) return
  const larger = [
    ...leasableCapacity(limit, maxStranded),
    ...leasableShare(capacity).map((share) => `maxStranded: ${share}`),
  ].join(' or ')
  reportAt(located, 'small-lease', {
    found: `${maxStranded} of ${capacity}`,
    accepted: `${larger === '' ? '' : `at least ${larger} for each node, or `}coordination: exact`,
  })
}

/** Whether the limiter would draw a lease, for a fleet of one node. */
function isLeasable(capacity: number, maxStranded: number): boolean {
  return Math.floor(maxStranded * capacity) >= LEASE_UNITS_MIN
}

function leasableCapacity(limit: LimitSpec, maxStranded: number): readonly string[] {
  const least = Math.ceil(LEASE_UNITS_MIN / maxStranded)
  // The product may be slightly below the exact value because of rounding.
  const capacity = isLeasable(least, maxStranded) ? least : least + 1
  const field = moduleOf(limit).holdsMax && limit.burst === undefined ? 'max' : 'burst'
  return capacity > MAX_UNITS ? [] : [`${field}: ${capacity}`]
}

/** Returns the smallest leasable share, with as few digits as possible. */
function leasableShare(capacity: number): readonly number[] {
  const least = LEASE_UNITS_MIN / capacity
  const step = 10 ** (Math.floor(Math.log10(least)) - 2)
  const share = [least, least + step]
    .map((each) => Number(each.toPrecision(3)))
    .find((each) => isLeasable(capacity, each))
  return share === undefined || share > MAX_STRANDED_MAX ? [] : [share]
}

function warnOfSlowSync({ located, limit }: LocatedLimit, syncEveryMs: number): void {
  const { windowMs } = limit
  if (2 * syncEveryMs <= windowMs) return
  reportAt(located, 'slow-sync', {
    found: formatDuration(syncEveryMs),
    why: formatDuration(windowMs),
    accepted: `syncEvery up to ${formatDuration(Math.floor(windowMs / 2))}, or a longer window`,
  })
}
