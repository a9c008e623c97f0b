/** Helpers for answers of a store, and for missing answers. */
import { type Plan, SluiceError } from '@sluice/core'
import type { Answer, Groups } from './store.js'

/** Rejects with STORE_FAILED and the consequence, or with the store's own SluiceError. */
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

/**
 * Whether the store rejected because it was misused; other failures say nothing about what became
 * of the call.
 */
export function isMisuse(error: unknown): boolean {
  return error instanceof SluiceError && error.code !== 'STORE_FAILED'
}

/** Whether every group is empty, so that no store is needed. */
export function isEmpty(groups: Groups<unknown>): boolean {
  for (let g = 0; g < groups.length; g++) if (groups[g]?.length !== 0) return false
  return true
}

/** The answer to a call without takes: one empty group for each of its groups. */
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
