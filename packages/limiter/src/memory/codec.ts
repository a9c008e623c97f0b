/** How the states of the algorithms lie in three doubles. A log does not fit and is kept beside. */
import {
  ALGORITHM_NAMES,
  type AlgorithmName,
  type Bucket,
  type FixedWindow,
  type LeakyBucket,
  type Limit,
  type SlidingCounter,
} from '@sluice/core'

interface Codec<State> {
  read(doubles: Float64Array, at: number): State
  write(state: State, doubles: Float64Array, at: number): void
}

const bucket: Codec<Bucket> = {
  read: (doubles, at) => ({
    at: doubles[at] ?? 0,
    used: doubles[at + 1] ?? 0,
    part: doubles[at + 2] ?? 0,
  }),
  write: (state, doubles, at) => {
    doubles[at] = state.at
    doubles[at + 1] = state.used
    doubles[at + 2] = state.part
  },
}

const fixedWindow: Codec<FixedWindow> = {
  read: (doubles, at) => ({ start: doubles[at] ?? 0, count: doubles[at + 1] ?? 0 }),
  write: (state, doubles, at) => {
    doubles[at] = state.start
    doubles[at + 1] = state.count
  },
}

const slidingCounter: Codec<SlidingCounter> = {
  read: (doubles, at) => ({
    start: doubles[at] ?? 0,
    curr: doubles[at + 1] ?? 0,
    prev: doubles[at + 2] ?? 0,
  }),
  write: (state, doubles, at) => {
    doubles[at] = state.start
    doubles[at + 1] = state.curr
    doubles[at + 2] = state.prev
  },
}

/** Both counts of a leaky bucket stay below 2^26: its queue has at most 2^24 places. */
const COUNT_SPAN = 2 ** 26

const leakyBucket: Codec<LeakyBucket> = {
  read: (doubles, at) => {
    const counts = doubles[at + 2] ?? 0
    const vacated = Math.floor(counts / COUNT_SPAN)
    return {
      next: doubles[at] ?? 0,
      part: doubles[at + 1] ?? 0,
      vacated,
      oldest: counts - vacated * COUNT_SPAN,
    }
  },
  write: (state, doubles, at) => {
    doubles[at] = state.next
    doubles[at + 1] = state.part
    doubles[at + 2] = state.vacated * COUNT_SPAN + state.oldest
  },
}

const CODECS: Readonly<Record<AlgorithmName, Codec<unknown> | undefined>> = {
  'token-bucket': bucket,
  gcra: bucket,
  'leaky-bucket': leakyBucket,
  'fixed-window': fixedWindow,
  'sliding-window-counter': slidingCounter,
  'sliding-window-log': undefined,
}

const BY_FORMAT = [undefined, ...ALGORITHM_NAMES.map((name) => CODECS[name])]

/** Undefined for the log, whose state has no fixed size. */
export function codecOf(limit: Limit): Codec<unknown> | undefined {
  return BY_FORMAT[limit.format]
}
