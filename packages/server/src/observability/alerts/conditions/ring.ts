/** Finds members of a ring that do not answer, or that know other members than this one. */
import type { RemoteHealth } from '@sluice/limiter'
import type { RingStats } from '@sluice/limiter/ring'
import type { Finding } from '../alert.js'
import { ConsecutiveFindings } from './consecutive-findings.js'

/** A member that restarts is silent for some seconds. */
const SILENT_TICKS_MIN = 10
/** DNS and the announcements of members need some seconds to reach all of them. */
const DIFFERING_MS_MIN = 30_000
const UNLISTED_TICKS_MIN = 30
/** More findings of one kind have one cause. */
const FINDINGS_MAX = 50

export class RingSilence {
  readonly #streaks = new ConsecutiveFindings(SILENT_TICKS_MIN)

  /** Called once a second; `remote` is undefined where there is no ring. */
  evaluate(remote: RemoteHealth | undefined): readonly Finding[] {
    const silent = remote?.nodes.filter(({ isAnswering }) => !isAnswering) ?? []
    return this.#streaks.record(
      silent.slice(0, FINDINGS_MAX).map(({ address }) => ({
        subject: address,
        summary: `Member ${address} of the ring does not answer; its deputies decide for its callers.`,
        past: `Member ${address} of the ring did not answer; its deputies decided for its callers.`,
        details: { member: address },
      })),
    )
  }
}

export class RingViews {
  readonly #unlisted = new ConsecutiveFindings(UNLISTED_TICKS_MIN)

  /** Called once a second; `ring` is undefined where there is none. */
  evaluate(ring: RingStats | undefined): readonly Finding[] {
    const isMissing = ring !== undefined && !ring.isListed
    const unlisted = this.#unlisted.record(isMissing ? [UNLISTED] : [])
    const differing = [...(ring?.differing ?? [])].filter(([, forMs]) => forMs >= DIFFERING_MS_MIN)
    const views = differing.slice(0, FINDINGS_MAX).map(([member, forMs]) => ({
      subject: member,
      summary: `Member ${member} of the ring knows other members than this node does.`,
      past: `Member ${member} of the ring knew other members than this node did.`,
      details: { member, forSeconds: Math.round(forMs / 1000) },
    }))
    return [...unlisted, ...views]
  }
}

const UNLISTED: Finding = {
  subject: '',
  summary: 'This node is not in the list of members of its ring, so it holds no counters.',
  past: 'This node was not in the list of members of its ring.',
  details: {},
}
