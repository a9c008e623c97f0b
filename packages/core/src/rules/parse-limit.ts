/** Parses limits: the short form `10/second`, and the long form with every field. */
import { formatDuration, parseDuration, WINDOW_MS_MAX, WINDOW_MS_MIN } from '../text/duration.js'
import type { BlockSpec } from '../algorithms/block.js'
import { ALGORITHM_NAMES, type AlgorithmName, algorithms } from '../algorithms/index.js'
import { CALENDAR_MS, CALENDAR_UNITS, isTimeZone, timeZoneNames } from '../calendar.js'
import { MAX_UNITS } from '../numbers.js'
import { DEFAULT_ALGORITHM, findLimitProblem, limitNameOf, type LimitSpec } from '../limit.js'
import {
  reportAt,
  fieldName,
  fieldOf,
  itemsOf,
  readChoice,
  readList,
  readMap,
  readNumber,
  readOptional,
  readRequired,
  readText,
  type Located,
} from './reader.js'
import { nearest, slug } from './suggest.js'
import { describe, type MapNode, quote } from './tree.js'

const LIMITS_MAX = 16
const NAME = /^[a-z0-9-]{1,64}$/
const ACCEPTED_NAME = '1 to 64 of a-z, 0-9 and "-"'
const ACCEPTED_LIMIT = 'a limit such as 10/second or 100/10s, or a map with max and window'
const ACCEPTED_NUMBER = `a whole number from 0 to ${MAX_UNITS}`
const ACCEPTED_DURATION = 'a whole number and ms, s, m, h or d, such as 250ms, 10s or 1h'

const ACCEPTED_WINDOW = `${ACCEPTED_DURATION}; or month, week or day of a calendar`
const ACCEPTED_ZONE = 'the name of a time zone, such as Europe/Berlin or UTC'

const STARTS = ['clock', 'call'] as const
const ON_REFUSAL = ['none', 'charge', 'overdraw'] as const

const LIMIT_KEYS: readonly string[] = [
  'algorithm',
  'max',
  'window',
  'zone',
  'lease',
  'start',
  'burst',
  'queue',
  'maxWait',
  'wait',
  'name',
  'onRefusal',
  'debt',
  'block',
]

const UNITS: ReadonlyMap<string, string> = new Map([
  ['second', '1s'],
  ['minute', '1m'],
  ['hour', '1h'],
  ['day', '1d'],
])

/** Reads the limits of a tier or an override; an empty list means no limit. */
export function readLimits(located: Located): readonly LimitSpec[] | undefined {
  const list = readList(located, { items: 'limits', most: LIMITS_MAX })
  if (list === undefined) return undefined
  const limits: LimitSpec[] = []
  const fieldByName = new Map<string, string>()
  for (const item of itemsOf(list)) {
    const limit = readLimit(item)
    if (limit === undefined) continue
    const name = limitNameOf(limit)
    const why = fieldByName.get(name)
    // The name is part of the counter's key: two limits of one name would share a counter.
    if (why !== undefined) {
      const accepted = 'a name of its own for each limit of a rule'
      reportAt(item, 'duplicate-limit-name', { found: quote(name), why, accepted })
    }
    fieldByName.set(name, item.field)
    limits.push(limit)
  }
  return limits
}

/** Reads the limits of a rule itself, which needs at least one. */
export function readNonEmptyLimits(located: Located): readonly LimitSpec[] | undefined {
  if (located.node.kind === 'list' && located.node.items.length === 0) {
    return reportAt(located, 'empty', { accepted: 'one or more limits; mode: off for no limit' })
  }
  return readLimits(located)
}

function readLimit(located: Located): LimitSpec | undefined {
  const { node } = located
  if (node.kind === 'map') return readLongForm(located)
  if (node.kind !== 'scalar' || typeof node.value !== 'string') {
    return reportAt(located, 'wrong-type', { accepted: ACCEPTED_LIMIT })
  }
  return readShortForm(located, node.value)
}

function readShortForm(located: Located, text: string): LimitSpec | undefined {
  const shape = /^(0|[1-9][0-9]*)\/([a-z0-9]+)$/.exec(text)
  const unit = shape?.[2] ?? ''
  const windowMs = parseDuration(UNITS.get(unit) ?? unit)
  if (windowMs === undefined) {
    const accepted = calendarForm(text) ?? ACCEPTED_LIMIT
    return reportAt(located, 'bad-limit', { accepted, suggestion: suggestShortForm(text) })
  }
  const spec: LimitSpec = { algorithm: DEFAULT_ALGORITHM, max: Number(shape?.[1]), windowMs }
  const problem = findLimitProblem(spec)
  if (problem === undefined) return spec
  return reportAt(located, problem.code, { found: problem.found, accepted: problem.accepted })
}

