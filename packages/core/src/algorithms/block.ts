/**
 * Block: refuses a caller for some time after it went over a limit, longer each time it does so
 * again. It is the counter beside a limit with `block`: its take follows that limit's in the group,
 * takes no units, and is charged by the store when that limit refuses and the block does not. A
 * state is the end of the last block and how many there were in a row.
 */
import type { Limit } from '../limit.js'
import { usToMsUp } from '../numbers.js'
import {
  type Algorithm,
  isFromAnotherClock,
  type Outcome,
  type StateLayout,
  type Step,
} from './algorithm.js'

export interface Block {
  readonly until: number
  readonly times: number
}

/** How long a caller is blocked, in milliseconds. */
export interface BlockSpec {
  /** The length of the first block. */
  readonly firstMs: number
  /** By how much each further block is longer. */
  readonly factor: number
  /** The longest block. */
  readonly maxMs: number
  /** How long after the end of a block without another one the next is a first one again. */
  readonly forgetMs: number
}

/** The fields of a prepared limit that a block computes with. */
type BlockLimit = Pick<Limit, 'p' | 'q' | 'windowUs' | 'scaledWindow'>

/** Returns the length of the nth block in a row, in microseconds. */
function lengthUs(times: number, { p: first, q: factor, windowUs: longest }: BlockLimit): number {
  let length = first
  if (factor > 1) for (let n = 1; n < times && length < longest; n++) length *= factor
  return Math.min(length, longest)
}

interface View extends Block {
  readonly isBlocked: boolean
  readonly rebased: boolean
}

function view(block: Block | undefined, limit: Limit, now: number): View {
  if (block === undefined) return { until: now, times: 0, isBlocked: false, rebased: false }
  const { until, times } = block
  if (isFromAnotherClock(until, limit, now)) {
    return { until: now + lengthUs(times, limit), times, isBlocked: true, rebased: true }
  }
  if (now < until) return { until, times, isBlocked: true, rebased: false }
  const isForgotten = now >= until + limit.scaledWindow
  return { until, times: isForgotten ? 0 : times, isBlocked: false, rebased: false }
}

function take(block: Block | undefined, limit: Limit, amount: number, now: number): Step<Block> {
  const { until, times, isBlocked, rebased } = view(block, limit, now)
  const leftMs = isBlocked ? usToMsUp(until - now) : 0
  const moved = rebased && amount > 0 ? { until, times } : undefined
  return {
    granted: 0,
    remaining: isBlocked ? 0 : limit.capacity,
    resetAfterMs: leftMs,
    retryAfterMs: amount === 0 ? 0 : leftMs,
    delayMs: 0,
    at: now,
    state: moved,
    rebased: moved,
  }
}

function peek(block: Block | undefined, limit: Limit, amount: number, now: number): Outcome {
  return take(block, limit, amount, now)
}

/** Begins the next block, unless one lasts. */
function charge(
  block: Block | undefined,
  limit: Limit,
  _amount: number,
  now: number,
): Block | undefined {
  const current = view(block, limit, now)
  if (current.isBlocked) return undefined
  const times = current.times + 1
  return { until: now + lengthUs(times, limit), times }
}

function expiresAt({ until }: Block, limit: Limit): number {
  return until + limit.scaledWindow
}

const layout: StateLayout<Block> = {
  fields: [
    { name: 'until', bytes: 7, wideBytes: 7 },
    { name: 'times', bytes: 4, wideBytes: 7 },
  ],
  decode: (numbers) => ({ until: numbers.readCount(), times: numbers.readCount() }),
  read: (doubles, at) => ({ until: doubles[at] ?? 0, times: doubles[at + 1] ?? 0 }),
  write: (state, doubles, at) => {
    doubles[at] = state.until
    doubles[at + 1] = state.times
  },
}

export const blockAlgorithm: Algorithm<Block> = {
  name: 'block',
  format: 8,
  lua: 'block',
  family: 'block',
  leasable: false,
  mergeable: false,
  splittable: false,
  alignedToClock: false,
  resetsAtOnce: false,
  windowsCounted: 0,
  unitsBeyondCapacity: 0,
  holdsMax: true,
  fields: [],
  largestMax: 1,
  largestCapacity: 1,
  capacityOf: () => 1,
  prepare: () => ({ capacity: 1, maxWaitUs: 0, borrowable: 0 }),
  findPrecisionProblem: () => undefined,
  resize: () => {
    throw new RangeError('A block has no share')
  },
  layout,
  take,
  peek,
  give: () => undefined,
  charge,
  expiresAt,
}

/** Prepares the limit of a block beside a limit of this name. */
export function defineBlock(name: string, spec: BlockSpec): Limit {
  const { firstMs, factor, maxMs, forgetMs } = spec
  return {
    algorithm: 'block',
    format: blockAlgorithm.format,
    name,
    max: 1,
    windowMs: maxMs,
    windowUs: maxMs * 1000,
    capacity: 1,
    p: firstMs * 1000,
    q: factor,
    tickUs: 1,
    maxWaitUs: 0,
    borrowable: 0,
    scale: 1,
    scaledWindow: forgetMs * 1000,
    onRefusal: 'none',
    debt: 0,
    calendar: undefined,
  }
}

/** Returns when the last block began, in microseconds. */
export function blockStart({ until, times }: Block, limit: Limit): number {
  return until - lengthUs(times, limit)
}

export function isBlock({ format }: Limit): boolean {
  return format === blockAlgorithm.format
}
