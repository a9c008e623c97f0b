/** A Redis that answers and does not do for this node what it must. */
import { show } from '@sluice/core'
import type { RemoteHealth } from '@sluice/limiter'
import type { Finding } from '../alert.js'
import { type AffectedRules, NO_RULES } from './affected-rules.js'
import { ConsecutiveFindings } from './consecutive-findings.js'

/** A refusal that is gone within so many looks is no news: rights are changed one by one. */
const CONSECUTIVE_MIN = 3
const REFUSAL_SHOWN_MAX = 200
/** A Cluster has at most about a thousand primaries. */
const STORES_MAX = 1000
/** Heartbeats come every half second; so many of them are lost before it matters. */
const FLEET_AGE_MS_MAX = 5000

/** Refuses this node altogether, or lacks it a right that decisions need. */
export class StoreRefusal {
  readonly #streaks = new ConsecutiveFindings(CONSECUTIVE_MIN)

  #stats: RemoteHealth | undefined
  /** Refused for several looks. */
  #lasting: ReadonlySet<string> = new Set()

  /** Looks at the nodes, once a second; undefined: counters are in this process. */
  evaluate(stats: RemoteHealth | undefined): readonly Finding[] {
    this.#stats = stats
    const found = stats === undefined ? [] : findRefusals(stats, NO_RULES)
    this.#lasting = new Set(this.#streaks.record(found).map(({ subject }) => subject))
    return this.findings()
  }

  /** What refuses this node as of the last look. */
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
    const summary = `Redis refuses this node, the log says why; ${present}.`
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

/** Redis answers, but this node does not get its heartbeats through: it shares by an old number. */
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
