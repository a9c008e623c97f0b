/** Simulated traffic: a rate for each column, and the calls that result from it. */

export interface Span {
  readonly seconds: number
  readonly columns: number
}

/** Lengths of the timeline, with the number of columns. */
export const SPANS: readonly Span[] = [
  { seconds: 10, columns: 20 },
  { seconds: 20, columns: 20 },
  { seconds: 30, columns: 30 },
  { seconds: 60, columns: 30 },
]

/** The server simulates no more at once. */
export const CALLS_MAX = 2000
/** Highest rate of a column, in calls per second. */
const RATE_MAX = 40

/** The highest rate of a column that keeps the total below `CALLS_MAX`. */
export function rateMax({ seconds }: Span): number {
  return Math.min(RATE_MAX, Math.floor(CALLS_MAX / seconds))
}

export const columnSeconds = ({ seconds, columns }: Span): number => seconds / columns

export interface SimulatedCall {
  readonly atMs: number
}

/**
 * Spreads the calls of each column evenly. Fractions of a call carry over to the next column, so
 * half a call per second is one call every two seconds.
 */
export function callsOf(rates: readonly number[], span: Span): readonly SimulatedCall[] {
  const width = columnSeconds(span)
  const calls: SimulatedCall[] = []
  let carry = 0
  for (const [index, rate] of rates.entries()) {
    carry += Math.max(0, rate) * width
    const callsInColumn = Math.floor(carry + 1e-9)
    carry -= callsInColumn
    for (let i = 0; i < callsInColumn && calls.length < CALLS_MAX; i++) {
      calls.push({ atMs: Math.round((index + (i + 0.5) / callsInColumn) * width * 1000) })
    }
  }
  return calls
}

/** The limit that every algorithm simulates. */
export interface SimulatedLimit {
  readonly max: number
  readonly windowSeconds: number
  readonly burst: number
}

export const ALGORITHMS = [
  'token-bucket',
  'gcra',
  'leaky-bucket',
  'fixed-window',
  'sliding-window-counter',
  'sliding-window-log',
] as const

export type Algorithm = (typeof ALGORITHMS)[number]

/** The limit in the form of each algorithm. The queue of a leaky bucket takes the burst. */
export function limitsOf({ max, windowSeconds, burst }: SimulatedLimit): readonly object[] {
  const window = `${Math.round(windowSeconds * 1000)}ms`
  const extraFields: Readonly<Partial<Record<Algorithm, object>>> = {
    'token-bucket': { burst },
    gcra: { burst },
    'leaky-bucket': { queue: burst },
  }
  return ALGORITHMS.map((algorithm) => ({ algorithm, max, window, ...extraFields[algorithm] }))
}

export interface Preset {
  readonly id: string
  readonly label: string
  readonly description: string
  readonly rates: (span: Span, limit: SimulatedLimit) => readonly number[]
}

/** The rate of each column, from its start in seconds and its index. */
const ratesOf = (span: Span, rate: (from: number, index: number) => number): readonly number[] => {
  const width = columnSeconds(span)
  const highest = rateMax(span)
  return Array.from({ length: span.columns }, (_, index) => {
    const unbounded = rate(index * width, index)
    return Math.min(highest, Math.max(0, Math.round(unbounded * 10) / 10))
  })
}

const limitRate = ({ max, windowSeconds }: SimulatedLimit): number => max / windowSeconds

export const PRESETS: readonly Preset[] = [
  {
    id: 'steady',
    label: 'Steady',
    description: 'Slightly below the limit, continuously.',
    rates: (span, limit) => ratesOf(span, () => 0.9 * limitRate(limit)),
  },
  {
    id: 'burst',
    label: 'Burst',
    description: 'Low traffic with one burst.',
    rates: (span, limit) => {
      const start = Math.floor(span.columns / 4)
      const burstRate = (1.5 * limit.max) / columnSeconds(span) / 2
      return ratesOf(span, (_, index) =>
        index === start || index === start + 1 ? burstRate : 0.3 * limitRate(limit),
      )
    },
  },
  {
    id: 'edge',
    label: 'Window edge',
    description: 'A full limit just before a window ends, and another just after.',
    rates: (span, limit) => {
      const width = columnSeconds(span)
      const windows = Math.max(1, Math.floor(span.seconds / 2 / limit.windowSeconds))
      const edge = Math.round((windows * limit.windowSeconds) / width)
      return ratesOf(span, (_, index) =>
        index === edge - 1 || index === edge ? limit.max / width : 0,
      )
    },
  },
  {
    id: 'scraper',
    label: 'Scraper',
    description: 'Three times the limit, continuously.',
    rates: (span, limit) => ratesOf(span, () => 3 * limitRate(limit)),
  },
  {
    id: 'storm',
    label: 'Retry storm',
    description: 'Refused clients retry together, more each time.',
    rates: (span, limit) => {
      const every = Math.max(3, Math.round(span.columns / 6))
      return ratesOf(span, (_, index) => {
        const wave = Math.floor(index / every)
        return index % every === 1 ? limitRate(limit) * 1.6 ** (wave + 1) : 0.2 * limitRate(limit)
      })
    },
  },
]
