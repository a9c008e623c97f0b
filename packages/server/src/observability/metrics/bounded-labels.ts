/** Series whose label is told by somebody else, such as a topology: no more than a fixed number. */
import type { Counter, Series } from './registry.js'

const OTHER = 'other'

export interface BoundedLabels {
  /** The series of this value; beyond the bound all values share one. */
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
