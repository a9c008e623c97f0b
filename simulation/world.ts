/**
 * One run of one scenario: real limiters over a simulated network and store, in virtual time. The
 * same scenario is the same run, event for event.
 */
import type { CounterKey } from '@sluice/core'
import { Agenda } from './agenda.js'
import type { Decided } from './called.js'
import { Callers } from './callers.js'
import { nameOf } from './counter.js'
import { allInvariants } from './invariants/index.js'
import type { Invariant, NodeAtEnd } from './invariants/invariant.js'
import { Random } from './random.js'
import { RuleBook, type RuleVersion } from './rule-book.js'
import type { Fault, NodeSpec, Scenario } from './scenario.js'
import { type Done, Server } from './server.js'
import { SimNode } from './sim-node.js'
import { grantsOf, type Refund, Truth } from './truth.js'

/** What was found, and when. */
interface Violation {
  readonly invariant: string
  readonly message: string
  readonly atMs: number
}

export interface Run {
  readonly violation: Violation | undefined
  readonly decisions: number
  readonly admitted: number
  /** The same for the same events in the same order. */
  readonly hash: string
}

type Log = (line: string) => void

/** After a failover a node finds its new primary after so long, and up to as much again. */
const FAILOVER_US = 50_000
/** What goes on by itself after the traffic ends is over by then: leases, idleness, deny cache. */
const REST_US = 4_000_000

export interface RunOptions {
  /** Gets everything that happens, a line each. */
  readonly log?: Log | undefined
  /** The name of the only invariant to be checked; else all are. */
  readonly only?: string | undefined
}

export async function runScenario(scenario: Scenario, options: RunOptions = {}): Promise<Run> {
  return new World(scenario, options).run()
}

class World {
  readonly #scenario: Scenario
  readonly #agenda: Agenda
  readonly #random: Random
  readonly #server: Server
  readonly #truth: Truth
  readonly #book: RuleBook
  readonly #callers: Callers
  readonly #nodes = new Map<string, SimNode>()
  readonly #invariants: readonly Invariant[]
  readonly #log: Log | undefined
  #violation: Violation | undefined
  /** The newest rules: those of nodes that join. */
  #version: RuleVersion
  #hash = 0x811c9dc5

