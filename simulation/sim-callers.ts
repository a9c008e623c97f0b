/** The callers: their calls on nodes, refunds and resets. */
import {
  type Call,
  type Decision,
  isBlock,
  matchRules,
  planCall,
  type PlannedTake,
  readReceipt,
  sipKey,
} from '@sluice/core'
import type { Agenda } from './agenda.js'
import { type CallRecord, type DecisionRecord, spendingsOf, type TakeRecord } from './call-log.js'
import { SECRET } from './rule-timeline.js'
import type { Arrival, CallSpec, ResetSpec } from './scenario.js'
import type { SimBlock } from './sim-block.js'
import { nameOf } from './sim-counter.js'
import type { SimNode } from './sim-node.js'
import type { CallerReset, Refund, GroundTruth } from './ground-truth.js'

export interface SimCallersOptions {
  readonly agenda: Agenda
  readonly truth: GroundTruth
  readonly nodeOf: (name: string) => SimNode | undefined
  readonly log: (line: string, more?: string) => void
  readonly onDecision: (decided: DecisionRecord) => void
  readonly onRefund: (refund: Refund) => void
  readonly onCallerReset: (reset: CallerReset) => void
  readonly onFailed: (what: string, message: string) => void
}

export class SimCallers {
  readonly #options: SimCallersOptions
  readonly #refunded = new Set<string>()
  #calls = 0
  #admitted = 0

  constructor(options: SimCallersOptions) {
    this.#options = options
  }

  get admitted(): number {
    return this.#admitted
  }

  arrive(arrival: Arrival): void {
    this.deliverTo(arrival.node, (node) => {
      if (arrival.kind === 'call') this.call(node, arrival)
      else this.reset(node, arrival)
    })
  }

  /** A node that is dead or shutting down gets nothing; a paused one gets it when it resumes. */
  private deliverTo(name: string, run: (node: SimNode) => void): void {
    const node = this.#options.nodeOf(name)
    if (node?.isAlive === true) node.deliver(() => (node.isClosing ? undefined : run(node)))
  }

  private call(node: SimNode, spec: CallSpec): void {
    const { agenda, truth, log } = this.#options
    const { user, plan, cost, refund } = spec
    const call = { attributes: plan === undefined ? { user } : { user, plan }, cost }
    const { groups, shadows } = planCall(matchRules(node.version.snapshot, call, 0), call)
    const takes = groups.map((group, g) => this.recordsOf(group, node.name, shadows[g - 1]))
    const id = this.#calls++
    const startedUs = agenda.nowUs
    const startedStoreUs = truth.server.nowUs()
    const record = { id, node: node.name, user, startedUs, startedStoreUs, takes }
    log(`${node.name} gets call ${id} of ${user}`, `cost ${cost}`)
    truth.recordArrival(record)
    const finish = (decision: Decision) => {
      this.recordDecision(record, decision, node)
      if (refund !== undefined && decision.receipt !== undefined)
        this.refundLater(decision.receipt, refund)
    }
    const failed = (error: unknown) => this.reportFailure(record, error)
    try {
      const result = node.limiter.decide(call, { receipt: refund !== undefined })
      if (result instanceof Promise) result.then(finish, failed)
      else finish(result)
    } catch (error) {
      failed(error)
    }
  }

  private recordsOf(
    group: readonly PlannedTake[],
    node: string,
    shadow: string | undefined,
  ): readonly TakeRecord[] {
    const { truth } = this.#options
    return group.flatMap((take, i) => {
      if (isBlock(take.limit)) return []
      const account = truth.account(node, take, shadow !== undefined)
      const { compiled, amount } = take
      const next = group[i + 1]
      const isBlocking = next !== undefined && isBlock(next.limit)
      const block = isBlocking ? truth.blocks.block(next, account.counter) : undefined
      return { account, compiled, amount, block, shadow }
    })
  }

