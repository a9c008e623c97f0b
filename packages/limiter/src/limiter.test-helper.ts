/** What the tests of the library are written with. */
import { createLimiter } from './index.js'
import { manualClock } from './testing/index.js'

export const call = (attributes: Record<string, string>, cost?: number) => ({ attributes, cost })
export const user = (name: string, cost?: number) => call({ user: name }, cost)

export function limiterOf(rules: string | object) {
  const clock = manualClock()
  return { clock, limiter: createLimiter({ rules, clock }) }
}

export const perUser = (limits: unknown[], more: object = {}) => [
  { id: 'per-user', by: ['user'], limits, ...more },
]
