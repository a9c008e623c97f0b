/** Waits for an answer, but not for ever. */
import { UnavailableError } from '../store/rule-store.js'
import type { Scheduler } from '../../lib/scheduler.js'

/** Rejects with an `UnavailableError` if it takes longer; what is waited for goes on. */
export function withTimeout<Answer>(
  promise: Promise<Answer>,
  ms: number,
  scheduler: Scheduler,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const cancel = scheduler.after(ms, () => {
      reject(new UnavailableError(`it did not answer within ${ms / 1000} s`))
    })
    promise.then(resolve, reject).finally(cancel)
  })
}
