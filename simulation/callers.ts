/** Those who call: their calls on nodes, what they give back of them, and resets. */
import { type Decision, matchRules, planCall, readReceipt, sipKey } from '@sluice/core'
import type { Agenda } from './agenda.js'
import { type Called, type Decided, spendings } from './called.js'
import { SECRET } from './rule-book.js'
import type { Arrival, CallSpec, ResetSpec } from './scenario.js'
import type { SimNode } from './sim-node.js'
import type { Refund, Truth } from './truth.js'

export interface CallersOptions {
  readonly agenda: Agenda
  readonly truth: Truth
  readonly nodeOf: (name: string) => SimNode | undefined
  readonly note: (line: string, more?: string) => void
  readonly onDecided: (decided: Decided) => void
  readonly onRefund: (refund: Refund) => void
  readonly onFailed: (what: string, message: string) => void
}

export class Callers {
  readonly #options: CallersOptions
  readonly #refunded = new Set<string>()
  #calls = 0
  #admitted = 0

  constructor(options: CallersOptions) {
    this.#options = options
  }

  get admitted(): number {
    return this.#admitted
  }

  arrive(arrival: Arrival): void {
    this.on(arrival.node, (node) => {
      if (arrival.kind === 'call') this.call(node, arrival)
      else this.reset(node, arrival)
    })
  }

  /** A node that is gone or shuts down gets nothing; one that is paused gets it when it goes on. */
  private on(name: string, run: (node: SimNode) => void): void {
    const node = this.#options.nodeOf(name)
    if (node?.isAlive === true) node.deliver(() => (node.isClosing ? undefined : run(node)))
  }

  private call(node: SimNode, spec: CallSpec): void {
    const { agenda, truth, note } = this.#options
    const { user, plan, cost, refund } = spec
    const call = { attributes: plan === undefined ? { user } : { user, plan }, cost }
    const { groups, shadows } = planCall(matchRules(node.version.snapshot, call, 0), call)
    const takes = groups.map((group, g) =>
      group.map((take) => ({
        account: truth.account(node.name, take, g > 0),
        of: take.of,
        amount: take.amount,
        shadow: shadows[g - 1],
      })),
    )
    const id = this.#calls++
    const startedUs = agenda.nowUs
    const startedStoreUs = truth.server.nowUs()
    const called = { id, node: node.name, user, startedUs, startedStoreUs, takes }
    note(`${node.name} gets call ${id} of ${user}`, `cost ${cost}`)
    truth.began(called)
    const told = (decision: Decision) => {
      this.decided(called, decision, node)
      if (refund !== undefined && decision.receipt !== undefined)
        this.refundLater(decision.receipt, refund)
    }
    const failed = (error: unknown) => this.failed(called, error)
    try {
      const result = node.limiter.decide(call, { receipt: refund !== undefined })
      if (result instanceof Promise) result.then(told, failed)
      else told(result)
    } catch (error) {
      failed(error)
    }
  }

  private decided(called: Called, decision: Decision, node: SimNode): void {
    const { agenda, truth, note, onDecided } = this.#options
    const storeUs = truth.server.nowUs()
    const spent = spendings(called, decision)
    const { allowed, source, reason, rule, limitName, remaining, postures = {} } = decision
    const why = `${source}, ${reason}, ${rule} ${limitName}, ${remaining} left`
    note(
      `${called.node} ${allowed ? 'admits' : 'refuses'} call ${called.id} of ${called.user}`,
      `${why} ${Object.entries(postures).join(' ')}`,
    )
    if (allowed) this.#admitted += 1
    onDecided({ called, decision, spent, trueUs: agenda.nowUs, storeUs, ...node.storeTime() })
  }

  private failed({ id, node }: Called, error: unknown): void {
    this.#options.onFailed('every call is decided', `call ${id} on ${node}: ${String(error)}`)
  }

  private refundLater(
    receipt: string,
    { afterMs, node, twice }: NonNullable<CallSpec['refund']>,
  ): void {
    const { agenda, truth } = this.#options
    agenda.after(afterMs * 1000, () => this.refund(receipt, node))
    // Where the store may be silent the first may not be paid, and the second is.
    if (!twice || !truth.isCalm) return
    agenda.after((afterMs + REFUNDED_AGAIN_MS) * 1000, () => this.refund(receipt, node))
  }

  private refund(receipt: string, name: string): void {
    const { agenda, truth, note, onRefund } = this.#options
    this.on(name, (node) => {
      const entries = readReceipt(receipt, sipKey(SECRET))
      const units = entries.map(
        ({ rule, limitName, amount }) => `${amount} of ${rule} ${limitName}`,
      )
      note(`${name} refunds ${units.join(', ')}`)
      const isPaid = this.#refunded.has(receipt)
      this.#refunded.add(receipt)
      for (const { rule, key, amount, at } of isPaid ? [] : entries) {
        // Of a split the store hears nothing.
        const { coordination } = node.version.snapshot.byId.get(rule)?.rule ?? {}
        if (coordination !== 'split') truth.refunding(name, key, amount)
        onRefund({ node: name, key, amount, at, trueUs: agenda.nowUs })
      }
      node.limiter.refund(receipt).catch((error: unknown) => this.silent('refund', error))
    })
  }

  private reset(node: SimNode, { user, rule }: ResetSpec): void {
    this.#options.note(`${node.name} resets ${rule ?? 'all'} of ${user}`)
    const call = { attributes: { user } }
    node.limiter.reset(call, { rule }).catch((error: unknown) => this.silent('reset', error))
  }

  /** Only a store that is silent is a reason. */
  private silent(verb: string, error: unknown): void {
    const { truth, onFailed } = this.#options
    if (truth.isCalm) onFailed(`every ${verb} is done`, String(error))
  }
}

/** After the first is certainly paid. */
const REFUNDED_AGAIN_MS = 200
