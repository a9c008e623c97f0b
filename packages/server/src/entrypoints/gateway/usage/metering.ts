/** Meters the calls of upstreams with `usage`: what they reserve, and what they are charged. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Limiter } from '@sluice/limiter'
import { type Scheduler, systemScheduler } from '@sluice/limiter/internal'
import type { Upstream, UsageConfig } from '../../../config/config.js'
import type {
  UpstreamUsageMetrics,
  UsageMetrics,
} from '../../../observability/metrics/usage-metrics.js'
import { Settlements } from './settlements.js'
import { TokenEstimates } from './token-estimates.js'

/** Shutdown reserves a little more for closing. */
const CLOSE_MS_MAX = 250

/** What all calls of one upstream share. */
export interface MeteredUpstream {
  readonly config: UsageConfig
  readonly estimates: TokenEstimates
  readonly limiter: Pick<Limiter, 'costLimits'>
  readonly metrics: UpstreamUsageMetrics
  readonly settlements: Settlements
  /** Called with what went wrong beside a call, which goes on. */
  readonly onError: (error: unknown) => void
}

export interface MeteringDeps {
  readonly upstreams: readonly Upstream[]
  readonly limiter: Pick<Limiter, 'costLimits'>
  readonly metrics: UsageMetrics
  readonly onError: (error: unknown) => void
  /** @default timers of the system */
  readonly scheduler?: Scheduler | undefined
}

export class Metering {
  readonly #byUpstream = new Map<Upstream, MeteredUpstream>()
  readonly #settlements: Settlements

  constructor({ upstreams, limiter, metrics, onError, scheduler = systemScheduler }: MeteringDeps) {
    const settlements = new Settlements({ scheduler, onError })
    this.#settlements = settlements
    for (const upstream of upstreams) {
      const { usage: config, origin, prefix } = upstream
      if (config === undefined) continue
      const estimates = new TokenEstimates(config)
      const own = metrics.open({ upstream: origin, prefix }, (kind) => estimates.ratioOf(kind))
      this.#byUpstream.set(upstream, {
        config,
        estimates,
        limiter,
        metrics: own,
        settlements,
        onError,
      })
    }
  }

  /** Undefined: the upstream has no usage. */
  find(upstream: Upstream): MeteredUpstream | undefined {
    return this.#byUpstream.get(upstream)
  }

  /** Waits for the settlements that were begun, but not for a store that does not answer. */
  async close(): Promise<void> {
    await Promise.race([this.#settlements.idle(), sleep(CLOSE_MS_MAX, undefined, { ref: false })])
  }
}
