/**
 * One run of one scenario: real limiters over a simulated network and store, in virtual time. The
 * same scenario always gives the same run, event for event.
 */
import { type CounterKey, isConcurrency } from '@sluice/core'
import { Agenda } from './agenda.js'
import type { DecisionRecord } from './call-log.js'
import { CallRecorder } from './call-recorder.js'
import type { PlaceCall } from './place-truth.js'
import { SimCallers } from './sim-callers.js'
import { nameOf } from './sim-counter.js'
import { allInvariants } from './invariants/index.js'
import type { Invariant, NodeAtEnd } from './invariants/invariant.js'
import { Random } from './random.js'
import { RuleTimeline, type RuleVersion } from './rule-timeline.js'
import type { ReserveRecord, SettlementRecord } from './reservation-truth.js'
import type { RunOptions, Violation, WorldRun } from './run.js'
import type { Fault, NodeSpec, Scenario } from './scenario.js'
import { type Execution, SimServer } from './sim-server.js'
import { SimNode } from './sim-node.js'
import { SimReservations } from './sim-reservations.js'
import { type CallerReset, grantsOf, GroundTruth, machineOf, type Refund } from './ground-truth.js'

export interface Run extends WorldRun {
  /** Reservations that were made, and that clients know to have ended. */
  readonly reserved: number
  readonly ended: number
}

type Log = (line: string) => void

/** After a failover a node finds its new primary after this time, or up to twice as long. */
const FAILOVER_US = 50_000
/** By then all background work after the traffic is done: leases, idleness, deny cache. */
const REST_US = 4_000_000
/** How long after its expiry a reservation is given back at the latest. */
const EXPIRED_MS = 2000

export async function runScenario(scenario: Scenario, options: RunOptions = {}): Promise<Run> {
  return new SimWorld(scenario, options).run()
}

class SimWorld {
  readonly #scenario: Scenario
  readonly #agenda: Agenda
  readonly #random: Random
  readonly #server: SimServer
  readonly #truth: GroundTruth
  readonly #rules: RuleTimeline
  readonly #recorder: CallRecorder
  readonly #reservations: SimReservations
  readonly #callers: SimCallers
  /** Every process, by its name, and the present one of each node of the scenario. */
  readonly #nodes = new Map<string, SimNode>()
  readonly #present = new Map<string, SimNode>()
  readonly #invariants: readonly Invariant[]
  readonly #log: Log | undefined
  #violation: Violation | undefined
  /** The newest rules, which joining nodes use. */
  #version: RuleVersion
  /** How long the fleet rests at the end, beside the time that all limits need. */
  readonly #restUs: number
  #hash = 0x811c9dc5

