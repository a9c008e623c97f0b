/** Waits for an answer, but not for ever. */
import { UnavailableError } from '../rule-store/rule-store.js'
import type { Timers } from './timers.js'

/** Rejects with an `UnavailableError` if it takes longer; what is waited for goes on. */
export function withinMs<Answer>(
  answer: Promise<Answer>,
  ms: number,
  timers: Timers,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const cancel = timers.after(ms, () => {
      reject(new UnavailableError(`it did not answer within ${ms / 1000} s`))
    })
    answer.then(resolve, reject).finally(cancel)
  })
}
