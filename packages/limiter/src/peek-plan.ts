/** Reads the counters of a plan: from the store if it answers, else as the fallback says. */
import type { Plan, Snapshot } from '@sluice/core'
import type { PlannedPeek, RemoteDecider } from './remote-decider.js'
import type { SecretWait } from './secret-wait.js'
import { emptyAnswer, isEmpty, storeAnswer } from './store-answer.js'
import type { PeekOptions, Store } from './store.js'

/** What the verbs of a limiter share. */
export interface VerbDeps {
  readonly store: Store
  readonly snapshot: () => Snapshot
  /** Undefined for a store in this process. */
  readonly decider: () => RemoteDecider | undefined
  /** Undefined if the key that names counters is known from the start. */
  readonly secretWait: () => SecretWait | undefined
}

/** `makePlan` is called again if the key that names counters becomes known meanwhile. */
export async function peekPlan<P extends Plan>(
  deps: VerbDeps,
  makePlan: (snapshot: Snapshot) => P,
  options?: PeekOptions,
): Promise<PlannedPeek & { readonly plan: P }> {
  const snapshot = deps.snapshot()
  const plan = makePlan(snapshot)
  const { groups } = plan
  const decider = deps.decider()
  if (isEmpty(groups)) {
    return { snapshot, plan, outcomes: emptyAnswer(groups), source: 'store', extras: {} }
  }
  if (decider === undefined) {
    const outcomes = await storeAnswer(deps.store.peek(groups, options), 'nothing was changed')
    return { snapshot, plan, outcomes, source: 'store', extras: {} }
  }
  const key = deps.secretWait()
  if (key === undefined || key.isKnown) {
    return { snapshot, plan, ...(await decider.peek(plan, options)) }
  }
  const isKnown = await key.isKnownWithin(decider.deadlineOf(plan))
  if (isKnown) return peekPlan(deps, makePlan, options)
  return { snapshot, plan, ...decider.peekWithoutStore(plan) }
}
