/**
 * Mistakes put into the real engine for the length of a run: the simulation must find each of them,
 * or it proves nothing.
 */
import { Holdings, Lease, Pending } from '@sluice/limiter/internal'

/** Puts a mistake in, and returns what takes it out again. */
type Plant = () => () => void

export const PLANTED = {
  /** What a lease did not spend is not given back. */
  'lost-give-back': () =>
    replace(Holdings.prototype, 'giveBack', () => (lease, units) => {
      lease.meter.tally.held -= units
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
      lease.meter.tally.held -= units
    }),
  /** A counter that is reset is forgotten in the store, but its leases are spent on. */
  'unforgotten-lease': () => replace(Holdings.prototype, 'forgetAll', () => () => {}),
  /** A node holds as much as all of them may together. */
  'greedy-lease': () =>
    replace(
      Holdings.prototype,
      'mostOf',
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
    const rounds = new WeakMap<Pending, number>()
    return replace(
      Pending.prototype,
      'cut',
      (cut) =>
        function (this: Pending) {
          const round = (rounds.get(this) ?? 0) + 1
          rounds.set(this, round)
          return round % 2 === 0 ? cut.call(this) : []
        },
    )
  },
  /** Of what was counted, half is reported. */
  'half-report': () =>
    replace(
      Pending.prototype,
      'cut',
      (cut) =>
        function (this: Pending) {
          return cut.call(this).map(({ amount, at }) => ({ amount: Math.ceil(amount / 2), at }))
        },
    ),
  /** What was spent in one window is charged to the next. */
  'wrong-window': () =>
    replace(
      Pending.prototype,
      'cut',
      (cut) =>
        function (this: Pending) {
          return cut.call(this).map(({ amount, at }) => ({ amount, at: at + this.windowUs }))
        },
    ),
} as const satisfies Record<string, Plant>

export type PlantedName = keyof typeof PLANTED

export function isPlanted(name: string): name is PlantedName {
  return Object.hasOwn(PLANTED, name)
}

/** Runs with a mistake in the engine; without a name, with the engine as it is. */
export async function withPlanted<Result>(
  name: PlantedName | undefined,
  run: () => Promise<Result>,
): Promise<Result> {
  const takeOut = name === undefined ? () => {} : PLANTED[name]()
  try {
    return await run()
  } finally {
    takeOut()
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
