/** Errors for frameworks, for which some values mean that there is none. */
import { show } from '@sluice/core'

/** Returns what was thrown, or an error about it if a framework could take it for none. */
export function asError(thrown: unknown): object {
  if (typeof thrown === 'object' && thrown !== null) return thrown
  return new Error(`a function of the middleware threw ${show(thrown)}`, { cause: thrown })
}
