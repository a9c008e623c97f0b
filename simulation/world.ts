/**
 * One run of one scenario: real limiters over a simulated network and store, in virtual time. The
 * same scenario is the same run, event for event.
 */
import { compileRules, matchRules, parseRules, planCall, sipKey, type Snapshot } from '@sluice/core'
import { Agenda } from './agenda.js'
import { allInvariants } from './invariants/index.js'
import type { Invariant, NodeAtEnd } from './invariants/invariant.js'
import { Random } from './random.js'
import type { Arrival, Fault, NodeSpec, Scenario } from './scenario.js'
import { type Done, Server } from './server.js'
import { SimNode } from './sim-node.js'
import { type Called, type Decided, spendings, Truth } from './truth.js'

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

export type Log = (line: string) => void

const SECRET = Uint8Array.from({ length: 16 }, (_, i) => i)
/** After a failover a node finds its new primary after so long, and up to as much again. */
const FAILOVER_US = 50_000
/** What goes on by itself after the traffic ends is over by then: leases, idleness, deny cache. */
const REST_US = 4_000_000

export async function runScenario(scenario: Scenario, log?: Log): Promise<Run> {
  return new World(scenario, log).run()
}

class World {
  readonly #scenario: Scenario
  readonly #agenda: Agenda
  readonly #random: Random
  readonly #server: Server
  readonly #truth: Truth
  readonly #snapshot: Snapshot
  readonly #nodes = new Map<string, SimNode>()
  readonly #invariants: readonly Invariant[]
  readonly #log: Log | undefined
  #violation: Violation | undefined
  #calls = 0
  #admitted = 0
  #hash = 0x811c9dc5

  constructor(scenario: Scenario, log: Log | undefined) {
    const { settings, seed, rules } = scenario
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
    this.#snapshot = compile(rules)
    this.#invariants = allInvariants.map((make) => make(this.#truth))
  }

