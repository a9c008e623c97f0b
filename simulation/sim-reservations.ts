/** The clients that reserve: they extend, settle, cancel and abandon, on any node. */
import {
  candidateId,
  matchRules,
  planCall,
  type PlannedTake,
  SluiceError,
  type Snapshot,
} from '@sluice/core'
import type { Reservation, Settlement } from '@sluice/limiter'
import { findLimit } from '@sluice/limiter/internal'
import type { Agenda } from './agenda.js'
import { type CallRecord, spendingsOf } from './call-log.js'
import type { CallRecorder } from './call-recorder.js'
import type { GroundTruth } from './ground-truth.js'
import {
  changesOf,
  endOf,
  type EndRequest,
  isExtendable,
  type KnownHandle,
  type ReserveRecord,
  type SettlementRecord,
  type SimReservation,
} from './reservation-truth.js'
import type { CallSpec, Costs, ReserveSpec, ReserveStep } from './scenario.js'
import { nameOf } from './sim-counter.js'
import type { SimNode } from './sim-node.js'

export interface SimReservationsOptions {
  readonly agenda: Agenda
  readonly truth: GroundTruth
  readonly recorder: CallRecorder
  readonly deliverTo: (name: string, run: (node: SimNode) => void) => void
  readonly log: (line: string, more?: string) => void
  readonly onReserve: (record: ReserveRecord) => void
  readonly onSettlement: (record: SettlementRecord) => void
  readonly onFailed: (what: string, message: string) => void
}

/** A client whose settle was not answered sends it again, this often and after this time. */
const RETRIES_MAX = 2
const RETRY_US = 60_000
/** By then a node has put back what it counted of an extension that came too late. */
const PUT_BACK_US = 1_000_000

export class SimReservations {
  readonly #options: SimReservationsOptions
  #reserved = 0
  #ended = 0

  constructor(options: SimReservationsOptions) {
    this.#options = options
  }

