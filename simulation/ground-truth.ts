/**
 * Records what really happened, which no node can know: every decision and every operation of the
 * store, each at its true time. Invariants are checked against it.
 */
import {
  type CounterKey,
  isChargedOnRefusal,
  type Limit,
  passes,
  type PlannedTake,
  type Take,
} from '@sluice/core'
import type { Charge, Give } from '@sluice/limiter'
import { BlockTruth } from './block-truth.js'
import type { CallRecord, DecisionRecord } from './call-log.js'
import {
  type Counter,
  isBucket,
  isCallerWindow,
  addVariant,
  nameOf,
  newCounter,
  changeLimit,
} from './sim-counter.js'
import { PlaceTruth } from './place-truth.js'
import { isEndTake, ReservationTruth } from './reservation-truth.js'
import type { Reply, Request } from './requests.js'
import type { FaultKind, Scenario } from './scenario.js'
import type { SimBlock } from './sim-block.js'
import type { Execution, SimServer } from './sim-server.js'

/** The units that one node took from one counter, and their fate. All values only grow. */
export interface Account {
  readonly node: string
  readonly counter: Counter
  /** Taken from the store, whether or not the node received the answer. */
  granted: number
  /** Of these, units whose answer the node never received. */
  unacknowledged: number
  /** Of these, units that a bucket refilled before the lease ended. */
  regained: number
  /** Admitted to calls, except by posture. */
  spent: number
  /** Refunded with receipts of earlier decisions, on any node. */
  refunded: number
  /** Admitted by the rule's posture while the store did not answer. */
  byPosture: number
  /** Given back: possibly applied by the store, certainly applied, and certainly not applied. */
  givesTried: number
  givesDone: number
  givesFailed: number
  /** Charged to the store afterwards: applied, and applied without an answer in time. */
  charged: number
  doubtful: number
  /** Charged by limits that overdraw, to calls that were refused or without the store. */
  overdrawn: number
  /** Requested of such limits by calls that a node refused: what was taken for them stays taken. */
  refused: number
  /** Requested by calls. */
  offered: number
}

/** Units that a receipt refunds on a node, with the time at which they were taken. */
export interface Refund {
  readonly node: string
  readonly key: CounterKey
  readonly amount: number
  readonly at: number
  readonly trueUs: number
}

/** A reset of a caller on a node, and the blocks that it had to lift. */
export interface CallerReset {
  readonly node: string
  readonly blocks: readonly SimBlock[]
  readonly startedUs: number
}

/** An event that relaxes the bounds of the store. */
export interface StoreDisruption {
  readonly trueUs: number
  readonly kind: 'failover' | 'store-jump'
  /** How far the store's clock was stepped forward; negative for back. */
  readonly stepUs: number
  /** Units that it granted and lost, by the name of the counter. */
  readonly undone: ReadonlyMap<string, number>
}

export class GroundTruth {
  readonly scenario: Scenario
  readonly server: SimServer
  readonly counters = new Map<string, Counter>()
  readonly accounts = new Map<string, Account>()
  readonly blocks: BlockTruth
  readonly reservations = new ReservationTruth()
  readonly places: PlaceTruth
  readonly pendingCalls = new Map<number, CallRecord>()
  readonly disruptions: StoreDisruption[] = []
  /** Nodes that were killed, whose leases are lost. */
  readonly killedNodes = new Set<string>()
  /** The smallest number of live nodes that each node ever knew of. */
  readonly fewestNodes = new Map<string, number>()
  /** When each node last returned units to a counter, in true time. */
  readonly lastReturnUs = new Map<string, Map<string, number>>()
  /**
   * The limit by which a counter was last charged: a bucket may owe more than its rule's own limit.
   */
  readonly lastChargedLimit = new Map<string, Limit>()
  decisions = 0

  /** The longest round trip without a fault. */
  readonly reachMs: number
  /**
   * Whether the run has no faults: then units taken and units spent are equal in the end. A call
   * may have to wait for one draw, for the next, and then for the store itself.
   */
  readonly isCalm: boolean
  /** Whether the store may fail to answer a node at some time. */
  readonly mayBeSilent: boolean
  /** Whether the fleet is the same from beginning to end. */
  readonly isSteady: boolean
  readonly hasReservations: boolean

