/**
 * Cases of how a state is stored in Redis: what happens to one counter, then its state and its
 * bytes in each layout. `conformance/formats` keeps the results of each release.
 */
import {
  type BlockSpec,
  type CounterKey,
  defineBlock,
  defineLimit,
  type Limit,
  type LimitSpec,
} from '@sluice/core'
import {
  type BatchRedis,
  fieldOf,
  type Layout,
  outcomesOf,
  peekOf,
  placeOf,
} from './redis.test-helper.js'
import type { StoreOp } from './batch-request.js'

/** One op, or the same op `times` times, `everyUs` apart. */
interface FormatStep {
  /** When, in microseconds since 1970. */
  readonly at: number
  readonly verb: 'take' | 'give' | 'charge'
  readonly amount: number
  readonly times?: number
  readonly everyUs?: number
  /**
   * For a give, when the units were taken; for a charge, when they were spent, `at` if absent. For
   * places, whose they are.
   */
  readonly of?: number
  readonly debt?: number
}

/** A limit, or the block beside one. */
export type FormatLimit = LimitSpec | ({ readonly algorithm: 'block' } & BlockSpec)

export function formatLimit(spec: FormatLimit): Limit {
  return spec.algorithm === 'block' ? defineBlock('block', spec) : defineLimit(spec)
}

interface FormatCase {
  readonly name: string
  readonly limit: FormatLimit
  readonly steps: readonly FormatStep[]
}

export interface FormatResult extends FormatCase {
  /** The key of the value, and in the packed layout its hash and field. */
  readonly key: CounterKey
  /** When the state is read. */
  readonly readAt: number
  readonly state: unknown
  /** The outcome of a peek of 1 at that time. */
  readonly remaining: number
  readonly resetAfterMs: number
  /** The value in each layout, in hex. A log and places are the same in both. */
  readonly plain: string
  readonly packed: string
}

/** 2026-01-01T00:00:00Z. */
const T = 1_767_225_600_000_000
const SECOND = 1_000_000
const MINUTE = 60 * SECOND

const take = (at: number, amount = 1, more: Partial<FormatStep> = {}): FormatStep => ({
  at,
  verb: 'take',
  amount,
  ...more,
})
const give = (at: number, amount: number, of?: number): FormatStep =>
  of === undefined ? { at, verb: 'give', amount } : { at, verb: 'give', amount, of }
const charge = (at: number, amount: number, debt: number): FormatStep => ({
  at,
  verb: 'charge',
  amount,
  debt,
})

const perMinute = { windowMs: 60_000 }
const perDay = { windowMs: 86_400_000 }

function buckets(algorithm: 'token-bucket' | 'gcra'): readonly FormatCase[] {
  const ofMinute: LimitSpec = { algorithm, max: 7, burst: 7, ...perMinute }
  const ofMany: LimitSpec = {
    algorithm,
    max: 1_000_000_000_000,
    burst: 1_000_000_000_000,
    ...perDay,
  }
  const cases: readonly FormatCase[] = [
    { name: 'one unit', limit: ofMinute, steps: [take(T)] },
    { name: 'nothing left', limit: ofMinute, steps: [take(T, 7)] },
    { name: 'a part of a unit', limit: ofMinute, steps: [take(T, 3), take(T + 5_500_001)] },
    { name: 'all given back', limit: ofMinute, steps: [take(T, 2), give(T + 1, 2, T)] },
    {
      name: 'lent to callers that wait',
      limit: { ...ofMinute, waitMs: 30_000 },
      steps: [take(T, 7), take(T), take(T)],
    },
    {
      name: 'in debt after a charge',
      limit: { ...ofMinute, debt: 5 },
      steps: [take(T, 7), charge(T + 1, 3, 5)],
    },
    {
      name: 'charged by a refusal',
      limit: { ...ofMinute, onRefusal: 'charge' },
      steps: [take(T, 5), take(T + 1, 7)],
    },
    { name: 'units of more than 32 bits', limit: ofMany, steps: [take(T, 5_000_000_000)] },
    {
      name: 'a part of more than 32 bits',
      limit: { algorithm, max: 7, burst: 7, ...perDay },
      steps: [take(T, 2), take(T + 7 * SECOND)],
    },
    { name: 'the first microsecond', limit: ofMinute, steps: [take(1)] },
    { name: 'a late time', limit: ofMinute, steps: [take(3_000_000_000_000_000, 2)] },
  ]
  return cases.map((each) => ({ ...each, name: `${algorithm}: ${each.name}` }))
}

