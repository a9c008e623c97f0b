/**
 * Decides calls by the fallback. A fallback that fails, hangs or returns something else leaves them
 * to the posture: it must not be the outage either.
 */
import type {
  DecisionLike,
  RemoteCall,
  RemoteCheckOptions,
  RemoteDecision,
} from './decision-types.js'
import { fallbackDecision } from './remote-decision.js'
import type { RemoteSettings } from './remote-options.js'
import type { QueueTimers } from './request-queue.js'

type FallbackDeps = Pick<RemoteSettings, 'fallback' | 'deadlineMs' | 'logger'> &
  Pick<QueueTimers, 'after'>

/** Receipts of the fallback begin with it; those of a server never do. */
const RECEIPT_MARK = 'fallback~'

export class FallbackDecider {
  readonly #deps: FallbackDeps
  #isFailing = false

  constructor(deps: FallbackDeps) {
    this.#deps = deps
  }

  /** With a receipt, which is marked as one of the fallback; undefined if it does not decide. */
  check(call: RemoteCall, options: RemoteCheckOptions): Promise<RemoteDecision | undefined> {
    return this.decide((fallback) => fallback.check(call, { ...options, receipt: true }))
  }

  /** Undefined if it does not decide. */
  peek(call: RemoteCall): Promise<RemoteDecision | undefined> {
    return this.decide((fallback) => fallback.peek?.(call))
  }

  /** Whether a receipt is one of the fallback. */
  isOwn(receipt: unknown): receipt is string {
    return typeof receipt === 'string' && receipt.startsWith(RECEIPT_MARK)
  }

  async refund(receipt: string): Promise<void> {
    await this.#deps.fallback?.refund?.(receipt.slice(RECEIPT_MARK.length))
  }

  /** Rejects only with what is wrong with the call. */
  private async decide(run: Run): Promise<RemoteDecision | undefined> {
    const { fallback, deadlineMs, after } = this.#deps
    if (fallback === undefined) return undefined
    return new Promise((resolve, reject) => {
      const fail = (why: string) => {
        this.onFailed(why)
        resolve(undefined)
      }
      const stop = after(deadlineMs, () => fail(`no decision within ${deadlineMs} ms`))
      decideBy(() => run(fallback))
        .finally(stop)
        .then(
          (decision) => {
            this.#isFailing = false
            resolve(decision)
          },
          (error: unknown) => {
            if (isOfCall(error)) reject(error)
            else fail(String(error))
          },
        )
    })
  }

  /** Logs the first of a series of failures. */
  private onFailed(why: string): void {
    if (this.#isFailing) return
    this.#isFailing = true
    try {
      this.#deps.logger?.error(
        `sluice: remote limiter: the fallback failed: ${why}; decided by posture open`,
      )
    } catch {}
  }
}

type Run = (fallback: NonNullable<RemoteSettings['fallback']>) => Promise<DecisionLike> | undefined

async function decideBy(
  run: () => Promise<DecisionLike> | undefined,
): Promise<RemoteDecision | undefined> {
  const running = run()
  if (running === undefined) return undefined
  const decided = await running
  const { receipt } = decided
  return fallbackDecision(decided, receipt === undefined ? undefined : RECEIPT_MARK + receipt)
}

/** The errors of Sluice have a status; those below 500 are mistakes of the caller. */
function isOfCall(error: unknown): error is Error {
  if (!(error instanceof Error && 'status' in error)) return false
  const { status } = error
  return typeof status === 'number' && status >= 400 && status < 500
}
