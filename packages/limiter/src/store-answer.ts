/** What a store answers, and what it means if it does not. */
import { type Plan, SluiceError } from '@sluice/core'
import type { Answer, Groups } from './store.js'

/** Rejects with STORE_FAILED and what follows from it, or with the store's own error. */
export async function storeAnswer<Value>(
  answer: Promise<Value>,
  consequence: string,
): Promise<Value> {
  try {
    return await answer
  } catch (cause) {
    if (cause instanceof SluiceError) throw cause
    throw new SluiceError('STORE_FAILED', `The store did not answer: ${consequence}`, { cause })
  }
}

/** A store that is misused says so; one that fails says nothing of what became of a call. */
export function isMisuse(error: unknown): boolean {
  return error instanceof SluiceError && error.code !== 'STORE_FAILED'
}

/** Whether there is nothing to ask a store: every group is empty. */
export function isEmpty(groups: Groups<unknown>): boolean {
  for (let g = 0; g < groups.length; g++) if (groups[g]?.length !== 0) return false
  return true
}

/** The answer to a question without takes: as many empty groups as were asked about. */
export function emptyAnswer(groups: Groups<unknown>): Groups<never> {
  return groups.map(() => [])
}

/** Whether every take has an outcome. */
export function isWhole(
  plan: Plan,
  answers: Groups<Answer>,
): answers is Groups<Exclude<Answer, string>> {
  const { groups } = plan
  for (let g = 0; g < groups.length; g++) {
    const answer = answers[g]
    const takes = groups[g]
    if (answer === undefined || takes === undefined) return false
    for (let i = 0; i < takes.length; i++) if (typeof answer[i] !== 'object') return false
  }
  return true
}
