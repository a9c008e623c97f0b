/**
 * What really happened, as nobody in the fleet can know it: every decision, and everything that the
 * store did, each at its true time. Invariants are checked against this.
 */
import type { CounterKey, Limit, PlannedTake, Take } from '@sluice/core'
import type { Charge, Give } from '@sluice/limiter'
import type { CallRecord, DecisionRecord } from './call-log.js'
import {
  type Counter,
  isBucket,
  addVariant,
  nameOf,
  newCounter,
  changeLimit,
} from './sim-counter.js'
import type { Reply, Request } from './requests.js'
import type { FaultKind, Scenario } from './scenario.js'
import type { Execution, SimServer } from './sim-server.js'

/** What one node took of one counter, and what became of it. Units; all only grow. */
export interface Account {
  readonly node: string
  readonly counter: Counter
  /** Taken from the store, whether the node heard of it or not. */
  granted: number
  /** Of these, what the node never heard of. */
  unacknowledged: number
  /** Of these, what a bucket has regained by itself before the lease is over. */
  regained: number
  /** Admitted to calls otherwise than by posture. */
  spent: number
  /** Given back by receipts of earlier decisions, here or elsewhere. */
  refunded: number
  /** Admitted by the rule's posture, while the store was silent. */
  byPosture: number
  /** Given back: perhaps done by the store, certainly done, and certainly not done when tried. */
  givesTried: number
  givesDone: number
  givesFailed: number
  /** Charged to the store afterwards: done by it, and of which the node heard nothing in time. */
  charged: number
  doubtful: number
  /** Asked for by calls. */
  offered: number
}

/** Units that a receipt returns on a node, to the time they were taken at. */
export interface Refund {
  readonly node: string
  readonly key: CounterKey
  readonly amount: number
  readonly at: number
  readonly trueUs: number
}

/** Something that the bounds of the store allow for. */
export interface StoreDisruption {
  readonly trueUs: number
  readonly kind: 'failover' | 'store-jump'
  /** How far the store's clock was set forward; back where it is less than 0. */
  readonly stepUs: number
  /** What it granted and forgot, by the name of the counter. */
  readonly undone: ReadonlyMap<string, number>
}

export class GroundTruth {
  readonly scenario: Scenario
  readonly server: SimServer
  readonly counters = new Map<string, Counter>()
  readonly accounts = new Map<string, Account>()
  readonly pendingCalls = new Map<number, CallRecord>()
  readonly disruptions: StoreDisruption[] = []
  /** Nodes that were killed: what they held is gone. */
  readonly killedNodes = new Set<string>()
  /** The fewest live nodes that each node ever believed in. */
  readonly fewestNodes = new Map<string, number>()
  /** When each node last returned something to a counter, in true time. */
  readonly lastReturnUs = new Map<string, Map<string, number>>()
  /** The limit by which a counter was last charged: a bucket may owe more than its rule's own. */
  readonly lastChargedLimit = new Map<string, Limit>()
  decisions = 0

  /** The longest that a question and its answer are under way where nothing goes wrong. */
  readonly reachMs: number
  /**
   * Whether nothing goes wrong: then what is taken and what is spent are equal in the end. A call
   * may have to wait for the end of one draw, for the next, and then for the store itself.
   */
  readonly isCalm: boolean
  /** Whether the store may be silent to a node at some time. */
  readonly mayBeSilent: boolean
  /** Whether the fleet is the same from beginning to end. */
  readonly isSteady: boolean

  constructor(scenario: Scenario, server: SimServer) {
    const { settings, faults, nodes } = scenario
    this.scenario = scenario
    this.server = server
    this.reachMs = 2 * (settings.delayMs + JITTER_MAX * settings.jitterMs)
    // To load rules is nothing that goes wrong.
    const isWell = faults.every(({ kind }) => kind === 'reload' || kind === 'change')
    const isFast = TRIPS_MAX * this.reachMs <= settings.deadlineMs
    this.isCalm = isWell && isFast
    this.mayBeSilent = !isFast || faults.some(({ kind }) => SILENCING.has(kind))
    this.isSteady = this.isCalm && nodes.every(({ joinsMs }) => joinsMs === 0)
  }

  hasFault(kind: string): boolean {
    return this.scenario.faults.some((fault) => fault.kind === kind)
  }