  private recordDecision(record: CallRecord, decision: Decision, node: SimNode): void {
    const { agenda, truth, log, onDecision } = this.#options
    const storeUs = truth.server.nowUs()
    const spent = spendingsOf(record, decision)
    const { allowed, source, reason, rule, limitName, remaining, postures = {} } = decision
    const why = `${source}, ${reason}, ${rule} ${limitName}, ${remaining} left`
    log(
      `${record.node} ${allowed ? 'admits' : 'refuses'} call ${record.id} of ${record.user}`,
      `${why} ${Object.entries(postures).join(' ')}`,
    )
    if (allowed) this.#admitted += 1
    onDecision({
      call: record,
      decision,
      spent,
      trueUs: agenda.nowUs,
      storeUs,
      ...node.storeTime(),
    })
  }

  private reportFailure({ id, node }: CallRecord, error: unknown): void {
    this.#options.onFailed('every call is decided', `call ${id} on ${node}: ${String(error)}`)
  }

  private refundLater(
    receipt: string,
    { afterMs, node, twice }: NonNullable<CallSpec['refund']>,
  ): void {
    const { agenda, truth } = this.#options
    agenda.after(afterMs * 1000, () => this.refund(receipt, node))
    // If the store may not answer, the first may fail and the second succeed.
    if (!twice || !truth.isCalm) return
    agenda.after((afterMs + REFUNDED_AGAIN_MS) * 1000, () => this.refund(receipt, node))
  }

  private refund(receipt: string, name: string): void {
    const { agenda, truth, log, onRefund } = this.#options
    this.deliverTo(name, (node) => {
      const entries = readReceipt(receipt, sipKey(SECRET))
      const units = entries.map(
        ({ rule, limitName, amount }) => `${amount} of ${rule} ${limitName}`,
      )
      log(`${name} refunds ${units.join(', ')}`)
      const isPaid = this.#refunded.has(receipt)
      this.#refunded.add(receipt)
      for (const { rule, key, amount, at } of isPaid ? [] : entries) {
        // The store receives nothing about a split.
        const { coordination } = node.version.snapshot.byId.get(rule)?.rule ?? {}
        if (coordination !== 'split') truth.recordRefund(name, key, amount)
        onRefund({ node: name, key, amount, at, trueUs: agenda.nowUs })
      }
      node.limiter
        .refund(receipt)
        .catch((error: unknown) => this.reportUnlessSilent('refund', error))
    })
  }

  private reset(node: SimNode, { user, rule }: ResetSpec): void {
    const { agenda, log, onCallerReset } = this.#options
    log(`${node.name} resets ${rule ?? 'all'} of ${user}`)
    const call = { attributes: { user } }
    const blocks = this.blocksOf(node, call, rule)
    const startedUs = agenda.nowUs
    node.limiter.reset(call, { rule }).then(
      () => onCallerReset({ node: node.name, blocks, startedUs }),
      (error: unknown) => this.reportUnlessSilent('reset', error),
    )
  }

  /** The blocks that a reset lifts, as far as they were ever met. */
  private blocksOf(node: SimNode, call: Call, rule: string | undefined): readonly SimBlock[] {
    const { groups } = planCall(matchRules(node.version.snapshot, call, 0), call)
    const isReset = ({ compiled }: PlannedTake) => {
      const { by = [] } = node.version.snapshot.byId.get(compiled.rule)?.rule ?? {}
      return rule === undefined ? by.length > 0 : rule === compiled.rule
    }
    return groups
      .flat()
      .filter(isReset)
      .flatMap(({ key }) => this.#options.truth.blocks.get(nameOf(key)) ?? [])
  }

  /** Only an unreachable store is a valid reason. */
  private reportUnlessSilent(verb: string, error: unknown): void {
    const { truth, onFailed } = this.#options
    if (truth.isCalm) onFailed(`every ${verb} is done`, String(error))
  }
}

/** After the first has certainly been refunded. */
const REFUNDED_AGAIN_MS = 200