  /** How many were made and ended, as clients know. */
  get counts(): { readonly reserved: number; readonly ended: number } {
    return { reserved: this.#reserved, ended: this.#ended }
  }

  arrive(spec: CallSpec, reserve: ReserveSpec): void {
    const { agenda, truth } = this.#options
    const { repeats = [] } = reserve
    const reservation = truth.reservations.add(spec.user, repeats.length > 0)
    this.reserve(reservation, spec, reserve, spec.node)
    for (const { afterMs, node } of repeats) {
      agenda.after(afterMs * 1000, () => this.reserve(reservation, spec, reserve, node))
    }
  }

  private reserve(
    reservation: SimReservation,
    { user, plan, cost }: CallSpec,
    { costs, ttlMs, steps }: ReserveSpec,
    name: string,
  ): void {
    const { truth, recorder, deliverTo } = this.#options
    deliverTo(name, (node) => {
      const call = { attributes: { user, ...(plan !== undefined && { plan }), ...costs }, cost }
      const matched = matchRules(node.version.snapshot, call, 0)
      const planned = planCall(matched, call, { canWait: true, reserves: true })
      const what = `reserves ${JSON.stringify(costs)} as ${reservation.number}`
      const record = recorder.begin(node, user, planned, what)
      truth.places.recordReserve(planned.groups, planned.shadows)
      truth.reservations.recordAttempt(reservation, matched, planned.groups)
      const { idempotencyKey } = reservation
      node.limiter.reserve(call, { ttl: ttlMs, idempotencyKey }).then(
        (held) => {
          const isFirst = reservation.handles.length === 0
          const known = this.recordReserve(reservation, record, node, held, undefined)
          if (known !== undefined && isFirst) this.schedule(reservation, steps)
        },
        (error: unknown) => recorder.fail(record, error),
      )
    })
  }

  private recordReserve(
    reservation: SimReservation,
    call: CallRecord,
    node: SimNode,
    held: Reservation,
    before: KnownHandle | undefined,
  ): KnownHandle | undefined {
    const { truth, recorder, onReserve } = this.#options
    const { reservations } = truth
    const isKnown = held.allowed && held.postures === undefined && before === undefined
    const isRepeated = isKnown && reservations.isRepeat(reservation, call)
    const spent = isRepeated ? [] : spendingsOf(call, held)
    const decided = recorder.decide(call, held, node, spent)
    const known = reservations.recordHandle(reservation, decided, held, before)
    if (!held.allowed && before === undefined) reservation.refused.push(call)
    if (known !== undefined && !isRepeated && before === undefined) {
      this.#reserved += 1
      const { handle } = known
      if (!handle.isByPosture) {
        truth.places.recordReservation(reservation.number, node.name, handle)
      }
    }
    onReserve({ reservation, decided, known, before, isRepeated })
    return known
  }

  private schedule(reservation: SimReservation, steps: readonly ReserveStep[]): void {
    const { agenda, deliverTo } = this.#options
    for (const step of steps) {
      agenda.after(step.afterMs * 1000, () =>
        deliverTo(step.node, (node) => {
          const { handles } = reservation
          const known = step.isOutdated ? handles[0] : handles.at(-1)
          if (known === undefined) return
          if (step.verb === 'extend') this.extend(reservation, step, known, node)
          else this.end(reservation, step, known, node, 0)
        }),
      )
    }
  }

  private extend(
    reservation: SimReservation,
    step: ReserveStep,
    known: KnownHandle,
    node: SimNode,
  ): void {
    const { agenda, recorder, truth } = this.#options
    const { handle, held } = known
    if (handle.isByPosture || !isExtendable(known, step)) return
    const planned = planExtension(known, step.costs, node.version.snapshot)
    const what = `extends ${reservation.number} by ${JSON.stringify(step.costs)}`
    const record = recorder.begin(node, reservation.user, planned, what)
    const extended = isOwn(known, node)
      ? held.extend(step.costs)
      : node.limiter.extend(known.text, step.costs)
    extended.then(
      (next) => void this.recordReserve(reservation, record, node, next, known),
      (error: unknown) => {
        const isOver =
          node.storeTime().nodeUs > handle.expiresAt || endOf(reservation) !== undefined
        const isExpected = codeOf(error) === 'RESERVATION_ENDED' && isOver
        if (!isExpected && truth.disruptions.length === 0) recorder.fail(record, error)
        agenda.after(PUT_BACK_US, () => truth.pendingCalls.delete(record.id))
      },
    )
  }

  private end(
    reservation: SimReservation,
    step: ReserveStep,
    known: KnownHandle,
    node: SimNode,
    tries: number,
  ): void {
    const { agenda, truth, log, deliverTo, onFailed } = this.#options
    const costs = step.verb === 'cancel' ? undefined : step.costs
    const changes = changesOf(known.handle, costs, node.version.snapshot)
    const verb = step.verb === 'cancel' ? 'cancel' : 'settle'
    const isClockKnown = Number.isFinite(node.storeTime().uncertaintyUs)
    const request: EndRequest = { node: node.name, verb, known, changes, isClockKnown }
    reservation.requests.push(request)
    log(`${node.name} ${verb}s reservation ${reservation.number}`, JSON.stringify(costs ?? {}))
    send(known, costs, node).then(
      (settlement) => this.recordSettlement(reservation, request, settlement),
      (error: unknown) => {
        log(`${node.name} could not ${verb} reservation ${reservation.number}`)
        const isSilent = codeOf(error) === 'STORE_FAILED' && !truth.isCalm
        if (!isSilent) onFailed('every reservation can be ended', String(error))
        if (!isSilent || tries === RETRIES_MAX) return
        const retry = (again: SimNode) => this.end(reservation, step, known, again, tries + 1)
        agenda.after(RETRY_US, () => deliverTo(step.node, retry))
      },
    )
  }

  private recordSettlement(
    reservation: SimReservation,
    request: EndRequest,
    settlement: Settlement,
  ): void {
    const { truth, log, onSettlement } = this.#options
    const { reason, charged, givenBack, owed } = settlement
    const what = `${charged} charged, ${givenBack} given back, ${owed} owed`
    log(`${request.node} answers ${reason} for reservation ${reservation.number}`, what)
    if (settlement.settled) this.#ended += 1
    onSettlement({ reservation, request, settlement, storeUs: truth.server.nowUs() })
  }
}

function send(known: KnownHandle, costs: Costs | undefined, node: SimNode): Promise<Settlement> {
  const { held, text } = known
  if (isOwn(known, node)) return costs === undefined ? held.cancel() : held.settle(costs)
  return costs === undefined ? node.limiter.cancel(text) : node.limiter.settle(text, costs)
}

/** Whether this process made the handle, and has it in memory. */
function isOwn({ decided }: KnownHandle, { name }: SimNode): boolean {
  return decided.call.node === name
}

/** The takes of an extension: one for each counter whose cost it names. */
function planExtension({ handle }: KnownHandle, costs: Costs, snapshot: Snapshot) {
  const enforced: PlannedTake[] = []
  const shadowed: PlannedTake[][] = []
  const shadows: string[] = []
  const names = new Set<string>()
  for (const entry of handle.entries) {
    const { key, rule, cost, isShadow, candidate } = entry
    const amount = cost === undefined ? 0 : (costs[cost] ?? 0)
    const compiled = findLimit(snapshot, entry)
    if (amount === 0 || compiled === undefined || names.has(nameOf(key))) continue
    names.add(nameOf(key))
    const take = { key, limit: compiled.limit, amount, compiled }
    if (!isShadow) enforced.push(take)
    else {
      shadowed.push([take])
      shadows.push(candidate ? candidateId(rule) : rule)
    }
  }
  return { groups: [enforced, ...shadowed], shadows }
}

function codeOf(error: unknown): string | undefined {
  return error instanceof SluiceError ? error.code : undefined
}
