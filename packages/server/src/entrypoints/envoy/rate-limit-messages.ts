/** The messages of Envoy's rate limit service, independent of how they are sent. */

export interface RateLimitRequest {
  readonly domain: string
  readonly descriptors: readonly Descriptor[]
  /** 0 and absent mean 1. */
  readonly hitsAddend: number
}

export interface Descriptor {
  readonly entries: readonly DescriptorEntry[]
  readonly limit: LimitOverride | undefined
  /** Undefined: not set; 0 checks without counting. */
  readonly hitsAddend: number | undefined
  readonly isNegativeHits: boolean
}

export interface DescriptorEntry {
  readonly key: string
  readonly value: string
}

export type LimitUnit = 'unknown' | 'second' | 'minute' | 'hour' | 'day' | 'week' | 'month' | 'year'

export interface LimitOverride {
  readonly requestsPerUnit: number
  readonly unit: LimitUnit
}

export type StatusCode = 'ok' | 'over-limit'

export interface CurrentLimit {
  readonly requestsPerUnit: number
  readonly unit: LimitUnit
  readonly name: string
}

export interface DescriptorStatus {
  readonly code: StatusCode
  readonly currentLimit: CurrentLimit | undefined
  /** At most 2^32 - 1 is sent. */
  readonly limitRemaining: number
  /** Whole seconds; undefined: absent. */
  readonly resetSeconds: number | undefined
}

export interface RateLimitResponse {
  readonly overallCode: StatusCode
  /** As many as the request has descriptors, in the same order. */
  readonly statuses: readonly DescriptorStatus[]
  /** Names and values in turn. */
  readonly responseHeaders: readonly string[]
  /** Names and values in turn. */
  readonly requestHeaders: readonly string[]
  readonly rawBody: string
  readonly dynamicMetadata: JsonObject | undefined
}

export interface JsonObject {
  readonly [key: string]: JsonValue
}

export type JsonValue = string | number | boolean | null | readonly JsonValue[] | JsonObject

/**
 * The size of a request. Envoy's are below 1 KiB; those with long header values as entries stay
 * below the 60 KiB to which Envoy limits headers.
 */
export const REQUEST_BYTES_MAX = 64 * 1024
/** Descriptors of a request: one for each rate limit of a route, of which there are a few. */
export const DESCRIPTORS_MAX = 256
/** Entries of a descriptor: one for each action of a rate limit, of which there are a few. */
export const ENTRIES_MAX = 64