  constructor(scenario: Scenario, { log, only }: RunOptions) {
    const { settings, seed } = scenario
    this.#scenario = scenario
    this.#log = log
    this.#agenda = new Agenda(settings.startUs)
    this.#random = new Random(seed)
    this.#server = new Server({
      agenda: this.#agenda,
      clockUs: settings.startUs + settings.storeAheadMs * 1000,
      driftPpm: settings.storeDriftPpm,
      onDone: (done) => this.done(done),
    })
    this.#truth = new Truth(scenario, this.#server)
    this.#book = new RuleBook(scenario)
    this.#version = this.#book.first
    this.#callers = new Callers({
      agenda: this.#agenda,
      truth: this.#truth,
      nodeOf: (name) => this.#nodes.get(name),
      note: (line, more) => this.note(line, more),
      onDecided: (decided) => this.decided(decided),
      onRefund: (refund) => this.refunded(refund),
      onFailed: (what, message) => this.found(what, message),
    })
    const all = allInvariants.map((make) => make(this.#truth))
    this.#invariants = all.filter(({ name }) => only === undefined || name === only)
  }

  async run(): Promise<Run> {
    const { nodes, traffic, faults, settings } = this.#scenario
    for (const spec of nodes) this.at(spec.joinsMs, () => this.join(spec))
    for (const arrival of traffic) this.at(arrival.atMs, () => this.#callers.arrive(arrival))
    for (const fault of faults) this.at(fault.atMs, () => this.strike(fault))
    const endUs = settings.startUs + settings.lengthMs * 1000 + REST_US + this.#book.memoryUs
    while (this.#violation === undefined && this.#agenda.step(endUs)) {
      await settled()
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
      onGive: (give) => this.#truth.tried(spec.name, give),
      onNotGiven: (give) => this.#truth.notGiven(spec.name, give),
      onReset: (key) => this.forgot(spec.name, key),
      onDoubt: (request) => this.#truth.doubted(request),
      onLost: (request, reply) => this.#truth.unheard(request, reply),
    })
    this.#nodes.set(spec.name, node)
    this.note(`${spec.name} joins`)
  }

  private decided(decided: Decided): void {
    this.#truth.decided(decided)
    for (const { name, onDecided } of this.#invariants) this.found(name, onDecided?.(decided))
  }

  private refunded(refund: Refund): void {
    for (const { name, onRefund } of this.#invariants) this.found(name, onRefund?.(refund))
  }

  private forgot(node: string, key: CounterKey): void {
    const { nowUs } = this.#agenda
    for (const { name, onReset } of this.#invariants) this.found(name, onReset?.(node, key, nowUs))
  }

  private done(done: Done): void {
    const { request, storeUs } = done
    this.note(`the store does ${this.said(done)} for ${request.node}`, `at ${storeUs}`)
    this.#truth.done(done)
    for (const { name, onDone } of this.#invariants) this.found(name, onDone?.(done))
  }

  private strike(fault: Fault): void {
    this.note(`fault: ${JSON.stringify(fault)}`)
    if (fault.kind === 'store-pause') this.#server.pause(fault.forMs * 1000)
    else if (fault.kind === 'store-jump') {
      const stepUs = fault.byMs * 1000
      this.#server.jump(stepUs)
      const { nowUs } = this.#agenda
      this.#truth.upsets.push({ trueUs: nowUs, kind: fault.kind, stepUs, undone: new Map() })
    } else if (fault.kind === 'failover') this.failOver(fault.lagMs * 1000, fault.clockMs * 1000)
    else if (fault.kind === 'change') this.change(this.#book.after(fault), fault.spreadMs)
    else {
      const node = this.#nodes.get(fault.node)
      if (node?.isAlive === true) this.strikeNode(node, fault)
    }
  }

  private strikeNode(node: SimNode, fault: NodeFault): void {
    if (fault.kind === 'pause') node.pause(fault.forMs * 1000)
    else if (fault.kind === 'suspend') node.suspend(fault.forMs * 1000)
    else if (fault.kind === 'kill') {
      node.kill()
      this.#truth.dead.add(node.name)
    } else if (fault.kind === 'stop') node.deliver(() => this.stop(node))
    else if (fault.kind === 'reload') node.deliver(() => node.use(node.version))
    else if (fault.kind === 'reset') this.disconnect(node, fault.forMs * 1000)
    else if (fault.kind === 'cut') node.link.cut(fault.forMs * 1000)
    else if (fault.kind === 'stall') node.link.stall(fault.forMs * 1000)
    else node.jumpWall(fault.byMs * 1000)
  }

  private stop(node: SimNode): void {
    node.isClosing = true
    const isClosed = () => this.note(`${node.name} is closed`)
    node.limiter.close().then(isClosed, (error: unknown) => {
      this.found('every node closes', `${node.name}: ${String(error)}`)
    })
  }

  /** One node after the other, as each hears of it. */
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
    this.#truth.upsets.push({ trueUs: this.#agenda.nowUs, kind: 'failover', stepUs, undone })
    for (const node of this.#nodes.values()) {
      this.disconnect(node, this.#random.int(FAILOVER_US, 2 * FAILOVER_US))
    }
  }

  private disconnect(node: SimNode, forUs: number): void {
    node.link.reset(forUs)
    this.#agenda.after(forUs + 1, () => node.deliver(() => node.store.reconnected()))
  }

  private step(): void {
    for (const node of this.#nodes.values()) {
      if (node.isAlive) this.#truth.saw(node.name, node.store.fleet.size())
    }
    const { nowUs } = this.#agenda
    for (const { name, onStep } of this.#invariants) this.found(name, onStep?.(nowUs))
  }

  private end(): void {
    const nodes: NodeAtEnd[] = []
    for (const node of this.#nodes.values()) {
      if (!node.isAlive) continue
      const { stats } = node.limiter
      let held = 0
      let counters = 0
      for (const here of stats?.coordination.values() ?? []) {
        held += here.held
        // A closed limiter counts nothing any more, whatever it remembers.
        if (!node.isClosing) counters += here.counters
      }
      nodes.push({ name: node.name, held, counters, reportsWaiting: stats?.reportsWaiting ?? 0 })
    }
    for (const { name, atEnd } of this.#invariants) this.found(name, atEnd?.(nodes))
  }

  /** The first counts: what comes after may follow from it. */
  private found(invariant: string, message: string | undefined): void {
    if (message === undefined || this.#violation !== undefined) return
    const atMs = (this.#agenda.nowUs - this.#scenario.settings.startUs) / 1000
    this.#violation = { invariant, message, atMs }
    this.#log?.(`${atMs.toFixed(3)} VIOLATED: ${invariant}: ${message}`)
  }

  private said({ request: { asked }, reply }: Done): string {
    const of = (key: CounterKey) => this.#truth.counters.get(nameOf(key))?.label ?? 'nothing known'
    if (reply.late) return `nothing of a late ${asked.verb}`
    if (asked.verb === 'give') return `give ${asked.give.amount} of ${of(asked.give.key)}`
    if (asked.verb === 'reset') return `reset ${of(asked.key)}`
    if (asked.verb === 'charge') {
      const { amount, at, key } = asked.charge
      return `charge ${amount} at ${at} of ${of(key)}`
    }
    if (asked.verb !== 'take') return asked.verb
    const answers = reply.answers?.flat() ?? []
    const parts = asked.groups.flat().map(({ key, amount, atLeast }, i) => {
      const answer = answers[i]
      const granted = answer === undefined || typeof answer === 'string' ? '-' : answer.granted
      return `${granted}/${amount}${atLeast === undefined ? '' : ` from ${atLeast}`} of ${of(key)}`
    })
    return `take ${parts.join(', ')}`
  }

  private note(line: string, more = ''): void {
    const ms = (this.#agenda.nowUs - this.#scenario.settings.startUs) / 1000
    const text = `${ms.toFixed(3)} ${line}${more === '' ? '' : `: ${more}`}`
    for (let i = 0; i < text.length; i++) {
      this.#hash = Math.imul(this.#hash ^ text.charCodeAt(i), 0x01000193)
    }
    this.#log?.(text)
  }
}

type NodeFault = Extract<Fault, { readonly node: string }>

/** Whatever follows without waiting from what has happened, does. */
function settled(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}