  async run(): Promise<Run> {
    const { nodes, traffic, faults, settings } = this.#scenario
    for (const spec of nodes) this.at(spec.joinsMs, () => this.join(spec))
    for (const arrival of traffic) this.at(arrival.atMs, () => this.arrive(arrival))
    for (const fault of faults) this.at(fault.atMs, () => this.strike(fault))
    const endUs = settings.startUs + settings.lengthMs * 1000 + REST_US + this.memoryUs()
    while (this.#violation === undefined && this.#agenda.step(endUs)) {
      await settled()
      this.step()
    }
    if (this.#violation === undefined) this.end()
    return {
      violation: this.#violation,
      decisions: this.#truth.decisions,
      admitted: this.#admitted,
      hash: (this.#hash >>> 0).toString(16).padStart(8, '0'),
    }
  }

  private at(ms: number, run: () => void): void {
    this.#agenda.at(this.#scenario.settings.startUs + Math.round(ms * 1000), run)
  }

  /** How long the longest limit remembers anything. */
  private memoryUs(): number {
    let longest = 0
    for (const { limits } of this.#snapshot.rules) {
      for (const { limit } of limits) {
        const refillUs = limit.max === 0 ? 0 : (limit.capacity * limit.windowUs) / limit.max
        longest = Math.max(longest, 2 * limit.windowUs, 2 * refillUs)
      }
    }
    return longest
  }

  private join(spec: NodeSpec): void {
    const { settings, rules, nodes } = this.#scenario
    const node = new SimNode({
      spec,
      settings,
      rules,
      secret: SECRET,
      agenda: this.#agenda,
      server: this.#server,
      random: new Random(this.#random.int(1, 2 ** 31)),
      fleetSize: nodes.length,
      onGive: (give) => this.#truth.tried(spec.name, give),
      onDoubt: (request) => this.#truth.doubted(request),
      onLost: (request, reply) => this.#truth.unheard(request, reply),
    })
    this.#nodes.set(spec.name, node)
    this.note(`${spec.name} joins`)
  }

  /** A node that is gone or shuts down gets no call; one that is paused gets it when it goes on. */
  private arrive(arrival: Arrival): void {
    const node = this.#nodes.get(arrival.node)
    if (node?.isAlive !== true) return
    node.deliver(() => (node.isClosing ? undefined : this.call(node, arrival)))
  }

  private call(node: SimNode, { user, cost }: Arrival): void {
    const call = { attributes: { user }, cost }
    const plan = planCall(matchRules(this.#snapshot, call, 0), call)
    const takes = plan.groups.map((group, g) =>
      group.map((take) => ({
        account: this.#truth.account(node.name, take, g > 0),
        amount: take.amount,
        rule: take.of.rule,
      })),
    )
    const id = this.#calls++
    const startedMs = node.nowMs()
    const called = { id, node: node.name, user, startedUs: this.#agenda.nowUs, startedMs, takes }
    this.note(`${node.name} gets call ${id} of ${user}`, `cost ${cost}`)
    this.#truth.began(called)
    try {
      const result = node.limiter.decide(call)
      const told = (decision: Decided['decision']) => this.decided(called, decision)
      if (!(result instanceof Promise)) told(result)
      else result.then(told, (error: unknown) => this.failed(called, error))
    } catch (error) {
      this.failed(called, error)
    }
  }

  private decided(called: Called, decision: Decided['decision']): void {
    const storeUs = this.#server.nowUs()
    const time = this.#nodes.get(called.node)?.storeTime() ?? { nodeUs: 0, uncertaintyUs: 0 }
    const spent = spendings(called, decision)
    const decided = { called, decision, spent, trueUs: this.#agenda.nowUs, storeUs, ...time }
    const { allowed, source, reason, rule, limitName, remaining, postures = {} } = decision
    const why = `${source}, ${reason}, ${rule} ${limitName}, ${remaining} left`
    this.note(
      `${called.node} ${allowed ? 'admits' : 'refuses'} call ${called.id} of ${called.user}`,
      `${why} ${Object.entries(postures).join(' ')}`,
    )
    if (allowed) this.#admitted += 1
    this.#truth.decided(decided)
    for (const { name, onDecided } of this.#invariants) this.found(name, onDecided?.(decided))
  }

  private failed(called: Called, error: unknown): void {
    this.found('every call is decided', `call ${called.id} on ${called.node}: ${String(error)}`)
  }

  private done(done: Done): void {
    const { request, storeUs } = done
    this.note(`the store does ${said(done)} for ${request.node}`, `at ${storeUs}`)
    this.#truth.done(done)
    for (const { name, onDone } of this.#invariants) this.found(name, onDone?.(done))
  }

  private strike(fault: Fault): void {
    this.note(`fault: ${JSON.stringify(fault)}`)
    if (fault.kind === 'store-pause') this.#server.pause(fault.forMs * 1000)
    else if (fault.kind === 'store-jump') {
      this.#server.jump(fault.byMs * 1000)
      this.#truth.upsets.push({ trueUs: this.#agenda.nowUs, kind: fault.kind })
    } else if (fault.kind === 'failover') this.failOver(fault.lagMs * 1000, fault.clockMs * 1000)
    else {
      const node = this.#nodes.get(fault.node)
      if (node?.isAlive === true) this.strikeNode(node, fault)
    }
  }

  private strikeNode(node: SimNode, fault: Exclude<Fault, StoreFault>): void {
    if (fault.kind === 'pause') node.pause(fault.forMs * 1000)
    else if (fault.kind === 'suspend') node.suspend(fault.forMs * 1000)
    else if (fault.kind === 'kill') {
      node.kill()
      this.#truth.dead.add(node.name)
    } else if (fault.kind === 'stop') node.deliver(() => this.stop(node))
    else if (fault.kind === 'reload') node.deliver(() => this.reload(node))
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

  private reload(node: SimNode): void {
    if (!node.isClosing) node.limiter.setRules([...this.#scenario.rules])
  }

  private failOver(lagUs: number, clockUs: number): void {
    this.#server.failOver(lagUs, clockUs)
    this.#truth.upsets.push({ trueUs: this.#agenda.nowUs, kind: 'failover' })
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

  private note(line: string, more = ''): void {
    const ms = (this.#agenda.nowUs - this.#scenario.settings.startUs) / 1000
    const text = `${ms.toFixed(3)} ${line}${more === '' ? '' : `: ${more}`}`
    for (let i = 0; i < text.length; i++) {
      this.#hash = Math.imul(this.#hash ^ text.charCodeAt(i), 0x01000193)
    }
    this.#log?.(text)
  }
}

type StoreFault = Extract<Fault, { readonly kind: 'store-pause' | 'store-jump' | 'failover' }>

/** Whatever follows without waiting from what has happened, does. */
function settled(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}

function compile(input: Scenario['rules']): Snapshot {
  const { rules, errors } = parseRules([...input], { file: undefined, reuse: false })
  if (rules === undefined) throw new Error(errors.map(({ message }) => message).join('\n'))
  return compileRules(rules, { secret: sipKey(SECRET), ipv6Prefix: 64 })
}

function said({ request: { asked }, reply }: Done): string {
  if (reply.late) return `nothing of a late ${asked.verb}`
  if (asked.verb === 'give') return `give ${asked.give.amount}`
  if (asked.verb === 'charge') return `charge ${asked.charge.amount} at ${asked.charge.at}`
  if (asked.verb !== 'take') return asked.verb
  const takes = asked.groups.flat()
  const answers = reply.answers?.flat() ?? []
  const parts = takes.map(({ amount, atLeast }, i) => {
    const answer = answers[i]
    const granted = answer === undefined || typeof answer === 'string' ? '-' : answer.granted
    return `${granted}/${amount}${atLeast === undefined ? '' : ` from ${atLeast}`}`
  })
  return `take ${parts.join(', ')}`
}
