/** Turns some calls of a scenario into reservations, and kills into restarts. */
import { mapRules } from './generate-rules.js'
import type { Random } from './random.js'
import type {
  Arrival,
  CallSpec,
  Costs,
  Fault,
  ReserveSpec,
  ReserveStep,
  RuleSpec,
  Scenario,
} from './scenario.js'

/** The attributes that rules take costs from. */
const ATTRIBUTES = ['input', 'output'] as const
/** Reservations of a run: each needs a few requests more than a call. */
const RESERVED = 0.3
const RESERVED_MAX = 120
/** Short enough that reservations expire within a run; one second is the shortest. */
const TTLS_MS = [1000, 1000, 1500, 2500] as const
/** Soon, before the expiry, around it, and after it, when an expired one is given back. */
const STEPS_AFTER_MS = [0, 4, 40, 300, 900, 1050, 1600, 2300] as const
const REPEATED = 0.35
const REPEATS_AFTER_MS = [0, 3, 25, 80, 400, 1200] as const
const RESTARTED_AFTER_MS = [5, 60, 400] as const

type RuleFields = Pick<RuleSpec, 'cost' | 'onExpiry'>

export function withReservations(random: Random, scenario: Scenario): Scenario {
  const fields = new Map(scenario.rules.map(({ id }) => [id, generateFields(random)]))
  const nodes = scenario.nodes.map(({ name }) => name)
  const attributes = ATTRIBUTES.filter((attribute) =>
    [...fields.values()].some(({ cost }) => {
      return typeof cost === 'object' && cost.attribute === attribute
    }),
  )
  const stage = { nodes, attributes }
  let left = RESERVED_MAX
  const traffic = scenario.traffic.map((arrival): Arrival => {
    if (!isPlainCall(arrival) || left === 0 || !random.chance(RESERVED)) return arrival
    left -= 1
    return { ...arrival, reserve: generateReserve(random, arrival, stage) }
  })
  const faults = scenario.faults.map((fault) => {
    return fault.kind === 'kill' && random.chance(0.5) ? restart(random, fault) : fault
  })
  // The same for every version of a rule, whose counters continue.
  const reserving = (rule: RuleSpec) => ({ ...rule, ...fields.get(rule.id) })
  return mapRules({ ...scenario, traffic, faults }, reserving)
}

function isPlainCall(arrival: Arrival): arrival is CallSpec {
  return arrival.kind === 'call' && arrival.refund === undefined && arrival.gate !== true
}

function restart(random: Random, { atMs, node }: Extract<Fault, { kind: 'kill' }>): Fault {
  return { kind: 'restart', atMs, node, forMs: random.pick(RESTARTED_AFTER_MS) }
}

function generateFields(random: Random): RuleFields {
  const attribute = random.pick<(typeof ATTRIBUTES)[number] | undefined>([
    'input',
    'input',
    'output',
    undefined,
    undefined,
  ])
  const cost = attribute === undefined ? random.pick([1, 1, 2]) : { attribute }
  return { cost, onExpiry: random.chance(0.4) ? 'refund' : 'charge' }
}

interface Stage {
  readonly nodes: readonly string[]
  /** Those that rules take costs from. */
  readonly attributes: readonly string[]
}

function generateReserve(random: Random, { node }: CallSpec, stage: Stage): ReserveSpec {
  const { nodes, attributes } = stage
  const ttlMs = random.pick(TTLS_MS)
  const near = () => (random.chance(0.6) ? node : pickNode(random, nodes))
  const repeats = Array.from({ length: random.int(1, 3) }, () => ({
    afterMs: random.pick(REPEATS_AFTER_MS),
    node: near(),
  }))
  const reserve: ReserveSpec = {
    costs: generateCosts(random, attributes),
    ttlMs,
    steps: generateSteps(random, attributes, near),
  }
  return random.chance(REPEATED) ? { ...reserve, repeats } : reserve
}

/** Extensions, and mostly one end; at times two ends, or none. */
function generateSteps(
  random: Random,
  attributes: readonly string[],
  pick: () => string,
): readonly ReserveStep[] {
  const extensions = random.chance(0.3) ? random.int(1, 3) : 0
  const ends = random.pick([0, 1, 1, 1, 1, 1, 2, 2])
  const make = (verb: ReserveStep['verb']): ReserveStep => ({
    verb,
    afterMs: random.pick(STEPS_AFTER_MS),
    node: pick(),
    costs: generateActual(random, attributes),
    isOutdated: random.chance(0.15),
  })
  const steps = [
    ...Array.from({ length: extensions }, () => make('extend')),
    ...Array.from({ length: ends }, () => make(random.chance(0.8) ? 'settle' : 'cancel')),
  ]
  return steps.sort((a, b) => a.afterMs - b.afterMs)
}

/** Mostly a few units, at times more than a limit has. */
function generateCosts(random: Random, attributes: readonly string[]): Costs {
  const most = random.chance(0.15) ? 60 : 8
  return Object.fromEntries(attributes.map((attribute) => [attribute, random.int(0, most)]))
}

/** At times with the cost of the call itself, which a settle else leaves as it is. */
function generateActual(random: Random, attributes: readonly string[]): Costs {
  const costs = generateCosts(random, attributes)
  return attributes.length === 0 || random.chance(0.1)
    ? { ...costs, cost: random.int(0, 4) }
    : costs
}

function pickNode(random: Random, nodes: readonly string[]): string {
  return nodes[random.int(0, nodes.length - 1)] ?? 'n0'
}
