/** The settings of the rate limit service. */
import type { AlgorithmName, Posture, StandardHeaders } from '@sluice/core'

/**
 * How the descriptors of a configured domain are counted. `all-or-nothing`: those without an amount
 * of their own are charged if all of them have room. `reference`: every descriptor counts first and
 * is compared then, as envoyproxy/ratelimit does, with its figures to the unit.
 */
export type Counting = 'all-or-nothing' | 'reference'

export interface DomainOptions {
  /** @default 'all-or-nothing' */
  readonly counting?: Counting | undefined
  /** Whether a descriptor that matches no limit is refused. @default false */
  readonly requireMatch?: boolean | undefined
  /**
   * Of all limits of the domain; `reference` counts by fixed windows only. @default fixed-window
   */
  readonly algorithm?: AlgorithmName | undefined
  /** What its limits do when the store does not answer. @default { local: 1 } */
  readonly posture?: Posture | undefined
}

/** The headers that Envoy adds to responses. */
export type ResponseHeaders =
  | {
      readonly kind: 'sluice'
      /** The fields of the IETF draft. */
      readonly standard: StandardHeaders
      /** Whether `X-RateLimit-*` are sent. */
      readonly legacy: boolean
    }
  /** Those of envoyproxy/ratelimit, under these names; a refusal then has no body of its own. */
  | {
      readonly kind: 'reference'
      readonly limit: string
      readonly remaining: string
      readonly reset: string
    }
  /** None but those of a refusal. */
  | { readonly kind: 'refusals' }
  /** None, and no body: the proxy alone words a refusal. */
  | { readonly kind: 'none' }

interface RefusalSettings {
  readonly postureStatus: 429 | 503
  readonly shedStatus: 429 | 503
  readonly jitter: boolean
}

export interface RateLimitServiceOptions {
  readonly domains: ReadonlyMap<string, DomainOptions>
  /** Of domains that are not listed. */
  readonly defaults?: DomainOptions | undefined
  /**
   * How long a request waits for the store if its client does not say how long it waits: 15 ms fit
   * Envoy, which gives up after 20 ms unless it is told otherwise.
   */
  readonly deadlineMs: number
  /** The deadline of the store: no request waits longer, however patient its client is. */
  readonly storeDeadlineMs: number
  readonly headers: ResponseHeaders
  readonly refusals: RefusalSettings
  /** Whether no request is refused; statuses still say what would have been. @default false */
  readonly isShadow?: boolean | undefined
  /** Whether all descriptors are alternatives, as if each limit had `quota_mode`. @default false */
  readonly isQuota?: boolean | undefined
  /** The share of a limit above which metrics call it near. @default 0.8 */
  readonly nearLimitRatio?: number | undefined
  /** Whether answers carry the request and the metadata of its limits. @default false */
  readonly sendsMetadata?: boolean | undefined
}

/** What a client that says how long it waits needs for the way back. */
const WAY_BACK_MS = 5
/** How long after its deadline a request is answered at the latest. */
export const CAP_MS = 3

/** How long one request waits for the store: whole milliseconds, as the store keeps them apart. */
export function deadlineOf(
  { deadlineMs, storeDeadlineMs }: RateLimitServiceOptions,
  timeoutMs: number | undefined,
): number {
  if (timeoutMs === undefined) return deadlineMs
  const most = Math.max(deadlineMs, storeDeadlineMs)
  return Math.max(1, Math.min(most, Math.floor(timeoutMs) - WAY_BACK_MS))
}
