/**
 * Bugs put into the real engine for the duration of a run: the simulation must find each of them,
 * or it proves nothing.
 */
import { algorithmOf, defineBlock, isConcurrency, type Take } from '@sluice/core'
import {
  DenyCache,
  Holdings,
  Lease,
  Places,
  RecordUpkeep,
  SettlementPlan,
  UnreportedUsage,
} from '@sluice/limiter/internal'
import { replace } from './replace.js'

/** The algorithm of all blocks. */
const BLOCK = algorithmOf(
  defineBlock('any', { firstMs: 1000, factor: 1, maxMs: 1000, forgetMs: 1000 }),
)

export const MUTATIONS = {
  /** Unspent units of a lease are not given back. */
  'lost-give-back': () =>
    replace(Holdings.prototype, 'giveBack', () => (lease, units) => {
      lease.counter.stats.held -= units
    }),
  /** A lease is spent after its end. */
  'late-lease': () => replace(Lease.prototype, 'isOver', () => () => false),
  /** A machine that slept continues to spend its leases: only the stopped clock is checked. */
  'sleeping-lease': () =>
    replace(
      Lease.prototype,
      'isOver',
      () =>
        function (this: Lease, monotonicMs: number) {
          return monotonicMs >= this.endMs
        },
    ),
  /** Units that a call took from a lease are not returned when another limit refuses it. */
  'lost-put-back': () =>
    replace(Holdings.prototype, 'putBack', () => (lease, units) => {
      lease.counter.stats.held -= units
    }),
  /** A reset counter is deleted in the store, but its leases are still spent. */
  'unforgotten-lease': () => replace(Holdings.prototype, 'forgetAll', () => () => {}),
  /** A node holds as much as all nodes together may. */
  'greedy-lease': () =>
    replace(
      Holdings.prototype,
      'maxHeld',
      () =>
        ({ maxStranded, immediate }) =>
          Math.floor(maxStranded * immediate.capacity),
    ),
  /** Units are given back twice. */
  'doubled-give-back': () =>
    replace(
      Holdings.prototype,
      'giveBack',
      (giveBack) =>
        function (this: Holdings, lease, units) {
          giveBack.call(this, lease, units)
          giveBack.call(this, lease, units)
        },
    ),
  /** Counts are reported only in every second round. */
  'late-report': () => {
    const rounds = new WeakMap<UnreportedUsage, number>()
    return replace(
      UnreportedUsage.prototype,
      'drain',
      (drain) =>
        function (this: UnreportedUsage) {
          const round = (rounds.get(this) ?? 0) + 1
          rounds.set(this, round)
          return round % 2 === 0 ? drain.call(this) : []
        },
    )
  },
  /** Only half of the counts is reported. */
  'half-report': () =>
    replace(
      UnreportedUsage.prototype,
      'drain',
      (drain) =>
        function (this: UnreportedUsage) {
          return drain.call(this).map(({ amount, at }) => ({ amount: Math.ceil(amount / 2), at }))
        },
    ),
  /** Usage of one window is charged to the next. */
  'wrong-window': () =>
    replace(
      UnreportedUsage.prototype,
      'drain',
      (drain) =>
        function (this: UnreportedUsage) {
          return drain
            .call(this)
            .map(({ amount, at }) => ({ amount, at: at + this.windows.windowUs }))
        },
    ),
  /** A block refuses nothing. */
  'idle-block': () =>
    replace(
      BLOCK,
      'take',
      (take) => (_, limit, amount, now) => take(undefined, limit, amount, now),
    ),
  /** Every block in a row is as long as the first one. */
  'growthless-block': () =>
    replace(
      BLOCK,
      'charge',
      (charge) => (state, limit, amount, now, at, debt) =>
        charge(state, { ...limit, q: 1 }, amount, now, at, debt),
    ),
  /** A node that reset a caller goes on to refuse it from memory. */
  'remembered-block': () => replace(DenyCache.prototype, 'forget', () => () => {}),
  /** The place of a call that has ended stays taken. */
  'kept-place': () => replace(Places.prototype, 'give', () => () => {}),
  /** Records of places are not renewed while calls last. */
  'expired-place': () => replace(RecordUpkeep.prototype, 'renew', () => () => {}),
  /** A renewal restores places that were given back since the last one. */
  'restored-place': () => {
    const most = new WeakMap<object, number>()
    return replace(
      RecordUpkeep.prototype,
      'renew',
      (renew) =>
        function (this: RecordUpkeep, record, holder) {
          const { held } = record
          record.held = Math.max(held, most.get(record) ?? 0)
          most.set(record, record.held)
          renew.call(this, record, holder)
          record.held = held
        },
    )
  },
  /** A reservation is settled without a mark that it was. */
  'missing-mark': () => changeMarks(() => []),
  /** The mark that a reservation was settled can be taken twice. */
  'doubled-mark': () =>
    changeMarks((marks) =>
      marks.map((mark) => ({ ...mark, limit: { ...mark.limit, max: 2, capacity: 2 } })),
    ),
  /** A reservation that expires is given back although it was extended. */
  'forgotten-extension': () => changeMarks(([settled]) => (settled === undefined ? [] : [settled])),
  /** A settle gives back into the next window. */
  'next-window': () =>
    replace(
      SettlementPlan.prototype,
      'groupsAfter',
      (groupsAfter) =>
        function (this: SettlementPlan, marks) {
          return groupsAfter.call(this, marks).map((takes) => takes.map(inNextWindow))
        },
    ),
} as const satisfies Record<string, () => () => void>

export type MutationName = keyof typeof MUTATIONS

/** Changes the marks by which the end of a reservation is sent. */
function changeMarks(change: (marks: readonly Take[]) => readonly Take[]): () => void {
  return replace(
    SettlementPlan.prototype,
    'groupsAfter',
    (groupsAfter) =>
      function (this: SettlementPlan, marks) {
        return groupsAfter.call(this, change(marks))
      },
  )
}

function inNextWindow(take: Take): Take {
  const { at, limit } = take
  const isPlaced = at !== undefined && !isConcurrency(limit)
  return isPlaced ? { ...take, at: at + limit.windowUs } : take
}