  account(node: string, take: PlannedTake, isShadow: boolean): Account {
    const { key, compiled } = take
    const name = nameOf(key)
    let counter = this.counters.get(name)
    if (counter === undefined) {
      counter = newCounter(key, compiled, isShadow)
      this.counters.set(name, counter)
    }
    addVariant(counter, compiled)
    return this.accountFor(node, counter)
  }

  accountFor(node: string, counter: Counter): Account {
    const id = `${node} ${counter.name}`
    const known = this.accounts.get(id)
    if (known !== undefined) return known
    const account = emptyAccount(node, counter)
    this.accounts.set(id, account)
    return account
  }

  accountOf(node: string, key: CounterKey): Account | undefined {
    return this.accounts.get(`${node} ${nameOf(key)}`)
  }

  recordArrival(call: CallRecord): void {
    this.pendingCalls.set(call.id, call)
    for (const { account, amount } of call.takes.flat()) account.offered += amount
  }

  recordDecision({ call, spent }: DecisionRecord): void {
    this.decisions += 1
    this.pendingCalls.delete(call.id)
    for (const { take, byPosture } of spent) {
      // What a shadow rule was charged while the store was silent is told nobody.
      if (byPosture || (take.account.counter.isShadow && !this.isCalm))
        take.account.byPosture += take.amount
      else take.account.spent += take.amount
    }
  }

  recordExecution(execution: Execution): void {
    const { request, trueUs, storeUs, reply } = execution
    if (reply.late) return
    const { operation, node } = request
    if (operation.verb === 'reset') {
      this.recordReturn(node, operation.key, trueUs)
      this.counters.get(nameOf(operation.key))?.resetsUs.push(trueUs)
    } else if (operation.verb === 'give') {
      this.recordReturn(node, operation.give.key, trueUs)
      this.recordTouch(node, operation.give, trueUs)
      const account = this.accountOf(node, operation.give.key)
      if (account !== undefined) {
        const { amount, at = storeUs } = operation.give
        account.givesDone += amount
        const takenUs = trueUs - Math.max(0, storeUs - at)
        account.counter.returned.push({ takenUs, us: trueUs, units: amount })
      }
    } else if (operation.verb === 'charge') {
      this.lastChargedLimit.set(nameOf(operation.charge.key), operation.charge.limit)
      this.recordTouch(node, operation.charge, trueUs)
      const account = this.accountOf(node, operation.charge.key)
      if (account !== undefined) account.charged += operation.charge.amount
    }
    for (const grant of grantsOf(request, reply)) {
      const account = this.accountOf(node, grant.take.key)
      if (account === undefined) continue
      this.recordTouch(node, grant.take, trueUs)
      account.granted += grant.granted
      if (this.isRegained(node, grant)) account.regained += grant.granted
    }
  }

  /** What was counted by another limit may have regained more than this one would have given. */
  private recordTouch(
    node: string,
    { key, limit }: { readonly key: CounterKey; readonly limit: Limit },
    trueUs: number,
  ): void {
    const counter = this.counters.get(nameOf(key))
    if (counter === undefined || !changeLimit(counter, limit, trueUs)) return
    // The node itself takes no notice of it.
    this.recordReturn(`${node} by another limit`, key, trueUs)
  }

  private recordReturn(node: string, key: CounterKey, trueUs: number): void {
    const gave = this.lastReturnUs.get(nameOf(key)) ?? new Map<string, number>()
    this.lastReturnUs.set(nameOf(key), gave.set(node, trueUs))
  }

  /** Whether the bucket may be full again before the node has given back what it did not spend. */
  private isRegained(node: string, { take, resetAfterMs }: Grant): boolean {
    const { windowMs } = take.limit
    if (!isBucket(take.limit)) return false
    const lateMs = SWEEP_MS + this.scenario.settings.deadlineMs
    return this.wasStopped(node) || resetAfterMs <= Math.min(windowMs / 4, LEASE_MS_MAX) + lateMs
  }

  /** A receipt is being paid out on a node: what the store has taken is taken no more. */
  recordRefund(node: string, key: CounterKey, amount: number): void {
    const counter = this.counters.get(nameOf(key))
    if (counter !== undefined) this.accountFor(node, counter).refunded += amount
  }

