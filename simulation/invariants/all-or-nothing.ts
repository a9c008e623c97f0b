/**
 * A refused group is charged nothing: none of its counters has a grant. A group beside the first is
 * charged only if the first was.
 */
import { passes } from '@sluice/core'
import type { Answer } from '@sluice/limiter'
import type { MakeInvariant } from './invariant.js'

export const allOrNothing: MakeInvariant = () => ({
  name: 'a refused group is charged nothing',
  onExecution: ({ request, reply }) => {
    const rows = reply.answers?.map((row) => row.flatMap(outcomeOf)) ?? []
    const isOpen = passes(rows[0] ?? [])
    for (const [g, row] of rows.entries()) {
      const isCharged = row.some(({ granted }) => granted > 0)
      if (isCharged && (!passes(row) || (g > 0 && !isOpen))) {
        return `a refused call of ${request.node} was charged in group ${g}`
      }
    }
    return undefined
  },
})

function outcomeOf(answer: Answer): Exclude<Answer, string>[] {
  return typeof answer === 'string' ? [] : [answer]
}
