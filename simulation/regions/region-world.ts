/**
 * One run of fleets in several regions: real limiters over the real regional store, each region
 * with a simulated store, and a link from every node to every other region, in virtual time.
 */
import { type CounterKey } from '@sluice/core'
import { regionalStore, type Store } from '@sluice/limiter'
import { Agenda } from '../agenda.js'
import { Random } from '../random.js'
import type { Request } from '../requests.js'
import { RuleTimeline, SECRET } from '../rule-timeline.js'
import type { RunOptions, WorldRun } from '../run.js'
import { SimLink } from '../sim-link.js'
import { SimNode } from '../sim-node.js'
import { type Execution, SimServer } from '../sim-server.js'
import { SimStore } from '../sim-store.js'
import { nameOf } from '../sim-counter.js'
import { allRegionInvariants } from './invariants/index.js'
import type { RegionInvariant } from './invariants/region-invariant.js'
import type {
  RegionArrival,
  RegionFault,
  RegionNodeSpec,
  RegionScenario,
} from './region-scenario.js'
import { RegionTruth } from './region-truth.js'

/** The deadline of a link to another region. */
const LINK_DEADLINE_MS = 2000
/** By then everything is told that will be. */
const REST_US = 6_000_000

export async function runRegions(
  scenario: RegionScenario,
  options: RunOptions = {},
): Promise<WorldRun> {
  return new RegionWorld(scenario, options).run()
}

interface Node {
  readonly spec: RegionNodeSpec
  readonly sim: SimNode
  /** Its links, by the region at their end. */
  readonly links: ReadonlyMap<string, SimLink>
}

class RegionWorld {
  readonly #scenario: RegionScenario
  readonly #agenda: Agenda
  readonly #random: Random
  readonly #servers = new Map<string, SimServer>()
  readonly #nodes = new Map<string, Node>()
  readonly #truth: RegionTruth
  readonly #rules: RuleTimeline
  readonly #invariants: readonly RegionInvariant[]
  readonly #log: ((line: string) => void) | undefined
  #violation: WorldRun['violation']
  #decisions = 0
  #admitted = 0
  #hash = 0x811c9dc5

  constructor(scenario: RegionScenario, { log, only }: RunOptions) {
    const { settings, seed } = scenario
    this.#scenario = scenario
    this.#log = log
    this.#agenda = new Agenda(settings.startUs)
    this.#random = new Random(seed)
    this.#rules = new RuleTimeline({ rules: scenario.rules, faults: [] })
    this.#truth = new RegionTruth(scenario)
    for (const { name, storeAheadMs, storeDriftPpm } of settings.regions) {
      const server = new SimServer({
        agenda: this.#agenda,
        clockUs: settings.startUs + storeAheadMs * 1000,
        driftPpm: storeDriftPpm,
        onExecution: (execution) => this.onExecution(name, execution),
      })
      this.#servers.set(name, server)
    }
    const all = allRegionInvariants.map((make) =>
      make({
        truth: this.#truth,
        after: (us, check) => {
          const run = () => this.check(check.name, check.run())
          this.#agenda.after(us, run)
        },
        nowUs: () => this.#agenda.nowUs,
        storeUs: (region) => this.#servers.get(region)?.nowUs() ?? 0,
      }),
    )
    this.#invariants = all.filter(({ name }) => only === undefined || name === only)
  }

