/**
 * Mistakes put into the real engine for the length of a run: the simulation must find each of them,
 * or it proves nothing.
 */
import { Holdings, Lease, UnreportedUsage } from '@sluice/limiter/internal'

/** Puts a mistake in, and returns what takes it out again. */
type Mutation = () => () => void

export const MUTATIONS = {
  /** What a lease did not spend is not given back. */
  'lost-give-back': () =>
    replace(Holdings.prototype, 'giveBack', () => (lease, units) => {
      lease.counter.stats.held -= units
    }),
  /** A lease is spent after its end. */
  'late-lease': () => replace(Lease.prototype, 'isOver', () => () => false),
  /** A machine that slept spends its leases on: only the clock that stood still is asked. */
  'sleeping-lease': () =>
    replace(
      Lease.prototype,
      'isOver',
      () =>
        function (this: Lease, monotonicMs: number) {
          return monotonicMs >= this.endMs
        },
    ),
  /** What a call took of a lease, and was refused elsewhere, is not put back. */
  'lost-put-back': () =>
    replace(Holdings.prototype, 'putBack', () => (lease, units) => {
      lease.counter.stats.held -= units
    }),
  /** A counter that is reset is forgotten in the store, but its leases are spent on. */
  'unforgotten-lease': () => replace(Holdings.prototype, 'forgetAll', () => () => {}),
  /** A node holds as much as all of them may together. */
  'greedy-lease': () =>
    replace(
      Holdings.prototype,
      'maxHeld',
      () =>
        ({ maxStranded, immediate }) =>
          Math.floor(maxStranded * immediate.capacity),
    ),
  /** What is given back is given back twice. */
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
  /** Counts are reported in every second round only. */
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
  /** Of what was counted, half is reported. */
  'half-report': () =>
    replace(
      UnreportedUsage.prototype,
      'drain',
      (drain) =>
        function (this: UnreportedUsage) {
          return drain.call(this).map(({ amount, at }) => ({ amount: Math.ceil(amount / 2), at }))
        },
    ),
  /** What was spent in one window is charged to the next. */
  'wrong-window': () =>
    replace(
      UnreportedUsage.prototype,
      'drain',
      (drain) =>
        function (this: UnreportedUsage) {
          return drain.call(this).map(({ amount, at }) => ({ amount, at: at + this.windowUs }))
        },
    ),
} as const satisfies Record<string, Mutation>

export type MutationName = keyof typeof MUTATIONS

export function isMutation(name: string): name is MutationName {
  return Object.hasOwn(MUTATIONS, name)
}

/** Runs with a mistake in the engine; without a name, with the engine as it is. */
export async function withMutation<Result>(
  name: MutationName | undefined,
  run: () => Promise<Result>,
): Promise<Result> {
  const restore = name === undefined ? () => {} : MUTATIONS[name]()
  try {
    return await run()
  } finally {
    restore()
  }
}

function replace<Owner extends object, Name extends keyof Owner>(
  owner: Owner,
  name: Name,
  make: (before: Owner[Name]) => Owner[Name],
): () => void {
  const before = owner[name]
  owner[name] = make(before)
  return () => {
    owner[name] = before
  }
}