  recordGiveAttempt(node: string, give: Give): void {
    const account = this.accountOf(node, give.key)
    if (account !== undefined) account.givesTried += give.amount
  }

  /** It certainly was not done. Leases try it again; what a call was granted is lost. */
  recordGiveFailure(node: string, give: Give): void {
    const account = this.accountOf(node, give.key)
    if (account === undefined) return
    account.givesTried -= give.amount
    account.givesFailed += give.amount
  }

  /** The node does not know whether it was done. */
  recordDoubt({ node, operation }: Request): void {
    const account =
      operation.verb === 'charge' ? this.accountOf(node, operation.charge.key) : undefined
    if (account !== undefined && operation.verb === 'charge')
      account.doubtful += operation.charge.amount
  }

  /** The store did it, and the node will never hear of it. */
  recordLostReply(request: Request, reply: Reply): void {
    for (const { take, granted } of grantsOf(request, reply)) {
      const account = this.accountOf(request.node, take.key)
      if (account !== undefined) account.unacknowledged += granted
    }
  }

  recordFleetSize(node: string, nodes: number): void {
    this.fewestNodes.set(node, Math.min(nodes, this.fewestNodes.get(node) ?? Infinity))
  }

  /** Units that calls on a node want of a counter, and that may be theirs already. */
  pendingUnits(node: string, counter: Counter): number {
    let units = 0
    for (const call of this.pendingCalls.values()) {
      if (call.node !== node) continue
      for (const { account, amount } of call.takes.flat()) {
        if (account.counter === counter) units += amount
      }
    }
    return units
  }

  /** Whether the node slept at some time: its clock that never steps then stood still. */
  wasSuspended(node: string): boolean {
    return this.scenario.faults.some((fault) => fault.kind === 'suspend' && fault.node === node)
  }

  /** Whether the node was stopped at some time. */
  wasStopped(node: string): boolean {
    const { faults } = this.scenario
    return (
      this.wasSuspended(node) || faults.some((each) => each.kind === 'pause' && each.node === node)
    )
  }

  /** Whether another node gave back to a counter within so long, or this one just now. */
  wasReturnedWithin({ name }: Counter, call: CallRecord, nowUs: number, withinUs: number): boolean {
    for (const [node, us] of this.lastReturnUs.get(name) ?? []) {
      const mostUs = node === call.node ? nowUs - call.startedUs + this.reachMs * 1000 : withinUs
      if (nowUs - us <= mostUs) return true
    }
    return false
  }

  /** Whether the store's clock or counters changed by themselves within so long. */
  isDisrupted(nowUs: number, withinUs: number): boolean {
    return this.disruptions.some(({ trueUs }) => nowUs - trueUs <= withinUs)
  }
}

/** In these the store may not answer in time. */
const SILENCING: ReadonlySet<FaultKind> = new Set([
  'pause',
  'suspend',
  'reset',
  'cut',
  'stall',
  'store-pause',
  'failover',
  'store-jump',
])
const TRIPS_MAX = 3
const LEASE_MS_MAX = 2000
/** Leases that are over are looked for so often, and a little more. */
const SWEEP_MS = 60

/** The network is never slower than so many times its mean. */
export const JITTER_MAX = 4

export interface Grant {
  readonly take: Take
  readonly granted: number
  readonly at: number
  readonly resetAfterMs: number
}

/** What the store took in answer to a request. */
export function grantsOf({ operation }: Request, reply: Reply): readonly Grant[] {
  if (operation.verb !== 'take' || reply.late) return []
  return operation.groups.flatMap((takes, g) =>
    takes.flatMap((take, i) => {
      const answer = reply.answers?.[g]?.[i]
      if (answer === undefined || typeof answer === 'string' || answer.granted === 0) return []
      const { granted, at, resetAfterMs } = answer
      return { take, granted, at, resetAfterMs }
    }),
  )
}

export function chargeOf({ operation }: Request): Charge | undefined {
  return operation.verb === 'charge' ? operation.charge : undefined
}

function emptyAccount(node: string, counter: Counter): Account {
  return {
    node,
    counter,
    granted: 0,
    unacknowledged: 0,
    regained: 0,
    spent: 0,
    refunded: 0,
    byPosture: 0,
    givesTried: 0,
    givesDone: 0,
    givesFailed: 0,
    charged: 0,
    doubtful: 0,
    offered: 0,
  }
}
