/** The six algorithms by name. */
import { ALGORITHM_NAMES, type AlgorithmName, type Limit } from '../limit.js'
import type { Algorithm } from './algorithm.js'
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
} as const satisfies Record<AlgorithmName, unknown>

const BY_FORMAT = [
  undefined,
  ...ALGORITHM_NAMES.map((name) => algorithms[name] as Algorithm<unknown>),
]

/** The algorithm of a limit, whose states are carried about unseen, as stores do. */
export function algorithmOf(limit: Limit): Algorithm<unknown> {
  return BY_FORMAT[limit.format] ?? unknownFormat(limit)
}

function unknownFormat(limit: Limit): never {
  throw new RangeError(`No algorithm has the number ${limit.format}`)
}
