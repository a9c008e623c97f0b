/** One give, charge or reset that waits for its answer. */
import { SluiceError } from '@sluice/core'
import type { Silence } from '../../store.js'
import type { Expirable } from './deadlines.js'
import type { PartitionOp, OpAnswer, OpOwner } from './partition-op.js'

export class CommandRequest implements OpOwner, Expirable {
  readonly deadlineAtMs: number
  readonly #verb: string
  readonly #resolve: () => void
  readonly #reject: (error: Error) => void
  isAnswered = false
  op: PartitionOp | undefined

  constructor(
    verb: string,
    deadlineAtMs: number,
    resolve: () => void,
    reject: (error: Error) => void,
  ) {
    this.#verb = verb
    this.deadlineAtMs = deadlineAtMs
    this.#resolve = resolve
    this.#reject = reject
  }

  settle(_op: PartitionOp, answer: OpAnswer): void {
    if (this.isAnswered) return
    this.isAnswered = true
    if (typeof answer === 'string') this.#reject(notDone(this.#verb, answer))
    else this.#resolve()
  }

  opsPerCounter(op: PartitionOp): readonly PartitionOp[] {
    return [op]
  }

  expire(): void {
    if (this.isAnswered) return
    this.op?.expire()
    if (this.isAnswered) return
    // It was sent, so it may still run, without this process learning of it.
    this.isAnswered = true
    this.#reject(notDone(this.#verb, 'unknown'))
  }
}

/** `silence` decides whether the caller may retry: what may have run must not run twice. */
function notDone(verb: string, silence: Silence): SluiceError & { readonly silence: Silence } {
  const what = silence === 'not-run' ? 'was not done' : 'may or may not have been done'
  const error = new SluiceError('STORE_FAILED', `The store did not answer: the ${verb} ${what}`)
  return Object.assign(error, { silence })
}
