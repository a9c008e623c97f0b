/** A fleet of nodes with `coordination: local` over one store, in virtual time. */
import {
  type CompiledLimit,
  compileRules,
  type CounterKey,
  type Outcome,
  type PlannedTake,
  parseRules,
  sipKey,
  type Take,
} from '@sluice/core'
import { memoryStore } from '../memory/memory-store.js'
import type { Scheduler } from '../periodic.js'
import type { Answer, Charge, Give, Groups, Silence, Store, TakeOptions } from '../store.js'
import type { NodeOutcome, CoordinationDeps } from './node-decider.js'
import { LocalCounts } from './local/local-counts.js'

/** 2026-01-01T00:00:00Z: every window whose length divides a day starts then. */
export const START_US = 1_767_225_600_000_000

class VirtualTime implements Scheduler {
  nowMs = 0
  readonly #waiting = new Set<{ readonly atMs: number; readonly run: () => void }>()

  get waiting(): number {
    return this.#waiting.size
  }

  nowUs(): number {
    return START_US + Math.round(this.nowMs * 1000)
  }

  after(ms: number, run: () => void): () => void {
    const entry = { atMs: this.nowMs + ms, run }
    this.#waiting.add(entry)
    return () => this.#waiting.delete(entry)
  }

  /** Advances time and runs what becomes due at each moment. */
  async advance(ms: number): Promise<void> {
    const untilMs = this.nowMs + ms
    for (;;) {
      let next: { readonly atMs: number; readonly run: () => void } | undefined
      for (const entry of this.#waiting) if (entry.atMs < (next?.atMs ?? Infinity)) next = entry
      if (next === undefined || next.atMs > untilMs) break
      this.nowMs = next.atMs
      this.#waiting.delete(next)
      next.run()
      await settled()
    }
    this.nowMs = untilMs
  }
}

/** Resolves after all pending promise callbacks have run. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

/** `lost`: nothing ran, and the fate is unknown. `ran`: it ran, and the fate is unknown. */
type Fault = 'not-run' | 'lost' | 'ran' | undefined

/** The connection of one node to the shared store, with faults and delay. */
class NodeStore implements Store {
  /** As they were sent, and as they ran. */
  readonly charges: Charge[] = []
  readonly ran: Charge[] = []
  readonly gives: Give[] = []
  readonly reads: Groups<Take>[] = []
  fault: Fault
  chargeFault: Fault
  /** Delay in one direction. */
  delayMs = 0
  readonly #shared: ReturnType<typeof memoryStore>
  readonly #time: VirtualTime

  constructor(shared: ReturnType<typeof memoryStore>, time: VirtualTime) {
    this.#shared = shared
    this.#time = time
  }

  async take(groups: Groups<Take>, options?: TakeOptions): Promise<Groups<Answer>> {
    this.reads.push(groups)
    const { fault } = this
    const silent = (silence: Silence) => groups.map((takes) => takes.map(() => silence))
    await this.wait()
    if (fault === 'not-run') return silent('not-run')
    if (fault === 'lost') return silent('unknown')
    const answers = this.takeNow(groups, options?.states)
    await this.wait()
    return fault === 'ran' ? silent('unknown') : answers
  }

  takeNow(groups: Groups<Take>, states = false): Groups<Answer> {
    const outcomes: Groups<Outcome> = this.#shared.sync.take(groups)
    const peeked = this.#shared.sync.peek(groups)
    if (!states) return outcomes
    return outcomes.map((row, g) =>
      row.map((outcome, i) => ({ ...outcome, state: peeked[g]?.[i]?.state })),
    )
  }

  async peek(groups: Groups<Take>) {
    return this.#shared.peek(groups)
  }

