/** Rules of every kind: each algorithm with each coordination that it can have. */
import type { Random } from './random.js'
import type { LimitText, RuleSpec } from './scenario.js'

const RULES_MAX = 3
/** Windows short enough that a run sees several. */
const WINDOWS_MS = [250, 500, 1000, 2000, 4000] as const

export function generateRules(random: Random, nodes: number): RuleSpec[] {
  return Array.from({ length: random.int(1, RULES_MAX) }, (_, i) =>
    generateRule(random, `r${i}`, nodes),
  )
}

function generateRule(random: Random, id: string, nodes: number): RuleSpec {
  const coordination = random.pick<RuleSpec['coordination']>([
    'exact',
    'exact',
    'leased',
    'leased',
    'leased',
    'local',
    'local',
    'split',
  ])
  const count = random.chance(0.2) ? 2 : 1
  const limits = Array.from({ length: count }, (_, i) =>
    generateLimit(random, coordination, nodes, i),
  )
  return {
    id,
    by: random.chance(0.8) ? ['user'] : [],
    limits,
    coordination,
    mode: random.chance(0.15) ? 'shadow' : 'enforce',
    posture: random.pick<RuleSpec['posture']>(['open', 'closed', 'local', 'local', { local: 0.5 }]),
    ...(coordination === 'leased' ? { maxStranded: random.int(1, 10) / 20 } : {}),
    ...(coordination === 'local' ? { syncEvery: `${random.pick([20, 50, 100, 250])}ms` } : {}),
  }
}

function generateLimit(
  random: Random,
  coordination: RuleSpec['coordination'],
  nodes: number,
  place: number,
): LimitText {
  const algorithm =
    coordination === 'exact'
      ? random.pick([
          'token-bucket',
          'gcra',
          'leaky-bucket',
          'fixed-window',
          'sliding-window-counter',
          'sliding-window-log',
        ])
      : random.pick(['token-bucket', 'gcra', 'fixed-window', 'sliding-window-counter'])
  const window = random.pick(WINDOWS_MS)
  // A lease needs room for two units a node.
  const least = coordination === 'leased' && random.chance(0.8) ? 20 * nodes : 1
  const max = random.chance(0.02) ? 0 : random.int(least, least + random.pick([5, 40, 200]))
  const isBucket = algorithm === 'token-bucket' || algorithm === 'gcra'
  const bursts = isBucket && max > 0 && (algorithm === 'gcra' || random.chance(0.3))
  const limit = { name: `l${place}`, algorithm, max, window: `${window}ms` }
  return bursts ? { ...limit, burst: random.int(Math.ceil(max / 2), 2 * max) } : limit
}
