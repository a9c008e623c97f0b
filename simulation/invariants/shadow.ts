/** A rule in shadow refuses nothing and delays nothing, under every fault. */
import type { MakeInvariant } from './invariant.js'

export const shadow: MakeInvariant = (truth) => {
  const enforced = new Set(
    truth.scenario.rules.filter(({ mode }) => mode === 'enforce').map(({ id }) => id),
  )
  return {
    name: 'shadow rules refuse nothing',
    onDecision: ({ call, decision }) => {
      const { allowed, delayMs, rule } = decision
      if (allowed && delayMs === 0) return undefined
      if (rule !== null && enforced.has(rule)) return undefined
      return `call ${call.id} was refused or held by ${rule}`
    },
  }
}
