/** Bounds the series of a label whose values come from outside, such as Redis addresses. */
import type { Counter, Series } from './registry.js'

const OTHER = 'other'

export interface BoundedLabels {
  /** Returns the series of this value; values beyond the bound share `other`. */
  get(value: string): Series
}

export function boundLabels(counter: Counter, most: number): BoundedLabels {
  const known = new Map<string, Series>()
  return {
    get(value) {
      const found = known.get(value)
      if (found !== undefined) return found
      if (known.size >= most) return counter.labels(OTHER)
      const made = counter.labels(value)
      known.set(value, made)
      return made
    },
  }
}
