/** The callers: their calls on nodes, refunds and resets. */
import {
  type Call,
  type Decision,
  matchRules,
  planCall,
  type PlannedTake,
  readReceipt,
  sipKey,
} from '@sluice/core'
import { findLimit } from '@sluice/limiter/internal'
import type { Agenda } from './agenda.js'
import type { CallRecorder } from './call-recorder.js'
import type { PlaceCall } from './place-truth.js'
import { SECRET } from './rule-timeline.js'
import type { Arrival, CallSpec, ResetSpec } from './scenario.js'
import type { SimBlock } from './sim-block.js'
import { nameOf } from './sim-counter.js'
import type { SimNode } from './sim-node.js'
import type { SimReservations } from './sim-reservations.js'
import type { CallerReset, Refund, GroundTruth } from './ground-truth.js'

export interface SimCallersOptions {
  readonly agenda: Agenda
  readonly truth: GroundTruth
  readonly recorder: CallRecorder
  readonly reservations: SimReservations
  /** Runs on a node, later if it is paused, never if it is dead or shutting down. */
  readonly deliverTo: (name: string, run: (node: SimNode) => void) => void
  readonly log: (line: string, more?: string) => void
  readonly onRefund: (refund: Refund) => void
  /** A call that asked for places was decided. */
  readonly onPlaces: (call: PlaceCall) => void
  readonly onCallerReset: (reset: CallerReset) => void
  readonly onFailed: (what: string, message: string) => void
}

export class SimCallers {
  readonly #options: SimCallersOptions
  readonly #refunded = new Set<string>()

  constructor(options: SimCallersOptions) {
    this.#options = options
  }

  arrive(arrival: Arrival): void {
    const { reservations, deliverTo } = this.#options
    if (arrival.kind === 'call' && arrival.reserve !== undefined) {
      reservations.arrive(arrival, arrival.reserve)
      return
    }
    deliverTo(arrival.node, (node) => {
      if (arrival.kind === 'call') this.call(node, arrival)
      else this.reset(node, arrival)
    })
  }

  private call(node: SimNode, spec: CallSpec): void {
    const { recorder } = this.#options
    const { agenda, truth, onPlaces } = this.#options
    const { user, plan, cost, refund, gate = false, lastsMs } = spec
    const call = { attributes: plan === undefined ? { user } : { user, plan }, cost }
    const matched = matchRules(node.version.snapshot, call, 0)
    const planned = planCall(matched, call, { canWait: true, gate })
    const record = recorder.begin(node, user, planned, gate ? 'a gate' : `cost ${cost}`)
    const { groups, shadows } = planned
    const inFlight = lastsMs !== undefined
    const placed = truth.places.recordArrival(
      node.name,
      inFlight ? groups : [],
      shadows,
      agenda.nowUs,
    )
    const finish = (decision: Decision) => {
      truth.places.recordDecision(placed, decision, agenda.nowUs)
      recorder.decide(record, decision, node)
      onPlaces(placed)
      if (decision.release !== undefined) this.endLater(node, placed, decision.release, lastsMs)
      if (refund !== undefined && decision.receipt !== undefined)
        this.refundLater(decision.receipt, refund)
    }
    const failed = (error: unknown) => recorder.fail(record, error)
    try {
      const result = node.limiter.decide(call, { receipt: refund !== undefined, gate, inFlight })
      if (result instanceof Promise) result.then(finish, failed)
      else finish(result)
    } catch (error) {
      failed(error)
    }
  }

  /** A call ends with the process that serves it, or when that process says so. */
  private endLater(node: SimNode, call: PlaceCall, release: () => void, lastsMs = 0): void {
    const { agenda, truth } = this.#options
    agenda.after(lastsMs * 1000, () =>
      node.deliver(() => {
        truth.places.recordEnd(call, agenda.nowUs)
        release()
      }),
    )
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
    const { agenda, truth, log, onRefund, deliverTo } = this.#options
    deliverTo(name, (node) => {
      const entries = readReceipt(receipt, sipKey(SECRET))
      const units = entries.map(
        ({ rule, limitName, amount }) => `${amount} of ${rule} ${limitName}`,
      )
      log(`${name} refunds ${units.join(', ')}`)
      const isPaid = this.#refunded.has(receipt)
      this.#refunded.add(receipt)
      for (const entry of isPaid ? [] : entries) {
        const { key, amount, at } = entry
        // The store receives nothing about a split.
        const { coordination } = findLimit(node.version.snapshot, entry) ?? {}
        if (coordination !== 'split') truth.recordRefund(node.name, key, amount)
        onRefund({ node: node.name, key, amount, at, trueUs: agenda.nowUs })
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