  async run(): Promise<WorldRun> {
    const { nodes, traffic, faults, settings } = this.#scenario
    for (const spec of nodes) this.join(spec)
    for (const arrival of traffic) this.at(arrival.atMs, () => this.arrive(arrival))
    for (const fault of faults) this.at(fault.atMs, () => this.inject(fault))
    const lastMs = [...faults, ...traffic].reduce(
      (last, each) => Math.max(last, each.atMs + ('forMs' in each ? each.forMs : 0)),
      settings.lengthMs,
    )
    const endUs = settings.startUs + lastMs * 1000 + REST_US
    while (this.#violation === undefined && this.#agenda.step(endUs)) {
      await new Promise<void>((resolve) => {
        setImmediate(resolve)
      })
    }
    for (const { name, atEnd } of this.#invariants) this.check(name, atEnd?.())
    return {
      violation: this.#violation,
      decisions: this.#decisions,
      admitted: this.#admitted,
      hash: (this.#hash >>> 0).toString(16).padStart(8, '0'),
    }
  }

  private at(ms: number, run: () => void): void {
    this.#agenda.at(this.#scenario.settings.startUs + Math.round(ms * 1000), run)
  }

  private join(spec: RegionNodeSpec): void {
    const { settings, nodes } = this.#scenario
    const { name, region } = spec
    const links = new Map<string, SimLink>()
    const fleetSize = nodes.filter((each) => each.region === region).length
    this.#truth.addWay(name, { node: name, from: region, to: region })
    const sim = new SimNode({
      spec,
      settings: { ...settings, denyCacheMs: 0, storeAheadMs: 0, storeDriftPpm: 0 },
      version: this.#rules.first,
      agenda: this.#agenda,
      server: this.serverOf(region),
      random: new Random(this.#random.int(1, 2 ** 31)),
      fleetSize,
      storeOver: (node) => this.regionalStoreOf(spec, node, links),
      onGive: () => {},
      onNotGiven: () => {},
      onReset: (key) => this.onReset(key),
      onDoubt: (request) => this.#truth.recordDoubt(request),
      onLost: (request) => this.#truth.recordDoubt(request),
    })
    this.#nodes.set(name, { spec, sim, links })
  }

  private regionalStoreOf(
    { name, region }: RegionNodeSpec,
    node: SimNode,
    links: Map<string, SimLink>,
  ): Store {
    const { regions, syncEveryMs } = this.#scenario.settings
    const others: Record<string, Store> = {}
    for (const { name: other } of regions) {
      if (other !== region) others[other] = this.guestStore(name, region, other, node, links)
    }
    return regionalStore({
      region,
      store: node.store,
      others,
      syncEveryMs,
      monotonicMs: () => node.nowMs(),
      scheduler: node.scheduler,
    })
  }

  private guestStore(
    node: string,
    from: string,
    to: string,
    sim: SimNode,
    links: Map<string, SimLink>,
  ): SimStore {
    const { settings } = this.#scenario
    const name = `${node}>${to}`
    this.#truth.addWay(name, { node, from, to })
    const random = new Random(this.#random.int(1, 2 ** 31))
    const farMs = settings.regions
      .filter((each) => each.name === from || each.name === to)
      .reduce((sum, each) => sum + each.farMs, 0)
    const lost = (request: Request) => this.#truth.recordDoubt(request)
    const shared = { agenda: this.#agenda, server: this.serverOf(to), random }
    const link = new SimLink({
      ...shared,
      delayUs: farMs * 1000,
      jitterUs: settings.jitterMs * 1000,
      deliver: (run) => sim.deliver(run),
      onLost: lost,
    })
    links.set(to, link)
    const store = new SimStore({
      node: name,
      link,
      scheduler: sim.scheduler,
      nowMs: () => sim.nowMs(),
      trueUs: () => this.#agenda.nowUs,
      random,
      secret: SECRET,
      denyCacheMs: 0,
      deadlineMs: LINK_DEADLINE_MS,
      fleetSize: 1,
      isGuest: true,
      onGive: () => {},
      onNotGiven: () => {},
      onReset: (key) => this.onReset(key),
      onDoubt: lost,
    })
    store.start()
    return store
  }

  private serverOf(region: string): SimServer {
    const server = this.#servers.get(region)
    if (server === undefined) throw new Error(`no region ${region}`)
    return server
  }

  private arrive(arrival: RegionArrival): void {
    this.deliverTo(arrival.node, ({ sim }) => {
      if (arrival.kind === 'reset') this.reset(sim, arrival.user)
      else this.call(sim, arrival)
    })
  }

  private call(node: SimNode, { user, cost, refund }: RegionArrival & { kind: 'call' }): void {
    const startedUs = this.#agenda.nowUs
    const call = { attributes: { user }, cost }
    this.logEvent(`${node.name} gets a call of ${user}: cost ${cost}`)
    const decided = Promise.resolve(node.limiter.check(call, { receipt: refund !== undefined }))
    decided.then(
      (decision) => {
        this.#decisions += 1
        if (decision.allowed) this.#admitted += 1
        this.logEvent(`${node.name} ${decision.allowed ? 'admits' : 'refuses'} ${user}`)
        const tookUs = this.#agenda.nowUs - startedUs
        for (const { name, onDecision } of this.#invariants)
          this.check(name, onDecision?.(node.name, tookUs))
        const { receipt } = decision
        if (refund === undefined || receipt === undefined || !decision.allowed) return
        this.#agenda.after(refund.afterMs * 1000, () => this.refund(receipt, refund.node))
      },
      (error: unknown) => this.check('every call is decided', `${node.name}: ${String(error)}`),
    )
  }

  private refund(receipt: string, name: string): void {
    this.deliverTo(name, ({ sim }) => {
      this.logEvent(`${name} gives back what a call took`)
      // The store may not answer; then nothing was given back for sure.
      sim.limiter.refund(receipt).catch(() => {})
    })
  }

  private reset(node: SimNode, user: string): void {
    const startedUs = this.#agenda.nowUs
    this.logEvent(`${node.name} resets ${user}`)
    const finish = () => {
      this.logEvent(`${node.name} has reset ${user}`)
      const tookUs = this.#agenda.nowUs - startedUs
      for (const { name, onReset } of this.#invariants)
        this.check(name, onReset?.(node.name, tookUs))
    }
    // It names the regions that did not confirm it.
    node.limiter.reset({ attributes: { user } }).then(finish, finish)
  }

  /** The counter begins anew, in this region or another. */
  private onReset(key: CounterKey): void {
    const counter = this.#truth.counters.get(nameOf(key))
    if (counter !== undefined) counter.isReset = true
  }

  private deliverTo(name: string, run: (node: Node) => void): void {
    const node = this.#nodes.get(name)
    if (node?.sim.isAlive !== true) return
    node.sim.deliver(() => (node.sim.isClosing ? undefined : run(node)))
  }

  private inject(fault: RegionFault): void {
    this.logEvent(`fault: ${JSON.stringify(fault)}`)
    if ('between' in fault) {
      for (const link of this.linksBetween(...fault.between)) this.disturb(link, fault)
    } else if (fault.kind === 'store-pause') this.#servers.get(fault.region)?.pause(forUs(fault))
    else this.injectIntoNode(fault)
  }

  private disturb(link: SimLink, fault: RegionFault & { readonly forMs: number }): void {
    if (fault.kind === 'cut') link.cut(forUs(fault))
    else if (fault.kind === 'stall') link.stall(forUs(fault))
    else link.reset(forUs(fault))
  }

  private injectIntoNode(fault: Extract<RegionFault, { readonly node: string }>): void {
    const sim = this.#nodes.get(fault.node)?.sim
    if (sim?.isAlive !== true) return
    if (fault.kind === 'own-cut') sim.link.cut(forUs(fault))
    else if (fault.kind === 'pause') sim.pause(forUs(fault))
    else if (fault.kind === 'kill') {
      sim.kill()
      this.#truth.gone.add(sim.name)
    } else sim.deliver(() => this.stop(sim))
  }

  private stop(sim: SimNode): void {
    if (sim.isClosing) return
    sim.isClosing = true
    this.#truth.gone.add(sim.name)
    const startedUs = this.#agenda.nowUs
    const finish = () => {
      this.logEvent(`${sim.name} is closed`)
      const tookUs = this.#agenda.nowUs - startedUs
      for (const { name, onClosed } of this.#invariants)
        this.check(name, onClosed?.(sim.name, tookUs))
    }
    sim.limiter.close().then(finish, (error: unknown) => {
      this.check('every node closes', `${sim.name}: ${String(error)}`)
    })
  }

  private linksBetween(one: string, two: string): readonly SimLink[] {
    return [...this.#nodes.values()].flatMap(({ spec: { region }, links }) => {
      const other = region === one ? two : region === two ? one : undefined
      const link = other === undefined ? undefined : links.get(other)
      return link ?? []
    })
  }

  private onExecution(region: string, execution: Execution): void {
    const { node, operation } = execution.request
    const meaning = this.#truth.record(region, execution)
    if (operation.verb !== 'time' && operation.verb !== 'beat')
      this.logEvent(`the store of ${region} does ${operation.verb} for ${node}`)
    for (const { counter, taken } of meaning.taken)
      this.logEvent(`  takes ${taken.units} of ${counter.limit.name} at ${taken.at}`)
    for (const { name, onTaken, onTold, onRefused } of this.#invariants) {
      for (const { counter, taken } of meaning.taken) this.check(name, onTaken?.(counter, taken))
      if (meaning.telling !== undefined) this.check(name, onTold?.(meaning.telling))
      for (const refusal of meaning.refusals) this.check(name, onRefused?.(refusal))
    }
    if (meaning.telling !== undefined) {
      const { amount, at, counter } = meaning.telling
      this.logEvent(`  is told ${amount} of ${counter.limit.name} at ${at}`)
    }
  }

  /** The first violation counts: later ones may follow from it. */
  private check(invariant: string, message: string | undefined): void {
    if (message === undefined || this.#violation !== undefined) return
    const atMs = (this.#agenda.nowUs - this.#scenario.settings.startUs) / 1000
    this.#violation = { invariant, message, atMs }
    this.#log?.(`${atMs.toFixed(3)} VIOLATED: ${invariant}: ${message}`)
  }

  private logEvent(line: string): void {
    const ms = (this.#agenda.nowUs - this.#scenario.settings.startUs) / 1000
    const text = `${ms.toFixed(3)} ${line}`
    for (let i = 0; i < text.length; i++)
      this.#hash = Math.imul(this.#hash ^ text.charCodeAt(i), 0x01000193)
    this.#log?.(text)
  }
}

function forUs({ forMs }: { readonly forMs: number }): number {
  return forMs * 1000
}