function readLongForm(located: Located): LimitSpec | undefined {
  const map = readMap(located, LIMIT_KEYS)
  if (map === undefined) return undefined
  const algorithm = readOptional(map, 'algorithm', (field) => readChoice(field, ALGORITHM_NAMES))
  const max = readRequired(map, 'max', { accepted: ACCEPTED_NUMBER, read: readUnits })
  const window = readWindow(map, algorithm)
  const zone = readOptional(map, 'zone', readZone)
  const spec = {
    algorithm: algorithm ?? DEFAULT_ALGORITHM,
    max: max ?? 0,
    windowMs: window?.windowMs ?? 0,
    window: window?.window,
    zone,
    leaseMs: readOptional(map, 'lease', readDuration),
    name: readOptional(map, 'name', readLimitName),
    start: readOptional(map, 'start', (field) => readChoice(field, STARTS)),
    burst: readOptional(map, 'burst', readUnits),
    queue: readOptional(map, 'queue', readUnits),
    maxWaitMs: readOptional(map, 'maxWait', readDuration),
    waitMs: readOptional(map, 'wait', readDuration),
    onRefusal: readOptional(map, 'onRefusal', (field) => readChoice(field, ON_REFUSAL)),
    debt: readOptional(map, 'debt', readUnits),
    block: readOptional(map, 'block', readBlock),
  }
  const isReadIfGiven = (key: 'algorithm' | 'zone', read: unknown) =>
    read !== undefined || !map.node.entries.has(key)
  const isRead =
    max !== undefined &&
    window !== undefined &&
    isReadIfGiven('algorithm', algorithm) &&
    isReadIfGiven('zone', zone)
  // An invalid number cannot be checked against the others.
  return isRead && isComputable(map, spec) ? withoutAbsent(spec) : undefined
}

type Window = Pick<LimitSpec, 'windowMs' | 'window'>

/** Reads the window, which places do not have; 0 if there is none. */
function readWindow(
  map: Located<MapNode>,
  algorithm: AlgorithmName | undefined,
): Window | undefined {
  const { entries } = map.node
  // Whether an unknown algorithm needs a window is not known either.
  const isUnknown = algorithm === undefined && entries.has('algorithm')
  const isPlaces = algorithm !== undefined && algorithms[algorithm].family === 'places'
  if ((isUnknown || isPlaces) && !entries.has('window')) return { windowMs: 0 }
  return readRequired(map, 'window', { accepted: ACCEPTED_WINDOW, read: readWindowLength })
}

function isComputable(map: Located<MapNode>, spec: LimitSpec): boolean {
  const problem = findLimitProblem(spec)
  if (problem === undefined) return true
  const { code, found, accepted } = problem
  // The problem may be in a default, and then the source has no such field.
  const place = fieldOf(map, problem.field) ?? map
  reportAt(place, code, { field: fieldName(map, problem.field), found, accepted })
  return false
}

/** Removes absent fields, so that equal limits are equal in any form. */
function withoutAbsent(spec: LimitSpec): LimitSpec {
  const { window, zone, leaseMs, name, start, burst, queue, maxWaitMs, waitMs } = spec
  const { onRefusal, debt, block } = spec
  return {
    algorithm: spec.algorithm,
    max: spec.max,
    windowMs: spec.windowMs,
    ...(window === undefined ? {} : { window }),
    ...(zone === undefined ? {} : { zone }),
    ...(leaseMs === undefined ? {} : { leaseMs }),
    ...(name === undefined ? {} : { name }),
    ...(start === undefined ? {} : { start }),
    ...(burst === undefined ? {} : { burst }),
    ...(queue === undefined ? {} : { queue }),
    ...(maxWaitMs === undefined ? {} : { maxWaitMs }),
    ...(waitMs === undefined ? {} : { waitMs }),
    ...(onRefusal === undefined ? {} : { onRefusal }),
    ...(debt === undefined ? {} : { debt }),
    ...(block === undefined ? {} : { block }),
  }
}

const ACCEPTED_BLOCK = 'a duration such as 15m, or a map with first, factor, max and forget'
const BLOCK_KEYS: readonly string[] = ['first', 'factor', 'max', 'forget']
const BLOCK_FACTOR = 2
const BLOCK_FACTOR_MAX = 100
const DAY_MS = 86_400_000

/** Reads a block: one length for all, or lengths that grow with each block in a row. */
function readBlock(located: Located): BlockSpec | undefined {
  const { node } = located
  if (node.kind === 'scalar') {
    const ms = readBlockMs(located, WINDOW_MS_MIN)
    return ms === undefined ? undefined : { firstMs: ms, factor: 1, maxMs: ms, forgetMs: DAY_MS }
  }
  if (node.kind !== 'map') return reportAt(located, 'wrong-type', { accepted: ACCEPTED_BLOCK })
  const map = readMap(located, BLOCK_KEYS)
  if (map === undefined) return undefined
  const firstMs = readRequired(map, 'first', {
    accepted: ACCEPTED_DURATION,
    read: (field) => readBlockMs(field, WINDOW_MS_MIN),
  })
  if (firstMs === undefined) return undefined
  const factor = readOptional(map, 'factor', readBlockFactor) ?? BLOCK_FACTOR
  const maxMs = readOptional(map, 'max', (field) => readBlockMs(field, firstMs))
  const forgetMs = readOptional(map, 'forget', (field) => readBlockMs(field, WINDOW_MS_MIN))
  return {
    firstMs,
    factor,
    maxMs: maxMs ?? Math.max(firstMs, DAY_MS),
    forgetMs: forgetMs ?? DAY_MS,
  }
}

