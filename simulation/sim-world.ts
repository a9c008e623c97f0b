/**
 * One run of one scenario: real limiters over a simulated network and store, in virtual time. The
 * same scenario always gives the same run, event for event.
 */
import type { CounterKey } from '@sluice/core'
import { Agenda } from './agenda.js'
import type { DecisionRecord } from './call-log.js'
import { SimCallers } from './sim-callers.js'
import { nameOf } from './sim-counter.js'
import { allInvariants } from './invariants/index.js'
import type { Invariant, NodeAtEnd } from './invariants/invariant.js'
import { Random } from './random.js'
import { RuleTimeline, type RuleVersion } from './rule-timeline.js'
import type { Fault, NodeSpec, Scenario } from './scenario.js'
import { type Execution, SimServer } from './sim-server.js'
import { SimNode } from './sim-node.js'
import { type CallerReset, grantsOf, type Refund, GroundTruth } from './ground-truth.js'

/** The violation, and when it was found. */
interface Violation {
  readonly invariant: string
  readonly message: string
  readonly atMs: number
}

export interface Run {
  readonly violation: Violation | undefined
  readonly decisions: number
  readonly admitted: number
  /** A hash of the events in their order. */
  readonly hash: string
}

type Log = (line: string) => void

/** After a failover a node finds its new primary after this time, or up to twice as long. */
const FAILOVER_US = 50_000
/** By then all background work after the traffic is done: leases, idleness, deny cache. */
const REST_US = 4_000_000

export interface RunOptions {
  /** Receives every event, one line each. */
  readonly log?: Log | undefined
  /** The only invariant to check; undefined for all. */
  readonly only?: string | undefined
  /** Receives every operation of the store with its answer. */
  readonly onExecution?: ((execution: Execution) => void) | undefined
}

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
  readonly #callers: SimCallers
  readonly #nodes = new Map<string, SimNode>()
  readonly #invariants: readonly Invariant[]
  readonly #log: Log | undefined
  #violation: Violation | undefined
  /** The newest rules, which joining nodes use. */
  #version: RuleVersion
  #hash = 0x811c9dc5

  constructor(scenario: Scenario, { log, only, onExecution }: RunOptions) {
    const { settings, seed } = scenario
    this.#scenario = scenario
    this.#log = log
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
    this.#callers = new SimCallers({
      agenda: this.#agenda,
      truth: this.#truth,
      nodeOf: (name) => this.#nodes.get(name),
      log: (line, more) => this.logEvent(line, more),
      onDecision: (decided) => this.onDecision(decided),
      onRefund: (refund) => this.onRefund(refund),
      onCallerReset: (reset) => this.onCallerReset(reset),
      onFailed: (what, message) => this.check(what, message),
    })
    const all = allInvariants.map((make) => make(this.#truth))
    this.#invariants = all.filter(({ name }) => only === undefined || name === only)
  }

  async run(): Promise<Run> {
    const { nodes, traffic, faults, settings } = this.#scenario
    for (const spec of nodes) this.at(spec.joinsMs, () => this.join(spec))
    for (const arrival of traffic) this.at(arrival.atMs, () => this.#callers.arrive(arrival))
    for (const fault of faults) this.at(fault.atMs, () => this.inject(fault))
    const endUs = settings.startUs + settings.lengthMs * 1000 + REST_US + this.#rules.memoryUs
    while (this.#violation === undefined && this.#agenda.step(endUs)) {
      await flushImmediates()
      this.step()
    }
    if (this.#violation === undefined) this.end()
    return {
      violation: this.#violation,
      decisions: this.#truth.decisions,
      admitted: this.#callers.admitted,
      hash: (this.#hash >>> 0).toString(16).padStart(8, '0'),
    }
  }

  private at(ms: number, run: () => void): void {
    this.#agenda.at(this.#scenario.settings.startUs + Math.round(ms * 1000), run)
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
    this.logEvent(`${spec.name} joins`)
  }

  private onDecision(record: DecisionRecord): void {
    this.#truth.recordDecision(record)
    for (const { name, onDecision: onDecided } of this.#invariants)
      this.check(name, onDecided?.(record))
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
      const node = this.#nodes.get(fault.node)
      if (node?.isAlive === true) this.injectIntoNode(node, fault)
    }
  }

  private injectIntoNode(node: SimNode, fault: NodeFault): void {
    if (fault.kind === 'pause') node.pause(fault.forMs * 1000)
    else if (fault.kind === 'suspend') node.suspend(fault.forMs * 1000)
    else if (fault.kind === 'kill') {
      node.kill()
      this.#truth.killedNodes.add(node.name)
    } else if (fault.kind === 'stop') node.deliver(() => this.stop(node))
    else if (fault.kind === 'reload') node.deliver(() => node.use(node.version))
    else if (fault.kind === 'reset') this.disconnect(node, fault.forMs * 1000)
    else if (fault.kind === 'cut') node.link.cut(fault.forMs * 1000)
    else if (fault.kind === 'stall') node.link.stall(fault.forMs * 1000)
    else node.jumpWall(fault.byMs * 1000)
  }

  private stop(node: SimNode): void {
    node.isClosing = true
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
    for (const { request, reply } of this.#server.failOver(lagUs, stepUs)) {
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
      nodes.push({ name: node.name, held, counters, reportsWaiting: stats?.reportsWaiting ?? 0 })
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
      this.#truth.counters.get(nameOf(key))?.label ?? this.blockLabel(key) ?? 'nothing known'
    if (reply.late) return `nothing of a late ${operation.verb}`
    if (operation.verb === 'give')
      return `give ${operation.give.amount} of ${labelOf(operation.give.key)}`
    if (operation.verb === 'reset') return `reset ${labelOf(operation.key)}`
    if (operation.verb === 'charge') {
      const { amount, at, key } = operation.charge
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

  private blockLabel(key: CounterKey): string | undefined {
    const label = this.#truth.blocks.get(nameOf(key))?.counter.label
    return label === undefined ? undefined : `the block of ${label}`
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

type NodeFault = Extract<Fault, { readonly node: string }>

/** Runs everything that follows from the event without waiting. */
function flushImmediates(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}
