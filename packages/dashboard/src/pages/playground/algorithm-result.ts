/** The result of one algorithm: its totals, its columns and a summary. */
import type { SimulationView } from '@sluice/client'
import { count } from '../../format.js'
import { spanText, waitText } from '../rules/rule-text.js'
import type { Algorithm, SimulatedCall, Span, SimulatedLimit } from './calls.js'
import { columnSeconds } from './calls.js'

type Outcome = SimulationView['trials'][number]['outcomes'][number]

interface ResultColumn {
  /** Calls that arrived in this column: admitted at once, admitted later, refused. */
  readonly admitted: number
  readonly delayed: number
  readonly refused: number
}

export interface AlgorithmResult {
  readonly algorithm: Algorithm
  readonly columns: readonly ResultColumn[]
  readonly admitted: number
  readonly delayed: number
  readonly refused: number
  /** Most calls admitted within any span of the length of the window. */
  readonly peakInWindow: number
  readonly longestDelayMs: number
  readonly summary: string
}

export const NAMES: Readonly<Record<Algorithm, string>> = {
  'token-bucket': 'Token bucket',
  gcra: 'GCRA',
  'leaky-bucket': 'Leaky bucket',
  'fixed-window': 'Fixed window',
  'sliding-window-counter': 'Sliding window counter',
  'sliding-window-log': 'Sliding window log',
}

export function algorithmResult(
  algorithm: Algorithm,
  calls: readonly SimulatedCall[],
  outcomes: readonly Outcome[],
  { span, limit }: { readonly span: Span; readonly limit: SimulatedLimit },
): AlgorithmResult {
  const columns = Array.from({ length: span.columns }, () => ({
    admitted: 0,
    delayed: 0,
    refused: 0,
  }))
  const width = columnSeconds(span) * 1000
  const admittedMs: number[] = []
  let longestDelayMs = 0
  for (const [index, { atMs }] of calls.entries()) {
    const outcome = outcomes[index]
    const column = columns[Math.min(span.columns - 1, Math.floor(atMs / width))]
    if (outcome === undefined || column === undefined) continue
    if (!outcome.allowed) column.refused++
    else if (outcome.delayMs > 0) column.delayed++
    else column.admitted++
    if (outcome.allowed) admittedMs.push(atMs + outcome.delayMs)
    longestDelayMs = Math.max(longestDelayMs, outcome.allowed ? outcome.delayMs : 0)
  }
  const total = (field: keyof ResultColumn) => columns.reduce((all, each) => all + each[field], 0)
  const sums = { admitted: total('admitted'), delayed: total('delayed'), refused: total('refused') }
  const peakInWindow = peakWithin(admittedMs, limit.windowSeconds * 1000)
  const totals = { ...sums, peakInWindow, longestDelayMs }
  return { algorithm, columns, ...totals, summary: resultSummary(algorithm, totals, limit) }
}

/** The largest number of times within any half-open span of this length. */
export function peakWithin(times: readonly number[], spanMs: number): number {
  const sorted = times.toSorted((a, b) => a - b)
  let peakInWindow = 0
  let first = 0
  for (const [index, time] of sorted.entries()) {
    while (time - (sorted[first] ?? 0) >= spanMs) first++
    peakInWindow = Math.max(peakInWindow, index - first + 1)
  }
  return peakInWindow
}

type Totals = Pick<
  AlgorithmResult,
  'admitted' | 'delayed' | 'refused' | 'peakInWindow' | 'longestDelayMs'
>

/** How the algorithm works, then what it did with these calls. */
function resultSummary(algorithm: Algorithm, totals: Totals, limit: SimulatedLimit): string {
  if (totals.admitted + totals.delayed + totals.refused === 0) return 'No requests.'
  return `${DESCRIPTIONS[algorithm](limit)} ${outcomeText(algorithm, totals, limit)}`
}

const limitText = ({ max, windowSeconds }: SimulatedLimit): string =>
  `${count(max)} in ${spanText(windowSeconds * 1000)}`

const DESCRIPTIONS: Readonly<Record<Algorithm, (limit: SimulatedLimit) => string>> = {
  'token-bucket': ({ burst }) => `A bucket of ${count(burst)} tokens that refills continuously.`,
  gcra: (limit) =>
    `Spaces requests ${waitText((limit.windowSeconds * 1000) / limit.max)} apart, with a burst of ${count(limit.burst)}.`,
  'leaky-bucket': ({ burst }) =>
    `Releases requests at an even pace; up to ${count(burst)} wait in a queue.`,
  'fixed-window': (limit) => `Counts ${limitText(limit)} and resets at each window edge.`,
  'sliding-window-counter': () =>
    'Counts the current window and a weighted share of the previous one.',
  'sliding-window-log': () => 'Stores the time of every admitted request.',
}

function outcomeText(
  algorithm: Algorithm,
  totals: Totals,
  { max, windowSeconds }: SimulatedLimit,
): string {
  const { refused, delayed, peakInWindow, longestDelayMs } = totals
  const window = spanText(windowSeconds * 1000)
  if (peakInWindow > max && algorithm === 'fixed-window') {
    return `Here ${count(peakInWindow)} were admitted within ${window}, across a window edge: the limit is ${count(max)}.`
  }
  if (peakInWindow > max) {
    const why =
      algorithm === 'sliding-window-counter'
        ? 'it assumes that the previous window was evenly filled'
        : 'the burst comes on top of the refill'
    return `Here ${count(peakInWindow)} were admitted within ${window}: ${why}.`
  }
  if (delayed > 0) {
    const rest = refused === 0 ? 'none were refused' : `${count(refused)} found the queue full`
    return `Here ${count(delayed)} waited, up to ${waitText(longestDelayMs)}; ${rest}.`
  }
  if (refused === 0) return 'Here all requests were admitted.'
  return `Here at most ${count(peakInWindow)} were admitted within ${window}.`
}
