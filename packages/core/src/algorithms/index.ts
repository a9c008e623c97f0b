/** The registry of algorithms. A new one is added to `algorithms`, at the end. */
import type { Limit } from '../limit.js'
import type { Coordination } from '../rules/rule.js'
import type { Algorithm, StateLayout } from './algorithm.js'
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
} as const

export type AlgorithmName = keyof typeof algorithms

export const ALGORITHM_NAMES = Object.keys(algorithms) as readonly AlgorithmName[]

/** Algorithms by format number. An array, because stores look them up several times per call. */
const BY_FORMAT: (Algorithm<unknown> | undefined)[] = []
const LAYOUT_BY_FORMAT: (StateLayout<unknown> | undefined)[] = []
for (const name of ALGORITHM_NAMES) {
  const algorithm = algorithms[name] as Algorithm<unknown>
  BY_FORMAT[algorithm.format] = algorithm
  LAYOUT_BY_FORMAT[algorithm.format] = algorithm.layout
}

/** Returns the algorithm of a limit. Its states are opaque, here and in stores. */
export function algorithmOf(limit: Limit): Algorithm<unknown> {
  return BY_FORMAT[limit.format] ?? unknownFormat(limit)
}

/** How the states of a limit are stored; undefined if as lists of numbers. */
export function layoutOf(limit: Limit): StateLayout<unknown> | undefined {
  return LAYOUT_BY_FORMAT[limit.format]
}

/** Whether an algorithm supports a coordination mode; `exact` supports all of them. */
export function canCoordinate(name: AlgorithmName, coordination: Coordination): boolean {
  if (coordination === 'leased') return algorithms[name].leasable
  return coordination !== 'local' || algorithms[name].mergeable
}

function unknownFormat(limit: Limit): never {
  throw new RangeError(`No algorithm has the number ${limit.format}`)
}