function readBlockMs(located: Located, leastMs: number): number | undefined {
  const ms = readDuration(located)
  if (ms === undefined || (ms >= leastMs && ms <= WINDOW_MS_MAX)) return ms
  const accepted = `a duration from ${formatDuration(leastMs)} to ${formatDuration(WINDOW_MS_MAX)}`
  return reportAt(located, 'bad-duration', { accepted })
}

function readBlockFactor(located: Located): number | undefined {
  const accepted = `a whole number from 1 to ${BLOCK_FACTOR_MAX}`
  const factor = readNumber(located, accepted)
  if (factor === undefined) return undefined
  const isAccepted = Number.isInteger(factor) && factor >= 1 && factor <= BLOCK_FACTOR_MAX
  return isAccepted ? factor : reportAt(located, 'bad-number', { accepted })
}

function readUnits(located: Located): number | undefined {
  return readNumber(located, ACCEPTED_NUMBER)
}

/** Reads the length of a window, or the name of a calendar window. */
function readWindowLength(located: Located): Window | undefined {
  const { node } = located
  const text = node.kind === 'scalar' ? node.value : undefined
  const window = CALENDAR_UNITS.find((unit) => unit === text)
  if (window !== undefined) return { windowMs: CALENDAR_MS[window], window }
  const windowMs = readDuration(located, { accepted: ACCEPTED_WINDOW, words: CALENDAR_UNITS })
  return windowMs === undefined ? undefined : { windowMs }
}

function readZone(located: Located): string | undefined {
  const zone = readText(located, { accepted: ACCEPTED_ZONE, most: Number.POSITIVE_INFINITY })
  if (zone === undefined || isTimeZone(zone)) return zone
  const near = {
    word: zone,
    // Read only for a problem that is listed, because the runtime makes the list anew.
    get words() {
      return timeZoneNames()
    },
  }
  return reportAt(located, 'bad-zone', { accepted: ACCEPTED_ZONE, near })
}

/** What else than a duration a field accepts. */
interface DurationOptions {
  readonly accepted?: string
  readonly words?: readonly string[]
}

export function readDuration(
  located: Located,
  { accepted = ACCEPTED_DURATION, words = [] }: DurationOptions = {},
): number | undefined {
  const { node } = located
  if (node.kind === 'scalar' && typeof node.value === 'number') {
    const number = describe(node)
    const units = ['ms', 's', 'm', 'h', 'd'].map((unit) => number + unit).join(', ')
    return reportAt(located, 'bad-duration', { accepted: `a number with its unit: ${units}` })
  }
  const text = readText(located, { accepted, most: Number.POSITIVE_INFINITY })
  if (text === undefined) return undefined
  const ms = parseDuration(text)
  if (ms !== undefined) return ms
  const suggestion = suggestDuration(text) ?? nearest(text, words)
  return reportAt(located, 'bad-duration', { accepted, suggestion })
}

function readLimitName(located: Located): string | undefined {
  const name = readText(located, { accepted: ACCEPTED_NAME, most: Number.POSITIVE_INFINITY })
  if (name === undefined || NAME.test(name)) return name
  return reportAt(located, 'bad-limit-name', { accepted: ACCEPTED_NAME, suggestion: slug(name) })
}

/** `10 / sec`, `10 per second` and `10/s` are all `10/second`. */
function suggestShortForm(text: string): string | undefined {
  const shape = /^\s*(\d{1,15})\s*(?:\/|per)\s*(?:1\s*)?([a-z]{1,12})\s*$/i.exec(text)
  if (shape === null) return undefined
  const [, max = '', unit = ''] = shape
  const word = expandUnit(unit)
  return word === undefined ? undefined : `${Number(max)}/${word}`
}

/** What a limit of a month or a week, which have no short form, is in the long form. */
function calendarForm(text: string): string | undefined {
  const [, max, unit] = /^(\d{1,15})\/(month|week)s?$/.exec(text) ?? []
  if (max === undefined) return undefined
  const days = unit === 'week' ? 7 : 30
  return `{ algorithm: fixed-window, max: ${max}, window: ${unit} }, or the token bucket ${max}/${days}d`
}

/** `1 hour` and `1 hours` are `1h`. */
function suggestDuration(text: string): string | undefined {
  const shape = /^\s*(\d{1,15})\s*([a-z]{1,12})\s*$/i.exec(text)
  if (shape === null) return undefined
  const word = expandUnit(shape[2] ?? '')
  return word === undefined ? undefined : `${Number(shape[1])}${word.slice(0, 1)}`
}

function expandUnit(unit: string): string | undefined {
  const words = [...UNITS.keys()]
  const singular = unit.toLowerCase().replace(/(..)s$/, '$1')
  if (singular.length > 1) return nearest(singular, words)
  return words.find((word) => word.startsWith(singular))
}
