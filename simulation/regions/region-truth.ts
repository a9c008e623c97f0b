/**
 * What happens to the counters of several regions, as somebody outside sees it: what every node
 * took in its own region, and what it told each other one.
 */
import { algorithmOf, type Limit, type Take, windowNumberOf } from '@sluice/core'
import type { Give } from '@sluice/limiter'
import { chargeOf, grantsOf } from '../ground-truth.js'
import { nameOf } from '../sim-counter.js'
import type { Request } from '../requests.js'
import type { Execution } from '../sim-server.js'
import type { RegionFault, RegionScenario } from './region-scenario.js'

/** Units that a store took for a call, a lease or a report of its own region. */
export interface Taken {
  readonly region: string
  readonly node: string
  readonly trueUs: number
  /** By the clock of the store of that region. */
  readonly at: number
  readonly units: number
  /** Whether the store decided on them; otherwise a node had spent them before. */
  readonly isGranted: boolean
}

/** A refusal by a limit that is merged. */
export interface Refusal {
  readonly counter: MergedCounter
  readonly take: Take
  readonly region: string
  readonly trueUs: number
  /** By the clock of the store of that region. */
  readonly at: number
}

/** What one node told one region of one counter. */
export class Told {
  readonly byWindow = new Map<number, number>()
  units = 0
  /** They may have arrived, or not. */
  doubtful = 0
  returned = 0
  /** Their window was over when the region could be told again. */
  expired = 0
}

export interface MergedCounter {
  readonly name: string
  readonly limit: Limit
  readonly taken: Taken[]
  /** By the node that took them. */
  readonly takenBy: Map<string, TakenBy>
  /** By the node that told, and the region that it told. */
  readonly told: Map<string, Told>
  /** Units given back in their own region. */
  given: number
  isReset: boolean
}

export interface TakenBy {
  readonly byWindow: Map<number, number>
  /** When units were taken, by the clock of the store. */
  readonly times: Set<number>
  units: number
  given: number
  /** The node may never have learned that they were taken. */
  unlearned: number
}

/** The connection of a node to the store of a region. */
export interface Way {
  readonly node: string
  readonly from: string
  readonly to: string
}

/** A link told units of a counter, or gave them back. */
export interface Telling {
  readonly counter: MergedCounter
  readonly way: Way
  readonly amount: number
  readonly at: number
}

/** What an operation of a store means for the counters that are merged. */
export interface Meaning {
  readonly taken: readonly { readonly counter: MergedCounter; readonly taken: Taken }[]
  readonly telling: Telling | undefined
  readonly refusals: readonly Refusal[]
}

const NOTHING: Meaning = { taken: [], telling: undefined, refusals: [] }

export class RegionTruth {
  readonly scenario: RegionScenario
  readonly counters = new Map<string, MergedCounter>()
  /** Nodes that were killed or shut down. */
  readonly gone = new Set<string>()
  readonly #ways = new Map<string, Way>()
  /** Reports of a node of which it does not know whether they arrived. */
  readonly #doubted = new Set<Request>()
  readonly #executed = new Map<Request, readonly { counter: MergedCounter; taken: Taken }[]>()

  constructor(scenario: RegionScenario) {
    this.scenario = scenario
  }

  addWay(name: string, way: Way): void {
    this.#ways.set(name, way)
  }

  /** The store of `region` has done something. */
  record(region: string, execution: Execution): Meaning {
    const { request, reply } = execution
    const way = this.#ways.get(request.node)
    if (way === undefined || reply.late) return NOTHING
    if (way.from === way.to) return this.recordOwn(region, way.node, execution)
    const telling = this.tellingOf(request, way)
    if (telling === undefined) return NOTHING
    const told = this.toldOf(telling.counter, way)
    if (request.operation.verb === 'give') told.returned += telling.amount
    else {
      told.units += telling.amount
      const window = windowNumberOf(telling.counter.limit, telling.at)
      add(told.byWindow, window, telling.amount)
    }
    return { ...NOTHING, telling: request.operation.verb === 'give' ? undefined : telling }
  }

