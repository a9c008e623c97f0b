/** What one algorithm made of the calls: its totals, its picture, and what to see in it. */
import type { TrialView } from '@sluice/client'
import { count } from '../../format.js'
import { spanText, waitText } from '../rules/rule-text.js'
import type { Algorithm, MadeCall, Span, TriedLimit } from './calls.js'
import { columnSeconds } from './calls.js'

type Outcome = TrialView['trials'][number]['outcomes'][number]

interface LaneColumn {
  /** Admitted at once, admitted later, refused: of the calls that came in this column. */
  readonly admitted: number
  readonly delayed: number
  readonly refused: number
}

export interface Lane {
  readonly algorithm: Algorithm
  readonly columns: readonly LaneColumn[]
  readonly admitted: number
  readonly delayed: number
  readonly refused: number
  /** The most that went through within any span as long as the window. */
  readonly most: number
  readonly longestDelayMs: number
  readonly said: string
}

export const NAMES: Readonly<Record<Algorithm, string>> = {
  'token-bucket': 'Token bucket',
  gcra: 'GCRA',
  'leaky-bucket': 'Leaky bucket',
  'fixed-window': 'Fixed window',
  'sliding-window-counter': 'Sliding window counter',
  'sliding-window-log': 'Sliding window log',
}

export function laneOf(
  algorithm: Algorithm,
  calls: readonly MadeCall[],
  outcomes: readonly Outcome[],
  { span, limit }: { readonly span: Span; readonly limit: TriedLimit },
): Lane {
  const columns = Array.from({ length: span.columns }, () => ({
    admitted: 0,
    delayed: 0,
    refused: 0,
  }))
  const width = columnSeconds(span) * 1000
  const passed: number[] = []
  let longestDelayMs = 0
  for (const [index, { atMs }] of calls.entries()) {
    const outcome = outcomes[index]
    const column = columns[Math.min(span.columns - 1, Math.floor(atMs / width))]
    if (outcome === undefined || column === undefined) continue
    if (!outcome.allowed) column.refused++
    else if (outcome.delayMs > 0) column.delayed++
    else column.admitted++
    if (outcome.allowed) passed.push(atMs + outcome.delayMs)
    longestDelayMs = Math.max(longestDelayMs, outcome.allowed ? outcome.delayMs : 0)
  }
  const total = (field: keyof LaneColumn) => columns.reduce((all, each) => all + each[field], 0)
  const sums = { admitted: total('admitted'), delayed: total('delayed'), refused: total('refused') }
  const most = mostWithin(passed, limit.windowSeconds * 1000)
  const seen = { ...sums, most, longestDelayMs }
  return { algorithm, columns, ...seen, said: saidOf(algorithm, seen, limit) }
}

/** The most times within any half-open span of that length. */
export function mostWithin(times: readonly number[], spanMs: number): number {
  const sorted = times.toSorted((a, b) => a - b)
  let most = 0
  let first = 0
  for (const [index, time] of sorted.entries()) {
    while (time - (sorted[first] ?? 0) >= spanMs) first++
    most = Math.max(most, index - first + 1)
  }
  return most
}

type Seen = Pick<Lane, 'admitted' | 'delayed' | 'refused' | 'most' | 'longestDelayMs'>

/** How it works in half a sentence, then what it did here. */
function saidOf(algorithm: Algorithm, seen: Seen, limit: TriedLimit): string {
  if (seen.admitted + seen.delayed + seen.refused === 0) return 'Nobody called.'
  return `${WORKS[algorithm](limit)} ${didOf(algorithm, seen, limit)}`
}

const per = ({ max, windowSeconds }: TriedLimit): string =>
  `${count(max)} in ${spanText(windowSeconds * 1000)}`

const WORKS: Readonly<Record<Algorithm, (limit: TriedLimit) => string>> = {
  'token-bucket': ({ burst }) => `A bucket of ${count(burst)} that refills all the time.`,
  gcra: (limit) =>
    `Keeps calls ${waitText((limit.windowSeconds * 1000) / limit.max)} apart, and lets ${count(limit.burst)} come early.`,
  'leaky-bucket': ({ burst }) =>
    `Lets calls out at an even pace; up to ${count(burst)} wait in a queue.`,
  'fixed-window': (limit) => `Counts ${per(limit)} and starts again at each edge.`,
  'sliding-window-counter': () =>
    'Counts this window, and the share of the last one still in view.',
  'sliding-window-log': () => 'Remembers the time of every call it let through.',
}

function didOf(algorithm: Algorithm, seen: Seen, { max, windowSeconds }: TriedLimit): string {
  const { refused, delayed, most, longestDelayMs } = seen
  const window = spanText(windowSeconds * 1000)
  if (most > max && algorithm === 'fixed-window') {
    return `Here ${count(most)} got through within ${window}, over an edge: the limit is ${count(max)}.`
  }
  if (most > max) {
    const why =
      algorithm === 'sliding-window-counter'
        ? 'it takes the last window for even, and it was not'
        : 'the burst comes on top of what refills'
    return `Here ${count(most)} got through within ${window}: ${why}.`
  }
  if (delayed > 0) {
    const rest = refused === 0 ? 'nobody was refused' : `${count(refused)} found the queue full`
    return `Here ${count(delayed)} waited, up to ${waitText(longestDelayMs)}; ${rest}.`
  }
  if (refused === 0) return 'Here everybody got through.'
  return `Here never more than ${count(most)} got through within ${window}.`
}