const leaky: LimitSpec = { algorithm: 'leaky-bucket', max: 10, queue: 5, ...perMinute }
const leakyMany: LimitSpec = {
  algorithm: 'leaky-bucket',
  max: 1_000_000,
  queue: 1_000_000,
  ...perMinute,
}
const leakyThirds: LimitSpec = { algorithm: 'leaky-bucket', max: 7, queue: 7, windowMs: 86_400_000 }
const LEAKY: readonly FormatCase[] = [
  { name: 'leaky-bucket: one unit', limit: leaky, steps: [take(T)] },
  { name: 'leaky-bucket: a full queue', limit: leaky, steps: [take(T, 6)] },
  {
    name: 'leaky-bucket: callers that left the queue',
    limit: leaky,
    steps: [take(T, 5), give(T + 1, 2, T + 6 * SECOND)],
  },
  {
    name: 'leaky-bucket: a part of a tick',
    limit: leakyThirds,
    steps: [take(T, 3), take(T + SECOND)],
  },
  {
    name: 'leaky-bucket: more than 65,535 callers left',
    limit: leakyMany,
    steps: [take(T, 200_000), give(T + 1, 70_000, T + SECOND)],
  },
  { name: 'leaky-bucket: a late time', limit: leaky, steps: [take(3_000_000_000_000_000, 2)] },
]

const fixed: LimitSpec = { algorithm: 'fixed-window', max: 10, ...perMinute }
const fixedMany: LimitSpec = { algorithm: 'fixed-window', max: 1_000_000_000_000, ...perDay }
const FIXED: readonly FormatCase[] = [
  { name: 'fixed-window: one unit', limit: fixed, steps: [take(T + 1)] },
  { name: 'fixed-window: nothing left', limit: fixed, steps: [take(T + SECOND, 10)] },
  { name: 'fixed-window: all given back', limit: fixed, steps: [take(T, 2), give(T + 1, 2, T)] },
  {
    name: 'fixed-window: charged beyond its max',
    limit: fixed,
    steps: [take(T, 10), charge(T + 1, 4, 4)],
  },
  {
    name: 'fixed-window: the most of 32 bits',
    limit: fixedMany,
    steps: [take(T, 4_294_967_295)],
  },
  {
    name: 'fixed-window: units of more than 32 bits',
    limit: fixedMany,
    steps: [take(T, 4_294_967_296)],
  },
  { name: 'fixed-window: the first window', limit: fixed, steps: [take(1, 3)] },
  { name: 'fixed-window: a late time', limit: fixed, steps: [take(3_000_000_000_000_000, 2)] },
]

const sliding: LimitSpec = { algorithm: 'sliding-window-counter', max: 10, ...perMinute }
const slidingMany: LimitSpec = {
  algorithm: 'sliding-window-counter',
  max: 1_000_000_000,
  ...perMinute,
}
const SLIDING: readonly FormatCase[] = [
  { name: 'sliding-window-counter: one unit', limit: sliding, steps: [take(T + 1)] },
  {
    name: 'sliding-window-counter: two windows',
    limit: sliding,
    steps: [take(T, 7), take(T + MINUTE + 30 * SECOND, 2)],
  },
  {
    name: 'sliding-window-counter: all given back',
    limit: sliding,
    steps: [take(T, 2), give(T + 1, 2, T)],
  },
  {
    name: 'sliding-window-counter: charged beyond its max',
    limit: sliding,
    steps: [take(T, 10), charge(T + 1, 4, 4)],
  },
  {
    name: 'sliding-window-counter: units of more than 32 bits in both windows',
    limit: slidingMany,
    steps: [charge(T, 5_000_000_000, 6_000_000_000), charge(T + MINUTE, 5e9, 6e9)],
  },
  {
    name: 'sliding-window-counter: a late time',
    limit: sliding,
    steps: [take(3_000_000_000_000_000, 2)],
  },
]

const log: LimitSpec = { algorithm: 'sliding-window-log', max: 10, ...perMinute }
const logMany: LimitSpec = { algorithm: 'sliding-window-log', max: 10_000, ...perMinute }
const LOGS: readonly FormatCase[] = [
  { name: 'sliding-window-log: one unit', limit: log, steps: [take(T)] },
  {
    name: 'sliding-window-log: several units at one instant',
    limit: log,
    steps: [take(T, 3), take(T, 2), take(T + 1)],
  },
  {
    name: 'sliding-window-log: a unit given back from the middle',
    limit: log,
    steps: [
      take(T),
      take(T + SECOND, 2),
      take(T + 2 * SECOND),
      give(T + MINUTE / 2, 1, T + SECOND),
    ],
  },
  {
    name: 'sliding-window-log: entries that have left the window',
    limit: log,
    steps: [take(T, 1, { times: 5, everyUs: SECOND }), take(T + MINUTE + 2 * SECOND)],
  },
  {
    name: 'sliding-window-log: the most entries without room to spare',
    limit: logMany,
    steps: [take(T, 1, { times: 256, everyUs: 1000 })],
  },
  {
    name: 'sliding-window-log: entries with room to spare',
    limit: logMany,
    steps: [take(T, 1, { times: 300, everyUs: 1000 })],
  },
  {
    name: 'sliding-window-log: a long log that has moved on',
    limit: logMany,
    steps: [take(T, 1, { times: 300, everyUs: 1000 }), take(T + MINUTE + 20_500)],
  },
  {
    name: 'sliding-window-log: a running total that has wrapped',
    limit: logMany,
    steps: [take(T, 5_000, { times: 16, everyUs: MINUTE / 2 + 1 })],
  },
  {
    name: 'sliding-window-log: a late time',
    limit: log,
    steps: [take(3_000_000_000_000_000, 2)],
  },
]

