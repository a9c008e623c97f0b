/**
 * Nodes that take places from one store through faults of every kind: never more calls in flight
 * than places, and none of them leaks. `SLUICE_RUNS` multiplies the number of runs.
 */
import { describe, expect, test } from 'vitest'
import { createLimiter, type Limiter } from '../index.js'
import { user } from '../limiter.test-helper.js'
import { FakeScheduler } from '../redis/connection/channel.test-helper.js'
import { Dice } from '../dice.test-helper.js'
import { propertyRuns } from '../../../../tools/property-runs.js'
import { type Fate, FaultyStore, SharedCounters } from './faulty-store.test-helper.js'

const MAX = 6
const LEASE_MS = 10_000
/** After a fault a record is repaired within a sweep or two, each with a slow request. */
const REPAIRED_MS = LEASE_MS / 2
const NODES = 3
const STEPS = 150
const FAULTS: readonly Fate[] = ['not-run', 'lost', 'silent', 'late']

interface Node {
  readonly limiter: Limiter
  readonly store: FaultyStore
  /** The calls in flight of this node, by what ends them. */
  readonly calls: (() => void)[]
}

class Fleet {
  readonly scheduler = new FakeScheduler()
  readonly shared = new SharedCounters(this.scheduler)
  readonly nodes: readonly Node[]
  readonly #dice: Dice
  /** Calls that are being decided. */
  undecided = 0

  constructor(seed: number, rule: object) {
    this.#dice = new Dice(seed)
    this.nodes = Array.from({ length: NODES }, () => {
      const store = new FaultyStore(this.shared, this.#dice)
      const limiter = createLimiter({
        rules: [{ id: 'places', by: ['user'], posture: 'closed', ...rule }],
        store,
        clock: { now: () => this.shared.nowUs() },
        monotonicMs: () => this.scheduler.nowMs,
        scheduler: this.scheduler,
      })
      return { limiter, store, calls: [] }
    })
  }

  get inFlight(): number {
    return this.nodes.reduce((sum, { calls }) => sum + calls.length, 0)
  }

  /** The places that the store counts. */
  async taken(): Promise<number> {
    const [node] = this.nodes
    const { explain = [] } = (await node?.limiter.explain(user('u1'))) ?? {}
    return MAX - (explain[0]?.limits[0]?.remaining ?? Number.NaN)
  }

  faults(oneIn: number | undefined): void {
    for (const { store } of this.nodes) {
      store.fateOf = () =>
        oneIn !== undefined && this.#dice.oneIn(oneIn) ? this.#dice.pick(FAULTS) : 'done'
    }
  }

  begin(): void {
    const { limiter, calls } = this.#dice.pick(this.nodes)
    this.undecided += 1
    void limiter.check(user('u1'), { inFlight: true }).then((decision) => {
      this.undecided -= 1
      if (decision.release !== undefined) calls.push(decision.release)
    })
  }

  end(): void {
    const { calls } = this.#dice.pick(this.nodes)
    const [release] = calls.splice(this.#dice.below(Math.max(1, calls.length)), 1)
    release?.()
    // A second time it does nothing.
    if (this.#dice.oneIn(10)) release?.()
  }

  endAll(): void {
    for (const { calls } of this.nodes) for (const release of calls.splice(0)) release()
  }
}

async function play(seed: number, rule: object): Promise<void> {
  const dice = new Dice(seed)
  const fleet = new Fleet(seed, rule)
  await fleet.scheduler.advance(1)
  fleet.faults(dice.pick([3, 6, 20]))
  for (let step = 0; step < STEPS; step++) {
    const roll = dice.below(10)
    if (roll < 5) fleet.begin()
    else if (roll < 8) fleet.end()
    await fleet.scheduler.advance(dice.pick([0, 1, 7, 60, 300]))
    if (fleet.inFlight > MAX) expect(fleet.inFlight).toBeLessThanOrEqual(MAX)
    const taken = await fleet.taken()
    if (taken < fleet.inFlight) expect(taken).toBeGreaterThanOrEqual(fleet.inFlight)
  }
  // Once the store answers, what is counted is what is in flight, although calls go on.
  fleet.faults(undefined)
  for (let ms = 0; ms < LEASE_MS; ms += 500) {
    if (dice.oneIn(3)) fleet.begin()
    if (dice.oneIn(3)) fleet.end()
    await fleet.scheduler.advance(500)
  }
  await fleet.scheduler.advance(REPAIRED_MS)
  expect(fleet.undecided).toBe(0)
  expect(await fleet.taken()).toBe(fleet.inFlight)
  // Calls may last longer than their lease.
  await fleet.scheduler.advance(3 * LEASE_MS)
  expect(await fleet.taken()).toBe(fleet.inFlight)
  fleet.endAll()
  // A renewal that was under way may have raised the places again, until the next sweep.
  await fleet.scheduler.advance(REPAIRED_MS)
  expect(await fleet.taken()).toBe(0)
  await fleet.scheduler.advance(LEASE_MS)
  expect(fleet.nodes.map(({ limiter }) => limiter.inFlight.get('places')?.inFlight ?? 0)).toEqual(
    fleet.nodes.map(() => 0),
  )
  // Nothing is renewed any more, and no timer is left.
  expect(fleet.scheduler.waiting).toBe(0)
}

const RUNS = propertyRuns(60)

describe('whatever the store does, there are never more calls in flight than places, and none leaks', () => {
  test('with one limit of concurrency', async () => {
    const limits = [{ algorithm: 'concurrency', max: MAX }]
    for (let seed = 1; seed <= RUNS; seed++) await play(seed, { limits })
  })

  test('beside a limit that refuses some calls', async () => {
    const limits = [
      { algorithm: 'concurrency', max: MAX },
      { algorithm: 'token-bucket', max: 5, window: '1s' },
    ]
    for (let seed = 1; seed <= RUNS; seed++) await play(seed, { limits })
  })
})
