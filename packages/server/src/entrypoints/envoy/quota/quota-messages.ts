/** The messages of Envoy's rate limit quota service, independent of how they are sent. */
import type { DescriptorEntry } from '../rate-limit-messages.js'

/** The names and values of a bucket, sorted by name: their order on the wire means nothing. */
export type BucketId = readonly DescriptorEntry[]

/** What a proxy did with the calls of a bucket since its last report. */
export interface BucketUsage {
  readonly bucket: BucketId
  /**
   * Whether it can be assigned anything: not if its text is not UTF-8, which no message may have,
   * nor if it has no pairs or too many. Clients choose such texts by headers, so they are no error
   * of the stream, on which all other buckets depend.
   */
  readonly isAssignable: boolean
  readonly allowed: number
  readonly denied: number
}

export interface UsageReports {
  /** Empty after the first message of a stream. */
  readonly domain: string
  readonly usages: readonly BucketUsage[]
}

/** How a proxy decides the calls of a bucket. `lease`: it admits that many, and refuses more. */
export type Strategy =
  | { readonly kind: 'allow' }
  | { readonly kind: 'deny' }
  | { readonly kind: 'lease'; readonly calls: number }

export type BucketAction =
  | {
      readonly kind: 'assign'
      readonly bucket: BucketId
      readonly strategy: Strategy
      /** Whether it replaces what the proxy has; else it renews its time. */
      readonly isNew: boolean
      readonly ttlSeconds: number
    }
  /** The proxy forgets the bucket, and reports it anew when the next call comes. */
  | { readonly kind: 'abandon'; readonly bucket: BucketId }

/**
 * The usages of one message that are read: a proxy reports all its buckets at once. It is told to
 * abandon those above the most that a stream may have, so what is not read now is read later.
 */
export const USAGES_MAX = 20_000
/** The largest report that is read: twice the buckets of a stream, with what is beside them. */
export const REPORT_BYTES_MAX = 1024 * 1024
/** The pairs of a bucket: one for each entry of a bucket id builder, of which there are a few. */
export const PAIRS_MAX = 64
