/** Records calls as they arrive on a node and are decided, for the ground truth and invariants. */
import { type Decision, isBlock, isConcurrency, type Plan, type PlannedTake } from '@sluice/core'
import type { Agenda } from './agenda.js'
import {
  type CallRecord,
  type DecisionRecord,
  type Spending,
  spendingsOf,
  type TakeRecord,
} from './call-log.js'
import type { GroundTruth } from './ground-truth.js'
import type { SimNode } from './sim-node.js'

export interface CallRecorderOptions {
  readonly agenda: Agenda
  readonly truth: GroundTruth
  readonly log: (line: string, more?: string) => void
  readonly onDecision: (decided: DecisionRecord) => void
  readonly onFailed: (what: string, message: string) => void
}

export class CallRecorder {
  readonly #options: CallRecorderOptions
  #calls = 0
  #admitted = 0

  constructor(options: CallRecorderOptions) {
    this.#options = options
  }

  get admitted(): number {
    return this.#admitted
  }

  begin(
    node: SimNode,
    user: string,
    { groups, shadows }: Pick<Plan, 'groups' | 'shadows'>,
    what: string,
  ): CallRecord {
    const { agenda, truth, log } = this.#options
    const id = this.#calls++
    const takes = groups.map((group, g) => this.recordsOf(group, node.name, shadows[g - 1]))
    const startedUs = agenda.nowUs
    const startedStoreUs = truth.server.nowUs()
    const record = { id, node: node.name, user, startedUs, startedStoreUs, takes }
    log(`${node.name} gets call ${id} of ${user}`, what)
    truth.recordArrival(record)
    return record
  }

  /** `spent` is what it admitted, which follows from the decision unless it was made before. */
  decide(
    record: CallRecord,
    decision: Decision,
    node: SimNode,
    spent: readonly Spending[] = spendingsOf(record, decision),
  ): DecisionRecord {
    const { agenda, truth, log, onDecision } = this.#options
    const storeUs = truth.server.nowUs()
    const { allowed, source, reason, rule, limitName, remaining, postures = {} } = decision
    const why = `${source}, ${reason}, ${rule} ${limitName}, ${remaining} left`
    log(
      `${record.node} ${allowed ? 'admits' : 'refuses'} call ${record.id} of ${record.user}`,
      `${why} ${Object.entries(postures).join(' ')}`,
    )
    if (allowed) this.#admitted += 1
    const decided = {
      call: record,
      decision,
      spent,
      trueUs: agenda.nowUs,
      storeUs,
      ...node.storeTime(),
    }
    onDecision(decided)
    return decided
  }

  fail({ id, node }: CallRecord, error: unknown): void {
    this.#options.onFailed('every call is decided', `call ${id} on ${node}: ${String(error)}`)
  }

  private recordsOf(
    group: readonly PlannedTake[],
    node: string,
    shadow: string | undefined,
  ): readonly TakeRecord[] {
    const { truth } = this.#options
    return group.flatMap((take, i) => {
      // Places are no units: the ground truth has them apart.
      if (isBlock(take.limit) || isConcurrency(take.limit)) return []
      const account = truth.account(node, take, shadow !== undefined)
      const { compiled, amount, gate: isGate = false } = take
      const next = group[i + 1]
      const isBlocking = next !== undefined && isBlock(next.limit)
      const block = isBlocking ? truth.blocks.block(next, account.counter) : undefined
      return { account, compiled, amount, isGate, block, shadow }
    })
  }
}
