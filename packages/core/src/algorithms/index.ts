/**
 * The registry of algorithms. A new one is added to `algorithms`, at the end; a variant that a
 * limit field chooses, and that counts in another way, to `modules`.
 */
import type { CalendarUnit } from '../calendar.js'
import type { Limit, LimitSpec } from '../limit.js'
import type { Coordination } from '../rules/rule.js'
import type { Algorithm, StateLayout } from './algorithm.js'
import { blockAlgorithm } from './block.js'
import { calendarWindow } from './calendar-window.js'
import { callerWindow } from './caller-window.js'
import { concurrency } from './concurrency.js'
import { fixedWindow } from './fixed-window.js'
import { leakyBucket } from './leaky-bucket.js'
import { slidingWindowCounter } from './sliding-window-counter.js'
import { slidingWindowLog } from './sliding-window-log.js'
import { gcra, tokenBucket } from './token-bucket.js'

export const algorithms = {
  'token-bucket': tokenBucket,
  gcra,
  'leaky-bucket': leakyBucket,
  'fixed-window': fixedWindow,
  'sliding-window-counter': slidingWindowCounter,
  'sliding-window-log': slidingWindowLog,
  concurrency,
} as const

export type AlgorithmName = keyof typeof algorithms

export const ALGORITHM_NAMES = Object.keys(algorithms) as readonly AlgorithmName[]

/** Every module, by the folder of its Lua. */
export const modules = {
  ...algorithms,
  'caller-window': callerWindow,
  'calendar-window': calendarWindow,
} as const

export type ModuleName = keyof typeof modules

export const MODULE_NAMES = Object.keys(modules) as readonly ModuleName[]

/** The modules that count units in time; concurrency counts calls in flight. */
export type RateModuleName = Exclude<ModuleName, 'concurrency'>

export const RATE_MODULE_NAMES: readonly RateModuleName[] = MODULE_NAMES.filter(
  (name): name is RateModuleName => name !== 'concurrency',
)

/** The fields of a limit that choose its module. */
export type ModuleChoice = Pick<LimitSpec, 'algorithm' | 'start' | 'window'>

/** The choices of the modules that no algorithm name leads to. */
const VARIANTS = {
  'caller-window': { algorithm: 'fixed-window', start: 'call' },
  'calendar-window': { algorithm: 'fixed-window', window: 'day' },
} as const

/** The choice that leads to each module, as it is written in a rule. */
export const MODULE_CHOICES = {
  ...Object.fromEntries(ALGORITHM_NAMES.map((name) => [name, { algorithm: name }])),
  ...VARIANTS,
} as Readonly<Record<ModuleName, Omit<ShownChoice, 'zone'>>>

/** Returns the module of a limit as written. */
export function moduleOf({ algorithm, start, window }: ModuleChoice): Algorithm<unknown> {
  if (algorithm !== 'fixed-window') return algorithms[algorithm]
  if (start === 'call') return callerWindow
  return window === undefined ? fixedWindow : calendarWindow
}

/** Everything that a store counts by: the modules, and blocks, which no limit names. */
export const STORED_ALGORITHMS: readonly Algorithm<unknown>[] = [
  ...MODULE_NAMES.map((name) => modules[name] as Algorithm<unknown>),
  blockAlgorithm,
]

/** Modules by format number. An array, because stores look them up several times per call. */
const BY_FORMAT: (Algorithm<unknown> | undefined)[] = []
const LAYOUT_BY_FORMAT: (StateLayout<unknown> | undefined)[] = []
for (const algorithm of STORED_ALGORITHMS) {
  BY_FORMAT[algorithm.format] = algorithm
  LAYOUT_BY_FORMAT[algorithm.format] = algorithm.layout
}

/** Returns the algorithm of a limit. Its states are opaque, here and in stores. */
export function algorithmOf(limit: Limit): Algorithm<unknown> {
  return BY_FORMAT[limit.format] ?? unknownFormat(limit)
}

/** The choice of a module as decisions show it. */
export interface ShownChoice {
  readonly algorithm: AlgorithmName
  /** `call` for a fixed window that begins with the caller's first call; else absent. */
  readonly start?: LimitSpec['start']
  /** Only for a calendar window, whose `windowMs` is its usual length. */
  readonly window?: CalendarUnit
  /** The time zone of a calendar window. */
  readonly zone?: string
}

/** Returns the choice that leads to the module of a prepared limit. */
export function moduleChoiceOf({ algorithm, format, calendar }: Limit): ShownChoice {
  if (algorithm === 'block') throw new RangeError('No limit field chooses a block')
  if (calendar !== undefined) return { algorithm, window: calendar.unit, zone: calendar.zone }
  return MODULE_CHOICES[format === callerWindow.format ? 'caller-window' : algorithm]
}

/** How the states of a limit are stored; undefined if as lists of numbers. */
export function layoutOf(limit: Limit): StateLayout<unknown> | undefined {
  return LAYOUT_BY_FORMAT[limit.format]
}

/** Whether an algorithm supports a coordination mode; all of them support `exact` and `node`. */
export function canCoordinate(
  { leasable, mergeable, splittable }: Algorithm<unknown>,
  coordination: Coordination,
): boolean {
  const supported = {
    exact: true,
    leased: leasable,
    local: mergeable,
    split: splittable,
    node: true,
  }
  return supported[coordination]
}

function unknownFormat(limit: Limit): never {
  throw new RangeError(`No algorithm has the number ${limit.format}`)
}
