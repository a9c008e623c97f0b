/** Formats a limit for display: in the short form if that is complete, else with its fields. */
import { formatDuration } from './duration.js'
import type { BlockSpec } from '../algorithms/block.js'
import { DEFAULT_ZONE } from '../calendar.js'
import { DEFAULT_ALGORITHM, type LimitSpec } from '../limit.js'

const UNITS: ReadonlyMap<number, string> = new Map([
  [1000, 'second'],
  [60_000, 'minute'],
  [3_600_000, 'hour'],
  [86_400_000, 'day'],
])

/** The `forget` of a block that is written as one duration. */
const FORGET_MS = 86_400_000

/** A field of a limit: its name in a rules file, and the text shown if it is absent. */
interface LimitField {
  readonly name: string
  readonly absent: string
  readonly read: (limit: LimitSpec) => string | undefined
}

const whole = (value: number | undefined) => (value === undefined ? undefined : String(value))
const duration = (ms: number | undefined) => (ms === undefined ? undefined : formatDuration(ms))

/** The fields except algorithm and name, which identify the counter and not its size. */
const AMOUNT_FIELDS: readonly LimitField[] = [
  { name: 'max', absent: '', read: ({ max }) => whole(max) },
  {
    name: 'window',
    absent: 'none',
    read: ({ windowMs, window }) => window ?? duration(windowMs || undefined),
  },
  { name: 'zone', absent: DEFAULT_ZONE, read: ({ zone }) => zone },
  { name: 'lease', absent: 'default', read: ({ leaseMs }) => duration(leaseMs) },
  { name: 'start', absent: 'clock', read: ({ start }) => start },
  { name: 'burst', absent: 'default', read: ({ burst }) => whole(burst) },
  { name: 'queue', absent: 'default', read: ({ queue }) => whole(queue) },
  { name: 'maxWait', absent: 'default', read: ({ maxWaitMs }) => duration(maxWaitMs) },
  { name: 'wait', absent: 'none', read: ({ waitMs }) => duration(waitMs) },
  { name: 'onRefusal', absent: 'none', read: ({ onRefusal }) => onRefusal },
  { name: 'debt', absent: 'default', read: ({ debt }) => whole(debt) },
  { name: 'block', absent: 'none', read: ({ block }) => block && blockText(block) },
]

/** `15m`, or `{ first: 1m, factor: 2, max: 1h, forget: 1d }`. */
function blockText({ firstMs, factor, maxMs, forgetMs }: BlockSpec): string {
  const first = formatDuration(firstMs)
  if (factor === 1 && maxMs === firstMs && forgetMs === FORGET_MS) return first
  const [max, forget] = [formatDuration(maxMs), formatDuration(forgetMs)]
  return `{ first: ${first}, factor: ${factor}, max: ${max}, forget: ${forget} }`
}

/** `10/second`, `10/30s`, `{ algorithm: gcra, max: 10, window: 1s }`. */
export function limitSpecText(limit: LimitSpec): string {
  const fields = [
    ...(limit.algorithm === DEFAULT_ALGORITHM ? [] : [`algorithm: ${limit.algorithm}`]),
    ...AMOUNT_FIELDS.flatMap(({ name, read }) => {
      const value = read(limit)
      return value === undefined ? [] : [`${name}: ${value}`]
    }),
    ...(limit.name === undefined ? [] : [`name: ${limit.name}`]),
  ]
  const isShort = limit.algorithm === DEFAULT_ALGORITHM && fields.length === 2
  if (!isShort) return `{ ${fields.join(', ')} }`
  return `${limit.max}/${UNITS.get(limit.windowMs) ?? formatDuration(limit.windowMs)}`
}

/** Lists the differences of two limits of one name: `max 100 to 50, burst default to 80`. */
export function limitChanges(before: LimitSpec, after: LimitSpec): string {
  const algorithms =
    before.algorithm === after.algorithm
      ? []
      : [`algorithm ${before.algorithm} to ${after.algorithm}`]
  const amounts = AMOUNT_FIELDS.flatMap(({ name, absent, read }) => {
    const [was, is] = [read(before) ?? absent, read(after) ?? absent]
    return was === is ? [] : [`${name} ${was} to ${is}`]
  })
  return [...algorithms, ...amounts].join(', ')
}
