/** Limits that owe what exceeds them, and calls that only pass through gates. */
import { mapLimits, mapRules } from './generate-rules.js'
import type { Random } from './random.js'
import type { LimitText, Scenario } from './scenario.js'

const OVERDRAWN = 0.3
const OWING = 0.4
const DEBT_MAX = 20
/** In some runs this share of the calls are gates. */
const GATED = 0.15

type Metering = Pick<LimitText, 'onRefusal' | 'debt'>

export function withMetered(random: Random, scenario: Scenario): Scenario {
  const metering = new Map(scenario.rules.map(({ id }) => [id, generateMetering(random)]))
  const hasGates = random.chance(0.5)
  const traffic = scenario.traffic.map((arrival) => {
    const isGate = arrival.kind === 'call' && hasGates && random.chance(GATED)
    return isGate ? { ...arrival, gate: true } : arrival
  })
  // The same for every version of a rule and its tiers, whose counters continue.
  return mapRules({ ...scenario, traffic }, (rule) =>
    mapLimits(rule, (limit) => (canOwe(limit) ? { ...limit, ...metering.get(rule.id) } : limit)),
  )
}

function generateMetering(random: Random): Metering {
  return {
    ...(random.chance(OVERDRAWN) && { onRefusal: 'overdraw' as const }),
    ...(random.chance(OWING) && { debt: random.int(0, DEBT_MAX) }),
  }
}

/** A queue cannot owe, and a limit that refuses every call has nothing to owe. */
function canOwe({ algorithm, max }: LimitText): boolean {
  return algorithm !== 'leaky-bucket' && max > 0
}