const called: LimitSpec = { ...fixed, start: 'call' }
const calledMany: LimitSpec = { ...fixedMany, start: 'call' }
const CALLER_WINDOWS: readonly FormatCase[] = [
  { name: 'caller-window: one unit', limit: called, steps: [take(T + 1)] },
  { name: 'caller-window: nothing left', limit: called, steps: [take(T + SECOND, 10)] },
  { name: 'caller-window: all given back', limit: called, steps: [take(T, 2), give(T + 1, 2, T)] },
  {
    name: 'caller-window: charged beyond its max',
    limit: called,
    steps: [take(T, 10), charge(T + 1, 4, 4)],
  },
  {
    name: 'caller-window: a second window',
    limit: called,
    steps: [take(T, 4), take(T + MINUTE + 7, 3)],
  },
  {
    name: 'caller-window: units of more than 32 bits',
    limit: calledMany,
    steps: [take(T, 4_294_967_296)],
  },
  { name: 'caller-window: a late time', limit: called, steps: [take(3_000_000_000_000_000, 2)] },
]

const monthly: LimitSpec = {
  algorithm: 'fixed-window',
  max: 10,
  windowMs: 31 * 86_400_000,
  window: 'month',
  zone: 'Europe/Berlin',
}
const CALENDAR_WINDOWS: readonly FormatCase[] = [
  { name: 'calendar-window: one unit', limit: monthly, steps: [take(T + 1)] },
  { name: 'calendar-window: nothing left', limit: monthly, steps: [take(T + SECOND, 10)] },
  {
    name: 'calendar-window: all given back',
    limit: monthly,
    steps: [take(T, 2), give(T + 1, 2, T)],
  },
  {
    name: 'calendar-window: charged beyond its max',
    limit: monthly,
    steps: [take(T, 10), charge(T + 1, 4, 4)],
  },
  {
    name: 'calendar-window: the next month',
    limit: monthly,
    steps: [take(T, 4), take(T + 40 * 1440 * MINUTE, 3)],
  },
  {
    name: 'calendar-window: units of more than 32 bits',
    limit: { ...monthly, max: 999_999_999_999_999 },
    steps: [take(T, 4_294_967_296)],
  },
]

const places: LimitSpec = { algorithm: 'concurrency', max: 1000, windowMs: 0 }
const [NODE, OTHER] = [421, 2 ** 48]
const PLACES: readonly FormatCase[] = [
  { name: 'concurrency: one place', limit: places, steps: [take(T, 1, { of: NODE })] },
  { name: 'concurrency: without a holder', limit: places, steps: [take(T)] },
  {
    name: 'concurrency: several holders',
    limit: places,
    steps: [take(T, 3, { of: NODE }), take(T + SECOND, 2, { of: OTHER })],
  },
  {
    name: 'concurrency: places given back',
    limit: places,
    steps: [take(T, 3, { of: NODE }), give(T + 1, 2, NODE)],
  },
  {
    name: 'concurrency: a holder whose lease has ended',
    limit: places,
    steps: [take(T, 3, { of: NODE }), take(T + 11 * SECOND, 2, { of: OTHER })],
  },
  {
    name: 'concurrency: renewed',
    limit: places,
    steps: [take(T, 3, { of: NODE }), { ...charge(T + 5 * SECOND, 4, 0), of: NODE }],
  },
  {
    name: 'concurrency: as many places as a record holds',
    limit: { ...places, max: 1_000_000_000 },
    steps: [take(T, 1_000_000_000, { of: NODE })],
  },
  {
    name: 'concurrency: more holders than are read at once',
    limit: places,
    steps: Array.from({ length: 150 }, (_, holder) => take(T + holder, 1, { of: holder })),
  },
  {
    name: 'concurrency: a late time',
    limit: places,
    steps: [take(3_000_000_000_000_000, 2, { of: NODE })],
  },
]