  constructor(scenario: Scenario, server: SimServer) {
    const { settings, faults, nodes, traffic } = scenario
    this.scenario = scenario
    this.server = server
    this.blocks = new BlockTruth(server)
    this.places = new PlaceTruth(server)
    this.reachMs = 2 * (settings.delayMs + JITTER_MAX * settings.jitterMs)
    // Loading rules is not a fault.
    const isWell = faults.every(({ kind }) => kind === 'reload' || kind === 'change')
    const isFast = TRIPS_MAX * this.reachMs <= settings.deadlineMs
    this.isCalm = isWell && isFast
    this.mayBeSilent = !isFast || faults.some(({ kind }) => SILENCING.has(kind))
    this.hasReservations = traffic.some((arrival) => 'reserve' in arrival)
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

  recordDisruption(disruption: StoreDisruption): void {
    this.disruptions.push(disruption)
    this.blocks.recordDisruption()
    this.places.recordDisruption()
  }

  recordArrival(call: CallRecord): void {
    this.pendingCalls.set(call.id, call)
    for (const { account, amount } of call.takes.flat()) account.offered += amount
  }

  recordDecision({ call, decision, spent }: DecisionRecord): void {
    this.decisions += 1
    this.pendingCalls.delete(call.id)
    for (const { account, compiled, amount } of decision.allowed ? [] : call.takes.flat()) {
      if (compiled.limit.onRefusal === 'overdraw') account.refused += amount
    }
    for (const { take, byPosture } of spent) {
      // Charges of a shadow rule while the store did not answer are not reported.
      if (byPosture || (take.account.counter.isShadow && !this.isCalm))
        take.account.byPosture += take.amount
      else take.account.spent += take.amount
    }
  }

  recordExecution(execution: Execution): void {
    const { request, trueUs, reply } = execution
    this.blocks.recordExecution(execution)
    this.reservations.recordExecution(execution)
    this.places.recordExecution(execution)
    const end = this.reservations.lastEnd
    if (end?.reservation !== undefined && end.isMarked) {
      this.places.recordReservationEnd(end.reservation.number)
    }
    if (reply.late) return
    const { operation, node } = request
    if (operation.verb === 'reset') {
      this.recordReturn(node, operation.key, trueUs)
      this.counters.get(nameOf(operation.key))?.resetsUs.push(trueUs)
    } else if (operation.verb === 'give') {
      this.recordTouch(node, operation.give, trueUs)
      this.recordGivenBack(node, operation.give, execution)
      const account = this.accountOf(node, operation.give.key)
      if (account !== undefined) account.givesDone += operation.give.amount
    } else if (operation.verb === 'charge') {
      this.lastChargedLimit.set(nameOf(operation.charge.key), operation.charge.limit)
      this.recordTouch(node, operation.charge, trueUs)
      const account = this.accountOf(node, operation.charge.key)
      const isOwed = operation.charge.limit.onRefusal === 'overdraw'
      if (account !== undefined) {
        account[isOwed ? 'overdrawn' : 'charged'] += operation.charge.amount
      }
      if (account !== undefined && isCallerWindow(operation.charge.limit)) {
        const units = operation.charge.limit.max
        account.counter.forgiven.push({ us: trueUs, units })
      }
    }
    for (const { take, granted } of this.reservations.lastEnd?.changes ?? []) {
      if (granted !== 0) this.recordTouch(node, take, trueUs)
      if (granted < 0) this.recordGivenBack(node, { ...take, amount: -granted }, execution)
    }
    for (const grant of grantsOf(request, reply)) {
      const account = this.accountOf(node, grant.take.key)
      if (account === undefined) continue
      this.recordTouch(node, grant.take, trueUs)
      if (grant.isOwed) {
        account.overdrawn += grant.granted
        continue
      }
      account.granted += grant.granted
      if (this.isRegained(node, grant)) account.regained += grant.granted
    }
  }

  /** Units counted by another limit may have refilled more than this limit would have allowed. */
  private recordTouch(
    node: string,
    { key, limit }: { readonly key: CounterKey; readonly limit: Limit },
    trueUs: number,
  ): void {
    const counter = this.counters.get(nameOf(key))
    if (counter === undefined || !changeLimit(counter, limit, trueUs)) return
    // The node itself ignores it.
    this.recordReturn(`${node} by another limit`, key, trueUs)
  }

  /** Units were returned to a counter, as of the time at which they had been taken. */
  private recordGivenBack(
    node: string,
    { key, amount, at }: Pick<Give, 'key' | 'amount' | 'at'>,
    { trueUs, storeUs }: Execution,
  ): void {
    this.recordReturn(node, key, trueUs)
    const takenUs = trueUs - Math.max(0, storeUs - (at ?? storeUs))
    this.counters.get(nameOf(key))?.returned.push({ takenUs, us: trueUs, units: amount })
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

  /**
   * A receipt is being refunded on a node: units taken from the store are no longer counted as
   * taken.
   */
  recordRefund(node: string, key: CounterKey, amount: number): void {
    const counter = this.counters.get(nameOf(key))
    if (counter !== undefined) this.accountFor(node, counter).refunded += amount
  }

  recordGiveAttempt(node: string, give: Give): void {
    const account = this.accountOf(node, give.key)
    if (account !== undefined) account.givesTried += give.amount
  }

  /** It was certainly not applied. Leases retry; units granted to a call are lost. */
  recordGiveFailure(node: string, give: Give): void {
    const account = this.accountOf(node, give.key)
    if (account === undefined) return
    account.givesTried -= give.amount
    account.givesFailed += give.amount
  }

  /** The node does not know whether it was applied. */
  recordDoubt({ node, operation }: Request): void {
    const account =
      operation.verb === 'charge' ? this.accountOf(node, operation.charge.key) : undefined
    if (account !== undefined && operation.verb === 'charge')
      account.doubtful += operation.charge.amount
  }

  /** The store applied it, and the node will never receive the answer. */
  recordLostReply(request: Request, reply: Reply): void {
    for (const { take, granted, isOwed } of grantsOf(request, reply)) {
      const account = isOwed ? undefined : this.accountOf(request.node, take.key)
      if (account !== undefined) account.unacknowledged += granted
    }
  }

  recordFleetSize(node: string, nodes: number): void {
    this.fewestNodes.set(node, Math.min(nodes, this.fewestNodes.get(node) ?? Infinity))
  }

  /** Units that calls on a node request from a counter, and may already have. */
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

  /** Whether the node slept at some time, which stops its monotonic clock. */
  wasSuspended(node: string): boolean {
    return this.hadFault(node, 'suspend')
  }

  /** Whether the node was paused at some time. */
  wasStopped(node: string): boolean {
    return this.wasSuspended(node) || this.hadFault(node, 'pause')
  }

  /** Whether the machine of a node had a fault of this kind. */
  hadFault(node: string, kind: FaultKind): boolean {
    return this.scenario.faults.some(
      (fault) => fault.kind === kind && 'node' in fault && fault.node === machineOf(node),
    )
  }

  /** Whether another node gave back to a counter within this time, or this node just now. */
  wasReturnedWithin(
    { name }: Pick<Counter, 'name'>,
    call: CallRecord,
    nowUs: number,
    withinUs: number,
  ): boolean {
    for (const [node, us] of this.lastReturnUs.get(name) ?? []) {
      const mostUs = node === call.node ? nowUs - call.startedUs + this.reachMs * 1000 : withinUs
      if (nowUs - us <= mostUs) return true
    }
    return false
  }

  /** Whether the store's clock or counters changed within this time without a request. */
  isDisrupted(nowUs: number, withinUs: number): boolean {
    return this.disruptions.some(({ trueUs }) => nowUs - trueUs <= withinUs)
  }
}

/** The node of the scenario that a process runs on: one that was restarted has another name. */
export function machineOf(node: string): string {
  return node.split('.')[0] ?? node
}

/** Faults during which the store may not answer in time. */
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
/** The interval at which expired leases are collected, plus a margin. */
const SWEEP_MS = 60

/** The largest latency of the network, as a multiple of its mean. */
export const JITTER_MAX = 4

export interface Grant {
  readonly take: Take
  readonly granted: number
  readonly at: number
  readonly resetAfterMs: number
  /** Whether the call was refused, and its limit charges that. */
  readonly isOwed: boolean
}

/** What the store took for calls in answer to a request. */
export function grantsOf({ operation }: Request, reply: Reply): readonly Grant[] {
  if (operation.verb !== 'take' || reply.late) return []
  return operation.groups.flatMap((takes, g) => {
    const row = reply.answers?.[g] ?? []
    const isRefused = !passes(row.flatMap((answer) => (typeof answer === 'string' ? [] : answer)))
    return takes.flatMap((take, i) => {
      const answer = row[i]
      if (answer === undefined || typeof answer === 'string' || answer.granted === 0) return []
      if (isEndTake(take)) return []
      const { granted, at, resetAfterMs } = answer
      const isOwed = isRefused && isChargedOnRefusal(take)
      return { take, granted, at, resetAfterMs, isOwed }
    })
  })
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
    overdrawn: 0,
    refused: 0,
    offered: 0,
  }
}
