/** Decides calls that their entry point has planned, as the limiter has it. */
import type { Call, CounterKey, Decision, Plan, Snapshot } from '@sluice/core'
import type { DecideOptions } from '../pending-decision.js'
import type { VerbDeps } from '../peek-plan.js'
import type { RemoteDecider } from '../remote-decider.js'
import type { Settled } from '../reservation/reservation-verbs.js'
import { isEmpty } from '../store-answer.js'
import type { CallPlanner, CallPlanOptions, PlannedCalls, PlannedOptions } from './planned-calls.js'

export interface PlannedVerbDeps extends VerbDeps {
  /** Plans a call; only the first time it may be shed. */
  readonly plan: (call: Call, options: CallPlanOptions, isFirst: boolean) => Plan | Settled
  /** Throws if the limiter is closed. Limits that are not rules need no rules. */
  readonly requireUsable: () => void
}

class Planner implements CallPlanner {
  readonly #deps: PlannedVerbDeps
  readonly #isFirst: boolean

  constructor(deps: PlannedVerbDeps, isFirst: boolean) {
    this.#deps = deps
    this.#isFirst = isFirst
  }

  get snapshot(): Snapshot {
    return this.#deps.snapshot()
  }

  plan(call: Call, options: CallPlanOptions): Plan | Settled {
    return this.#deps.plan(call, options, this.#isFirst)
  }
}

/** A class, not an object literal, because it lives while a call waits: see sip-hash.ts. */
class PlannedDecideOptions implements DecideOptions {
  readonly purpose: PlannedCalls
  readonly deadlineMs: number | undefined
  readonly capMs: number | undefined

  constructor(purpose: PlannedCalls, { deadlineMs, capMs }: PlannedOptions) {
    this.purpose = purpose
    this.deadlineMs = deadlineMs
    this.capMs = capMs
  }
}

export class PlannedVerb {
  readonly #deps: PlannedVerbDeps
  readonly #first: CallPlanner
  readonly #again: CallPlanner
  #needs: { readonly of: Snapshot['needs']; readonly own: Snapshot['needs'] } | undefined

  constructor(deps: PlannedVerbDeps) {
    this.#deps = deps
    this.#first = new Planner(deps, true)
    this.#again = new Planner(deps, false)
  }

  decide(calls: PlannedCalls, options: PlannedOptions): Decision | Promise<Decision> {
    const { store, decider: deciderOf, secretWait } = this.#deps
    this.#deps.requireUsable()
    const plan = calls.plan(this.#first)
    const { sync } = store
    const decider = deciderOf()
    if (sync !== undefined || decider === undefined) {
      return calls.compose(plan, sync?.take(plan.groups) ?? [], 'store', undefined)
    }
    const decideOptions = new PlannedDecideOptions(calls, options)
    const key = secretWait()
    const isNamed = key === undefined || key.isKnown || isEmpty(plan.groups)
    if (isNamed) return this.decideRemotely(decider, plan, decideOptions, 0)
    const sinceMs = decider.nowMs()
    return key.isKnownWithin(decider.deadlineOf(plan, decideOptions)).then((isKnown) => {
      if (!isKnown) return decider.decideWithoutStore(plan, decideOptions)
      const waitedMs = decider.nowMs() - sinceMs
      return this.decideRemotely(decider, calls.plan(this.#again), decideOptions, waitedMs)
    })
  }

  private decideRemotely(
    decider: RemoteDecider,
    plan: Plan,
    options: DecideOptions,
    waitedMs: number,
  ): Decision | Promise<Decision> {
    const returned = returnedKeys(plan)
    if (returned === undefined) return decider.decide(plan, this.needs(), options, waitedMs)
    // What this node, and the others, remember of counters that units return to is outdated.
    for (const key of returned) decider.invalidate(key)
    const decided = decider.decide(plan, this.needs(), options, waitedMs)
    return Promise.resolve(decided).finally(() => {
      for (const key of returned) decider.invalidateEverywhere(key)
    })
  }

  /** The needs of the rules, and a deadline: planned calls have one of their own. */
  private needs(): Snapshot['needs'] {
    const { needs } = this.#deps.snapshot()
    if (this.#needs?.of !== needs) this.#needs = { of: needs, own: { ...needs, deadline: true } }
    return this.#needs.own
  }
}

/** The counters to which a plan gives back; undefined if there is none, as in most. */
function returnedKeys({ groups }: Plan): CounterKey[] | undefined {
  let keys: CounterKey[] | undefined
  for (let g = 0; g < groups.length; g++) {
    const takes = groups[g]
    if (takes === undefined) continue
    for (let i = 0; i < takes.length; i++) {
      const take = takes[i]
      if (take === undefined || take.amount >= 0) continue
      if (keys === undefined) keys = [take.key]
      else keys.push(take.key)
    }
  }
  return keys
}