const block: FormatLimit = {
  algorithm: 'block',
  firstMs: 60_000,
  factor: 2,
  maxMs: 300_000,
  forgetMs: 86_400_000,
}
const BLOCKS: readonly FormatCase[] = [
  { name: 'block: the first one', limit: block, steps: [charge(T, 1, 0)] },
  { name: 'block: a second one, which is longer', limit: block, steps: [blocks(2)] },
  { name: 'block: the longest one', limit: block, steps: [blocks(5)] },
  { name: 'block: calls that meet it', limit: block, steps: [charge(T, 1, 0), take(T + SECOND)] },
  { name: 'block: a late time', limit: block, steps: [charge(3_000_000_000_000_000, 1, 0)] },
]

/** Blocks in a row, each after the end of the one before. */
function blocks(times: number): FormatStep {
  return { ...charge(T, 1, 0), times, everyUs: 6 * MINUTE }
}

export const FORMAT_CASES: readonly FormatCase[] = [
  ...buckets('token-bucket'),
  ...buckets('gcra'),
  ...LEAKY,
  ...FIXED,
  ...SLIDING,
  ...LOGS,
  ...CALLER_WINDOWS,
  ...BLOCKS,
  ...CALENDAR_WINDOWS,
  ...PLACES,
]

/** Plays a case on a counter that has no state, and returns what Redis holds then. */
export async function playFormatCase(
  redis: BatchRedis,
  { name, limit: spec, steps }: FormatCase,
  key: CounterKey,
): Promise<FormatResult> {
  const limit = formatLimit(spec)
  const ops = steps.flatMap((step) => opsOf(step, key, limit))
  const readAt = (ops.at(-1)?.at ?? T) + 1
  const values: Record<Layout, string> = { plain: '', packed: '' }
  for (const layout of ['plain', 'packed'] as const) {
    await redis.client.flushall()
    await redis.run(
      layout,
      ops.map(({ op, at }) => ({ ops: [op], times: { notAfter: 0, now: at } })),
    )
    values[layout] = (await readFormat(redis, layout, key, limit)) ?? ''
  }
  const { state, remaining, resetAfterMs } = await peekFormat(redis, 'packed', key, limit, readAt)
  return { name, limit: spec, steps, key, readAt, state, remaining, resetAfterMs, ...values }
}

/** The stored bytes of a counter in hex; undefined if there are none. */
async function readFormat(
  redis: BatchRedis,
  layout: Layout,
  key: CounterKey,
  limit: Pick<Limit, 'algorithm'>,
): Promise<string | undefined> {
  const value = isField(layout, limit)
    ? await redis.client.hgetBuffer(...fieldOf(key))
    : await redis.client.getBuffer(placeOf(key))
  return value?.toString('hex')
}

/** Writes bytes to the place of a counter, with a TTL that outlasts the test. */
export async function writeFormat(
  redis: BatchRedis,
  layout: Layout,
  key: CounterKey,
  limit: Pick<Limit, 'algorithm'>,
  hex: string,
): Promise<void> {
  const value = Buffer.from(hex, 'hex')
  if (isField(layout, limit)) {
    const [hash, field] = fieldOf(key)
    await redis.client.hset(hash, field, value)
    await redis.client.pexpire(hash, KEPT_MS)
  } else {
    await redis.client.set(placeOf(key), value, 'PX', KEPT_MS)
  }
}

const KEPT_MS = 600_000

/** The state and outcome that the script returns for a counter. */
export async function peekFormat(
  redis: BatchRedis,
  layout: Layout,
  key: CounterKey,
  limit: Limit,
  at: number,
): Promise<Pick<FormatResult, 'state' | 'remaining' | 'resetAfterMs'>> {
  const times = { notAfter: 0, now: at }
  const [reply] = await redis.run(layout, [{ ops: [peekOf(key, limit)], times }])
  const [outcome] = reply === undefined ? [] : outcomesOf(reply)
  if (outcome === undefined) throw new Error('the script gave no outcome')
  const { state, remaining, resetAfterMs } = outcome
  return { state: state ?? null, remaining, resetAfterMs }
}

/** A log and places have their own key in either layout. */
function isField(layout: Layout, { algorithm }: Pick<Limit, 'algorithm'>): boolean {
  const isList = algorithm === 'sliding-window-log' || algorithm === 'concurrency'
  return layout === 'packed' && !isList
}

function opsOf(step: FormatStep, key: CounterKey, limit: Limit) {
  const { verb, amount, times = 1, everyUs = 0, of, debt = 0 } = step
  return Array.from({ length: times }, (_, n): { readonly op: StoreOp; readonly at: number } => {
    const at = step.at + n * everyUs
    if (verb === 'take') {
      return { op: { verb, groups: [[{ key, limit, amount, holder: of }]], states: false }, at }
    }
    if (verb === 'give') return { op: { verb, give: { key, limit, amount, at: of } }, at }
    return { op: { verb, charge: { key, limit, amount, at: of ?? at, debt } }, at }
  })
}
