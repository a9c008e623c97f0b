/** A rule that counts calls in flight, and calls that last for a while. */
import type { Random } from './random.js'
import type { Arrival, Fault, LimitText, RuleSpec, Scenario } from './scenario.js'

const PLACES_MAX = 12
/** The shortest that rules may have, so that runs see records that expire. */
const LEASES = ['1s', '1s', '2s'] as const
/** The share of the calls whose end is reported; to others the rule has no such limit. */
const REPORTED = 0.8
/** From calls that end at once to some that outlast leases. */
const LENGTHS_MS = [0, 3, 25, 120, 600, 1500, 3500] as const

export function withPlaces(random: Random, scenario: Scenario): Scenario {
  const rule = generateRule(random)
  const traffic = scenario.traffic.map((arrival) => withLength(random, arrival))
  const faults = scenario.faults.map((fault) => withChange(random, fault, rule))
  return { ...scenario, rules: [...scenario.rules, rule], traffic, faults }
}

function generateRule(random: Random): RuleSpec {
  return {
    id: 'places',
    by: random.chance(0.7) ? ['user'] : [],
    limits: [generateLimit(random)],
    coordination: random.chance(0.85) ? 'exact' : 'split',
    mode: random.chance(0.1) ? 'shadow' : 'enforce',
    posture: random.pick<RuleSpec['posture']>(['open', 'closed', 'local', { local: 0.5 }]),
  }
}

function generateLimit(random: Random): LimitText {
  const lease = random.pick(LEASES)
  return { name: 'places', algorithm: 'concurrency', max: random.int(1, PLACES_MAX), lease }
}

function withLength(random: Random, arrival: Arrival): Arrival {
  if (arrival.kind !== 'call' || arrival.gate === true || arrival.reserve !== undefined) {
    return arrival
  }
  if (!random.chance(REPORTED)) return arrival
  const lastsMs = random.pick(LENGTHS_MS)
  return { ...arrival, lastsMs: lastsMs === 0 ? 0 : random.int(1, lastsMs) }
}

/** More or fewer places, while some are taken. */
function withChange(random: Random, fault: Fault, rule: RuleSpec): Fault {
  if (fault.kind !== 'change' || random.chance(0.5)) return fault
  const limits = rule.limits.map((limit) => ({ ...limit, max: random.int(1, PLACES_MAX) }))
  return { ...fault, rules: [...fault.rules, { ...rule, limits }] }
}