  constructor(scenario: Scenario, { log, only, onExecution, restMs = 0 }: RunOptions) {
    const { settings, seed } = scenario
    this.#scenario = scenario
    this.#log = log
    this.#restUs = restMs * 1000
    this.#agenda = new Agenda(settings.startUs)
    this.#random = new Random(seed)
    this.#server = new SimServer({
      agenda: this.#agenda,
      clockUs: settings.startUs + settings.storeAheadMs * 1000,
      driftPpm: settings.storeDriftPpm,
      onExecution: (done) => {
        this.onExecution(done)
        onExecution?.(done)
      },
    })
    this.#truth = new GroundTruth(scenario, this.#server)
    this.#rules = new RuleTimeline(scenario)
    this.#version = this.#rules.first
    const shared = {
      agenda: this.#agenda,
      truth: this.#truth,
      deliverTo: (name: string, run: (node: SimNode) => void) => this.deliverTo(name, run),
      log: (line: string, more?: string) => this.logEvent(line, more),
      onFailed: (what: string, message: string) => this.check(what, message),
    }
    this.#recorder = new CallRecorder({
      ...shared,
      onDecision: (record) => this.onDecision(record),
    })
    this.#reservations = new SimReservations({
      ...shared,
      recorder: this.#recorder,
      onReserve: (record) => this.onReserve(record),
      onSettlement: (record) => this.onSettlement(record),
    })
    this.#callers = new SimCallers({
      ...shared,
      recorder: this.#recorder,
      reservations: this.#reservations,
      onRefund: (refund) => this.onRefund(refund),
      onPlaces: (call) => this.onPlaces(call),
      onCallerReset: (reset) => this.onCallerReset(reset),
    })
    const all = allInvariants.map((make) => make(this.#truth))
    this.#invariants = all.filter(({ name }) => only === undefined || name === only)
  }

  async run(): Promise<Run> {
    const { nodes, traffic, faults, settings } = this.#scenario
    for (const spec of nodes) this.at(spec.joinsMs, () => this.join(spec))
    for (const arrival of traffic) this.at(arrival.atMs, () => this.#callers.arrive(arrival))
    for (const fault of faults) this.at(fault.atMs, () => this.inject(fault))
    const lastUs = settings.startUs + lastMs(this.#scenario) * 1000
    const endUs = lastUs + REST_US + this.#rules.memoryUs + this.#restUs
    while (this.#violation === undefined && this.#agenda.step(endUs)) {
      await flushImmediates()
      this.step()
    }
    if (this.#violation === undefined) this.end()
    return {
      violation: this.#violation,
      decisions: this.#truth.decisions,
      admitted: this.#recorder.admitted,
      ...this.#reservations.counts,
      hash: (this.#hash >>> 0).toString(16).padStart(8, '0'),
    }
  }

  private at(ms: number, run: () => void): void {
    this.#agenda.at(this.#scenario.settings.startUs + Math.round(ms * 1000), run)
  }

  /** A node that is dead or shutting down gets nothing; a paused one gets it when it resumes. */
  private deliverTo(name: string, run: (node: SimNode) => void): void {
    const node = this.#present.get(name)
    if (node?.isAlive === true) node.deliver(() => (node.isClosing ? undefined : run(node)))
  }

  private join(spec: NodeSpec): void {
    const { settings, nodes } = this.#scenario
    const node = new SimNode({
      spec,
      settings,
      version: this.#version,
      agenda: this.#agenda,
      server: this.#server,
      random: new Random(this.#random.int(1, 2 ** 31)),
      fleetSize: nodes.length,
      onGive: (give) => this.#truth.recordGiveAttempt(spec.name, give),
      onNotGiven: (give) => this.#truth.recordGiveFailure(spec.name, give),
      onReset: (key) => this.onReset(spec.name, key),
      onDoubt: (request) => this.#truth.recordDoubt(request),
      onLost: (request, reply) => this.#truth.recordLostReply(request, reply),
    })
    this.#nodes.set(spec.name, node)
    this.#present.set(machineOf(spec.name), node)
    this.logEvent(`${spec.name} joins`)
  }

  private onDecision(record: DecisionRecord): void {
    this.#truth.recordDecision(record)
    for (const { name, onDecision: onDecided } of this.#invariants)
      this.check(name, onDecided?.(record))
  }

  private onReserve(record: ReserveRecord): void {
    for (const { name, onReserve } of this.#invariants) this.check(name, onReserve?.(record))
  }

  private onSettlement(record: SettlementRecord): void {
    for (const { name, onSettlement } of this.#invariants) this.check(name, onSettlement?.(record))
  }

  private onPlaces(call: PlaceCall): void {
    for (const { name, onPlaces } of this.#invariants) this.check(name, onPlaces?.(call))
  }

  private onRefund(refund: Refund): void {
    for (const { name, onRefund } of this.#invariants) this.check(name, onRefund?.(refund))
  }

  private onCallerReset(reset: CallerReset): void {
    for (const { name, onCallerReset } of this.#invariants) this.check(name, onCallerReset?.(reset))
  }

  private onReset(node: string, key: CounterKey): void {
    const { nowUs } = this.#agenda
    for (const { name, onReset } of this.#invariants) this.check(name, onReset?.(node, key, nowUs))
  }

  private onExecution(execution: Execution): void {
    const { request, storeUs } = execution
    this.logEvent(
      `the store does ${this.describeExecution(execution)} for ${request.node}`,
      `at ${storeUs}`,
    )
    this.#truth.recordExecution(execution)
    for (const { name, onExecution: onDone } of this.#invariants)
      this.check(name, onDone?.(execution))
    const { node } = request
    for (const { take, granted } of this.#truth.reservations.lastEnd?.changes ?? []) {
      const { key, at = storeUs } = take
      if (granted < 0) this.onRefund({ node, key, amount: -granted, at, trueUs: execution.trueUs })
    }
  }

  private inject(fault: Fault): void {
    this.logEvent(`fault: ${JSON.stringify(fault)}`)
    if (fault.kind === 'store-pause') this.#server.pause(fault.forMs * 1000)
    else if (fault.kind === 'store-jump') {
      const stepUs = fault.byMs * 1000
      this.#server.jump(stepUs)
      const { nowUs } = this.#agenda
      const { kind } = fault
      this.#truth.recordDisruption({ trueUs: nowUs, kind, stepUs, undone: new Map() })
    } else if (fault.kind === 'failover') this.failOver(fault.lagMs * 1000, fault.clockMs * 1000)
    else if (fault.kind === 'change') this.change(this.#rules.after(fault), fault.spreadMs)
    else {
      const node = this.#present.get(fault.node)
      if (node?.isAlive === true) this.injectIntoNode(node, fault)
    }
  }

  private injectIntoNode(node: SimNode, fault: NodeFault): void {
    if (fault.kind === 'pause') node.pause(fault.forMs * 1000)
    else if (fault.kind === 'suspend') node.suspend(fault.forMs * 1000)
    else if (fault.kind === 'kill') this.kill(node)
    else if (fault.kind === 'restart') this.restart(node, fault.forMs * 1000)
    else if (fault.kind === 'stop') node.deliver(() => this.stop(node))
    else if (fault.kind === 'reload') node.deliver(() => node.use(node.version))
    else if (fault.kind === 'reset') this.disconnect(node, fault.forMs * 1000)
    else if (fault.kind === 'cut') node.link.cut(fault.forMs * 1000)
    else if (fault.kind === 'stall') node.link.stall(fault.forMs * 1000)
    else node.jumpWall(fault.byMs * 1000)
  }

  private kill(node: SimNode): void {
    node.kill()
    this.#truth.killedNodes.add(node.name)
    this.#truth.places.recordGone(node.name)
  }

  /** The new process has a name of its own: it shares nothing with the old one. */
  private restart(node: SimNode, afterUs: number): void {
    this.kill(node)
    const name = `${machineOf(node.name)}.${this.#nodes.size}`
    this.#agenda.after(afterUs, () => this.join({ ...node.spec, name }))
  }

  private stop(node: SimNode): void {
    node.isClosing = true
    this.#truth.places.recordGone(node.name)
    const isClosed = () => this.logEvent(`${node.name} is closed`)
    node.limiter.close().then(isClosed, (error: unknown) => {
      this.check('every node closes', `${node.name}: ${String(error)}`)
    })
  }

  /** One node after the other, as each receives it. */
  private change(version: RuleVersion, spreadMs: number): void {
    this.#version = version
    const nodes = [...this.#nodes.values()]
    for (const [i, node] of nodes.entries()) {
      const afterUs = Math.round((spreadMs * 1000 * i) / nodes.length)
      this.#agenda.after(afterUs, () => node.deliver(() => node.use(version)))
    }
  }

  private failOver(lagUs: number, stepUs: number): void {
    const undone = new Map<string, number>()
    const executions = this.#server.failOver(lagUs, stepUs)
    this.#truth.reservations.recordUndone(executions)
    for (const { request, reply } of executions) {
      for (const { take, granted } of grantsOf(request, reply)) {
        const name = nameOf(take.key)
        undone.set(name, (undone.get(name) ?? 0) + granted)
      }
    }
    const { nowUs } = this.#agenda
    this.#truth.recordDisruption({ trueUs: nowUs, kind: 'failover', stepUs, undone })
    for (const node of this.#nodes.values()) {
      this.disconnect(node, this.#random.int(FAILOVER_US, 2 * FAILOVER_US))
    }
  }

  private disconnect(node: SimNode, forUs: number): void {
    node.link.reset(forUs)
    this.#agenda.after(forUs + 1, () => node.deliver(() => node.store.onReconnect()))
  }

  private step(): void {
    for (const node of this.#nodes.values()) {
      if (node.isAlive) this.#truth.recordFleetSize(node.name, node.store.fleet.size())
    }
    const { nowUs } = this.#agenda
    for (const { name, onStep } of this.#invariants) this.check(name, onStep?.(nowUs))
  }

  private end(): void {
    const nodes: NodeAtEnd[] = []
    for (const node of this.#nodes.values()) {
      if (!node.isAlive) continue
      const { stats } = node.limiter
      let held = 0
      let counters = 0
      for (const ruleStats of stats?.coordination.values() ?? []) {
        held += ruleStats.held
        // A closed limiter counts nothing any more.
        if (!node.isClosing) counters += ruleStats.counters
      }
      let inFlight = 0
      for (const rule of node.isClosing ? [] : node.limiter.inFlight.values()) {
        inFlight += rule.inFlight
      }
      const { reportsWaiting = 0 } = stats ?? {}
      nodes.push({ name: node.name, held, counters, reportsWaiting, inFlight })
    }
    for (const { name, atEnd } of this.#invariants) this.check(name, atEnd?.(nodes))
  }

  /** The first violation counts: later ones may follow from it. */
  private check(invariant: string, message: string | undefined): void {
    if (message === undefined || this.#violation !== undefined) return
    const atMs = (this.#agenda.nowUs - this.#scenario.settings.startUs) / 1000
    this.#violation = { invariant, message, atMs }
    this.#log?.(`${atMs.toFixed(3)} VIOLATED: ${invariant}: ${message}`)
  }

  private describeExecution({ request: { operation }, reply }: Execution): string {
    const labelOf = (key: CounterKey) =>
      this.#truth.counters.get(nameOf(key))?.label ?? this.markLabel(key) ?? 'nothing known'
    if (reply.late) return `nothing of a late ${operation.verb}`
    if (operation.verb === 'give')
      return `give ${operation.give.amount} of ${labelOf(operation.give.key)}`
    if (operation.verb === 'reset') return `reset ${labelOf(operation.key)}`
    if (operation.verb === 'charge') {
      const { amount, at, key, limit } = operation.charge
      // A holder is random, so it is not logged.
      if (isConcurrency(limit)) return `renew ${amount} of ${labelOf(key)}`
      return `charge ${amount} at ${at} of ${labelOf(key)}`
    }
    if (operation.verb !== 'take') return operation.verb
    const answers = reply.answers?.flat() ?? []
    const takes = operation.groups.flat().map(({ key, amount, atLeast }, i) => {
      const answer = answers[i]
      const granted = answer === undefined || typeof answer === 'string' ? '-' : answer.granted
      return `${granted}/${amount}${atLeast === undefined ? '' : ` from ${atLeast}`} of ${labelOf(key)}`
    })
    return `take ${takes.join(', ')}`
  }

  private markLabel(key: CounterKey): string | undefined {
    const label = this.#truth.blocks.get(nameOf(key))?.counter.label
    if (label !== undefined) return `the block of ${label}`
    return this.#truth.reservations.labelOf(nameOf(key)) ?? this.#truth.places.labelOf(nameOf(key))
  }

  private logEvent(line: string, more = ''): void {
    const ms = (this.#agenda.nowUs - this.#scenario.settings.startUs) / 1000
    const text = `${ms.toFixed(3)} ${line}${more === '' ? '' : `: ${more}`}`
    for (let i = 0; i < text.length; i++) {
      this.#hash = Math.imul(this.#hash ^ text.charCodeAt(i), 0x01000193)
    }
    this.#log?.(text)
  }
}

/** When the traffic, its calls and what is left of its reservations are over. */
function lastMs({ settings, traffic }: Scenario): number {
  let last = settings.lengthMs
  for (const arrival of traffic) {
    const { reserve, lastsMs = 0 } = arrival.kind === 'call' ? arrival : {}
    last = Math.max(last, arrival.atMs + lastsMs)
    if (reserve === undefined) continue
    const stepMs = reserve.steps.at(-1)?.afterMs ?? 0
    last = Math.max(last, arrival.atMs + stepMs + reserve.ttlMs + EXPIRED_MS)
  }
  return last
}

type NodeFault = Extract<Fault, { readonly node: string }>

/** Runs everything that follows from the event without waiting. */
function flushImmediates(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}
