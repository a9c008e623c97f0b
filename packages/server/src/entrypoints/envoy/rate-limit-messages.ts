/** The messages of the rate limit service as plain objects, independent of their encoding. */

export interface DescriptorEntry {
  readonly key: string
  readonly value: string
}

export type LimitUnit = 'unknown' | 'second' | 'minute' | 'hour' | 'day' | 'week' | 'month' | 'year'
