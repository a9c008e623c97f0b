/**
 * A refused group is charged nothing: none of its counters has a grant, except by a take that
 * overdraws. A group beside the first is charged only if the first was.
 */
import { isChargedOnRefusal, passes } from '@sluice/core'
import type { Answer } from '@sluice/limiter'
import type { MakeInvariant } from './invariant.js'

export const allOrNothing: MakeInvariant = () => ({
  name: 'a refused group is charged nothing',
  onExecution: ({ request, reply }) => {
    const { operation } = request
    const rows = reply.answers?.map((row) => row.flatMap(outcomeOf)) ?? []
    const isOpen = passes(rows[0] ?? [])
    for (const [g, row] of rows.entries()) {
      const isShut = g > 0 && !isOpen
      const isCharged = row.some(({ granted }, i) => {
        const take = operation.verb === 'take' ? operation.groups[g]?.[i] : undefined
        return granted > 0 && (isShut || take === undefined || !isChargedOnRefusal(take))
      })
      if (isCharged && (isShut || !passes(row))) {
        return `a refused call of ${request.node} was charged in group ${g}`
      }
    }
    return undefined
  },
})

function outcomeOf(answer: Answer): Exclude<Answer, string>[] {
  return typeof answer === 'string' ? [] : [answer]
}
