/**
 * A domain of the rate limit service as validated data: what its descriptors are limited to, in the
 * order of the configuration. It is made from YAML files and from resources of an xDS server.
 */
import type { JsonObject } from '../../../lib/json-map.js'
import type { LimitUnit } from '../rate-limit-messages.js'

export interface DomainConfig {
  readonly domain: string
  readonly descriptors: readonly DescriptorConfig[]
}

export interface DescriptorConfig {
  readonly key: string
  /** Undefined: any value. It may contain `*`, which stands for any characters. */
  readonly value: string | undefined
  /** Undefined: what matches here, and no deeper, has no limit. */
  readonly limit: LimitConfig | undefined
  readonly isShadow: boolean
  /** One of several alternatives: a request is over the limit if all of them are. */
  readonly isQuota: boolean
  /** The metrics of this limit name all keys and values of the request. */
  readonly detailedMetric: boolean
  /** The metrics of limits here and below name the value of the request at this level. */
  readonly valueToMetric: boolean
  /** All values that match the pattern share one counter. */
  readonly shareThreshold: boolean
  readonly metadata: JsonObject | undefined
  readonly descriptors: readonly DescriptorConfig[]
}

export interface LimitConfig {
  /** Undefined: unlimited. */
  readonly unit: LimitUnit | undefined
  /** 0 refuses every request. */
  readonly requestsPerUnit: number
  readonly isUnlimited: boolean
  /** Empty: none. */
  readonly name: string
  /** Names of limits that do not count in a request to which this one applies. */
  readonly replaces: readonly string[]
}

/** What matches a wildcard: any characters. */
export const WILDCARD = '*'

/** Key and value as one text, by which a level of the configuration is looked up. */
export function compositeOf({ key, value }: Pick<DescriptorConfig, 'key' | 'value'>): string {
  return value === undefined ? key : `${key}_${value}`
}
