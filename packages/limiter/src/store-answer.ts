/** What a store answers to somebody who has to be told if it does not. */
import { SluiceError } from '@sluice/core'

/** Rejects with STORE_FAILED and what follows from it, or with the store's own error. */
export async function storeAnswer<Answer>(
  answer: Promise<Answer>,
  consequence: string,
): Promise<Answer> {
  try {
    return await answer
  } catch (cause) {
    if (cause instanceof SluiceError) throw cause
    throw new SluiceError('STORE_FAILED', `The store did not answer: ${consequence}`, { cause })
  }
}