  /** The node will not learn in time whether it was done. */
  recordDoubt(request: Request): void {
    if (this.#doubted.has(request)) return
    this.#doubted.add(request)
    const way = this.#ways.get(request.node)
    if (way === undefined) return
    if (way.from !== way.to) {
      const telling = this.tellingOf(request, way)
      if (telling === undefined) return
      this.toldOf(telling.counter, way).doubtful += telling.amount
      return
    }
    for (const { counter, taken } of this.#executed.get(request) ?? [])
      takenByOf(counter, taken.node).unlearned += taken.units
    // What was spent before it was charged is told although the own store may not know it.
    const charge = chargeOf(request)
    if (charge?.limit.isMerged !== true || this.#executed.has(request)) return
    const counter = this.counterOf(charge)
    this.take(counter, request, {
      region: way.from,
      node: way.node,
      trueUs: request.sentUs,
      at: charge.at,
      units: charge.amount,
      isGranted: false,
    })
  }

  toldOf(counter: MergedCounter, { node, to }: Pick<Way, 'node' | 'to'>): Told {
    const name = `${node}>${to}`
    const known = counter.told.get(name)
    const told = known ?? new Told()
    counter.told.set(name, told)
    return told
  }

  /** The faults that disturb what a node tells a region, and when each is over. */
  faultsOf(
    node: string,
    from: string,
    to: string,
  ): readonly { readonly fault: RegionFault; readonly endsUs: number }[] {
    const { faults, settings } = this.scenario
    return faults.flatMap((fault) => {
      if (!disturbs(fault, node, from, to)) return []
      const forMs = 'forMs' in fault ? fault.forMs : 0
      return { fault, endsUs: settings.startUs + (fault.atMs + forMs) * 1000 }
    })
  }

  private recordOwn(region: string, node: string, execution: Execution): Meaning {
    const { request, reply, trueUs, storeUs } = execution
    const { operation } = request
    if (operation.verb === 'charge' && operation.charge.limit.isMerged === true) {
      const { amount, limit } = operation.charge
      // A bucket is charged later than its units were spent, which was by now.
      const isBucket = algorithmOf(limit).family === 'bucket'
      const at = isBucket ? Math.min(operation.charge.at, storeUs) : operation.charge.at
      const counter = this.counterOf(operation.charge)
      if (this.#executed.has(request)) return NOTHING
      const taken = { region, node, trueUs, at, units: amount, isGranted: false }
      this.take(counter, request, taken)
      return { ...NOTHING, taken: [{ counter, taken }] }
    }
    if (operation.verb === 'give' && operation.give.limit.isMerged === true) {
      const counter = this.counterOf(operation.give)
      counter.given += operation.give.amount
      takenByOf(counter, node).given += operation.give.amount
    }
    const all = grantsOf(request, reply).flatMap(({ take, granted, at }) => {
      if (take.limit.isMerged !== true) return []
      const counter = this.counterOf(take)
      const units = granted
      const taken = { region, node, trueUs, at: take.at ?? at, units, isGranted: true }
      this.take(counter, request, taken)
      return [{ counter, taken }]
    })
    const refusals = this.refusalsOf(execution).map((take) => ({
      counter: this.counterOf(take),
      take,
      region,
      trueUs,
      at: take.at ?? storeUs,
    }))
    return { taken: all, telling: undefined, refusals }
  }

  /** The takes of merged limits that lacked units. */
  private refusalsOf({ request: { operation }, reply }: Execution): readonly Take[] {
    if (operation.verb !== 'take') return []
    return operation.groups.flatMap((takes, g) =>
      takes.filter((take, i) => {
        const answer = reply.answers?.[g]?.[i]
        const isRefused = typeof answer === 'object' && answer.retryAfterMs !== 0
        return isRefused && answer.granted === 0 && take.limit.isMerged === true
      }),
    )
  }

  private take(counter: MergedCounter, request: Request, taken: Taken): void {
    counter.taken.push(taken)
    const by = takenByOf(counter, taken.node)
    by.units += taken.units
    by.times.add(taken.at)
    add(by.byWindow, windowNumberOf(counter.limit, taken.at), taken.units)
    this.#executed.set(request, [...(this.#executed.get(request) ?? []), { counter, taken }])
    if (taken.isGranted && this.#doubted.has(request)) by.unlearned += taken.units
  }

  private tellingOf({ operation }: Request, way: Way): Telling | undefined {
    if (operation.verb === 'charge') {
      const { amount, at } = operation.charge
      return { counter: this.counterOf(operation.charge), way, amount, at }
    }
    if (operation.verb !== 'give') return undefined
    const { amount, at = 0 } = operation.give
    return { counter: this.counterOf(operation.give), way, amount, at }
  }

  private counterOf({ key, limit }: Pick<Give, 'key' | 'limit'>): MergedCounter {
    const name = nameOf(key)
    const known = this.counters.get(name)
    if (known !== undefined) return known
    const counter: MergedCounter = {
      name,
      limit,
      taken: [],
      takenBy: new Map(),
      told: new Map(),
      given: 0,
      isReset: false,
    }
    this.counters.set(name, counter)
    return counter
  }
}

export function takenByOf(counter: MergedCounter, node: string): TakenBy {
  const known = counter.takenBy.get(node)
  const by = known ?? {
    byWindow: new Map<number, number>(),
    times: new Set<number>(),
    units: 0,
    given: 0,
    unlearned: 0,
  }
  counter.takenBy.set(node, by)
  return by
}

/** Whether a fault may delay or lose what a node of one region tells another region. */
export function disturbs(fault: RegionFault, node: string, from: string, to: string): boolean {
  if ('between' in fault) return fault.between.includes(from) && fault.between.includes(to)
  if ('region' in fault) return fault.region === from || fault.region === to
  return fault.node === node
}

function add(map: Map<number, number>, window: number, units: number): void {
  map.set(window, (map.get(window) ?? 0) + units)
}