  async give(give: Give): Promise<void> {
    this.gives.push(give)
    await this.verb(this.fault, () => this.#shared.sync.give(give))
  }

  async charge(charge: Charge): Promise<void> {
    this.charges.push(charge)
    await this.verb(this.fault ?? this.chargeFault, () => {
      this.ran.push(charge)
      this.#shared.sync.charge(charge)
    })
  }

  async reset(key: CounterKey): Promise<void> {
    await this.verb(this.fault, () => this.#shared.sync.reset(key))
  }

  async close(): Promise<void> {}

  private async verb(fault: Fault, run: () => void): Promise<void> {
    await this.wait()
    if (fault !== 'not-run' && fault !== 'lost') run()
    await this.wait()
    if (fault === undefined) return
    throw Object.assign(new Error(fault), { silence: fault === 'not-run' ? 'not-run' : 'unknown' })
  }

  private async wait(): Promise<void> {
    const ms = this.delayMs
    if (ms > 0) await new Promise<void>((resolve) => void this.#time.after(ms, resolve))
  }
}

export function compiled(limit: object | string, syncEveryMs = 100): CompiledLimit {
  const { rules } = parseRules([{ id: 'r', by: ['user'], limits: [limit] }])
  if (rules === undefined) throw new Error('bad rule')
  const snapshot = compileRules(rules, { secret: sipKey(new Uint8Array(16)) })
  const [only] = snapshot.rules[0]?.limits ?? []
  if (only === undefined) throw new Error('no limit')
  return { ...only, coordination: 'local', syncEveryMs }
}

export function takeOf(of: CompiledLimit, amount = 1, name = 1): PlannedTake {
  return { key: { hi: name, lo: -name, partition: 1 }, limit: of.limit, amount, compiled: of }
}

export interface FleetNode {
  readonly store: NodeStore
  readonly local: LocalCounts
  readonly deps: CoordinationDeps
  /** Keys that were invalidated. */
  readonly gaveBack: CounterKey[]
}

export class Fleet {
  readonly time = new VirtualTime()
  readonly shared = memoryStore({ clock: { now: () => this.time.nowUs() } })
  readonly nodes: readonly FleetNode[]
  /** The fleet size that nodes see. */
  size: number

  constructor(size: number) {
    this.size = size
    this.nodes = Array.from({ length: size }, (_, place) => this.node(place))
  }

  at(place: number): FleetNode {
    const node = this.nodes[place]
    if (node === undefined) throw new Error(`no node ${place}`)
    return node
  }

  /** Decides a call as a limiter does: on the node, else by the store. */
  call(place: number, take: PlannedTake): Outcome | undefined {
    const { local, store } = this.at(place)
    const onNode = local.take(take)
    if (onNode !== undefined) return onNode
    if (store.fault !== undefined) return undefined
    const storeTake = { ...take, limit: local.storeLimit(take) }
    const answer = store.takeNow([[storeTake]], true)[0]?.[0]
    if (answer === undefined || typeof answer === 'string') return undefined
    local.learn(take, answer, this.time.nowMs)
    return answer
  }

  /** The same over a connection with delay. */
  async ask(place: number, take: PlannedTake): Promise<Outcome | undefined> {
    const { local, store } = this.at(place)
    if (store.delayMs === 0) return this.call(place, take)
    const onNode = local.take(take)
    if (onNode !== undefined) return onNode
    const sentMs = this.time.nowMs
    const answers = await store.take([[{ ...take, limit: local.storeLimit(take) }]], {
      states: true,
    })
    const answer = answers[0]?.[0]
    if (answer === undefined || typeof answer === 'string') return undefined
    local.learn(take, answer, sentMs)
    return answer
  }

  /** The state of a counter in the store. */
  state(take: PlannedTake): unknown {
    return this.shared.sync.peek([[take]])[0]?.[0]?.state
  }

  private node(place: number): FleetNode {
    const store = new NodeStore(this.shared, this.time)
    const gaveBack: CounterKey[] = []
    const deps: CoordinationDeps = {
      store,
      scheduler: this.time,
      monotonicMs: () => this.time.nowMs,
      wallUs: () => this.time.nowUs(),
      placeInWindow: () => this.time.nowUs(),
      fleetSize: () => this.size,
      fleetPlace: () => place,
      deadlineMs: 20,
      invalidate: (key) => gaveBack.push(key),
      onStoreAnswer: () => {},
      isStoreAnswering: () => true,
    }
    return { store, deps, gaveBack, local: new LocalCounts(deps) }
  }
}

export const window100 = { algorithm: 'fixed-window', max: 100, window: '1m' } as const

/** Starts a fleet and returns its first node with helpers. */
export function startLocal(limit: object | string = window100, { size = 1, everyMs = 100 } = {}) {
  const fleet = new Fleet(size)
  const of = compiled(limit, everyMs)
  const { local, store, gaveBack } = fleet.at(0)
  const take = (amount = 1, name = 1): NodeOutcome => {
    const outcome = local.take(takeOf(of, amount, name))
    if (outcome === undefined) throw new Error('not decided here')
    return outcome
  }
  /** Lets the store decide a call once, so that the node knows the counter. */
  const learn = (name = 1, amount = 1) => void fleet.call(0, takeOf(of, amount, name))
  const stats = () => local.stats.get('r')
  const count = (name = 1) => fleet.state(takeOf(of, 1, name))
  /** Rounds that read a counter. */
  const readsOf = (name: number) =>
    store.reads.filter(([row]) => row?.some(({ key }) => key.hi === name)).length
  const { time } = fleet
  return { fleet, of, local, store, gaveBack, take, learn, stats, count, readsOf, time }
}
