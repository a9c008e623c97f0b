/** Finds a Redis that answers but refuses what this node needs. */
import { show } from '@sluice/core'
import type { RemoteHealth } from '@sluice/limiter'
import { STORES_MAX } from '../../../counter-store/store-metrics.js'
import type { Finding } from '../alert.js'
import { type AffectedRules, NO_RULES } from './affected-rules.js'
import { ConsecutiveFindings } from './consecutive-findings.js'

/** A refusal for fewer ticks is no alert: an operator may be changing rights one by one. */
const CONSECUTIVE_MIN = 3
const REFUSAL_SHOWN_MAX = 200
/** Ten heartbeats, which are sent every half second. */
const FLEET_AGE_MS_MAX = 5000

/** Redis refuses the node altogether, or denies a right that decisions need. */
export class StoreRefusal {
  readonly #streaks = new ConsecutiveFindings(CONSECUTIVE_MIN)

  #stats: RemoteHealth | undefined
  /** Subjects refused for several ticks. */
  #lasting: ReadonlySet<string> = new Set()

  /** Called once a second; `stats` is undefined for the memory store. */
  evaluate(stats: RemoteHealth | undefined): readonly Finding[] {
    this.#stats = stats
    const found = stats === undefined ? [] : findRefusals(stats, NO_RULES)
    this.#lasting = new Set(this.#streaks.record(found).map(({ subject }) => subject))
    return this.findings()
  }

  /** Returns what refuses this node as of the last tick. */
  findings(affected: AffectedRules = NO_RULES): readonly Finding[] {
    if (this.#stats === undefined) return []
    const found = findRefusals(this.#stats, affected)
    return found.filter(({ subject }) => this.#lasting.has(subject))
  }
}

function findRefusals(
  { state, nodes }: RemoteHealth,
  { present, past, details }: AffectedRules,
): readonly Finding[] {
  if (state === 'refused') {
    const summary = `Redis refuses this node (see the log); ${present}.`
    return [{ subject: '', summary, past: `Redis refused this node; ${past}.`, details }]
  }
  return nodes.slice(0, STORES_MAX).flatMap(({ address, refusal }) => {
    if (refusal === undefined) return []
    const shown = show(refusal, REFUSAL_SHOWN_MAX)
    const summary = `Redis at ${address} refuses what this node needs: ${shown}`
    const pastSummary = `Redis at ${address} refused what this node needs: ${shown}`
    const refusalDetails = { store: address, refusal: shown, ...details }
    return [{ subject: address, summary, past: pastSummary, details: refusalDetails }]
  })
}

/** Redis answers, but heartbeats fail: the node would share limits by an old fleet size. */
export class FleetUnknown {
  #consecutive = 0

  evaluate(stats: RemoteHealth | undefined): readonly Finding[] {
    this.#consecutive = isUnknown(stats) ? this.#consecutive + 1 : 0
    if (stats === undefined || this.#consecutive < CONSECUTIVE_MIN) return []
    const { size } = stats.fleet
    const text = (know: string, share: string) =>
      `This node ${know} how many nodes there are: its heartbeats fail, though Redis answers. ` +
      `Without Redis it ${share} limits as 1 of ${size}.`
    return [
      {
        subject: '',
        summary: text('does not know', 'would share'),
        past: text('did not know', 'would have shared'),
        details: { fleetSize: size },
      },
    ]
  }
}

function isUnknown(stats: RemoteHealth | undefined): boolean {
  if (stats?.state !== 'ready' || stats.fleet.ageMs <= FLEET_AGE_MS_MAX) return false
  return stats.nodes.some(({ isAnswering }) => isAnswering)
}
