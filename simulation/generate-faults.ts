/** Faults of a scenario: none in a share of the seeds, one kind in others, or all kinds. */
import { changeRules } from './generate-rules.js'
import type { Random } from './random.js'
import type { Fault, FaultKind, NodeSpec, RuleSpec, Settings } from './scenario.js'

/** `slow`: a network that is often slower than the deadline; `join`: nodes that join later. */
export type Profile = 'calm' | 'slow' | 'join' | 'all' | FaultKind

const FAULTS_MAX = 5
/** The end of a run is free of faults, so that its final state can be judged. */
const FAULTS_END = 0.8
/** A change of the rules is active everywhere within this time. */
const SPREAD_MS_MAX = 1000

const KINDS: readonly [FaultKind, ...FaultKind[]] = [
  'pause',
  'suspend',
  'kill',
  'stop',
  'reset',
  'cut',
  'stall',
  'store-pause',
  'failover',
  'store-jump',
  'wall-jump',
  'reload',
  'change',
]

/** Seeds take turns, so that any hundred of them include every kind. */
const PROFILES: readonly Profile[] = [
  'calm',
  'all',
  ...KINDS.slice(0, 4),
  'calm',
  'slow',
  ...KINDS.slice(4, 8),
  'calm',
  'join',
  ...KINDS.slice(8),
  'all',
]

export function profileOf(seed: number): Profile {
  return PROFILES[seed % PROFILES.length] ?? 'calm'
}

interface Stage {
  readonly profile: Profile
  readonly settings: Settings
  readonly nodes: readonly NodeSpec[]
  readonly rules: readonly RuleSpec[]
}

export function generateFaults(random: Random, stage: Stage): Fault[] {
  const { profile } = stage
  if (profile === 'calm' || profile === 'slow' || profile === 'join') return []
  return Array.from({ length: random.int(1, FAULTS_MAX) }, () =>
    generateFault(random, stage, profile === 'all' ? random.pick(KINDS) : profile),
  ).sort((a, b) => a.atMs - b.atMs)
}

function generateFault(random: Random, { settings, nodes, rules }: Stage, kind: FaultKind): Fault {
  const endMs = settings.lengthMs * FAULTS_END
  const atMs = random.int(0, endMs)
  const forMs = Math.min(random.pick([5, 30, 200, 1200]) + random.int(0, 20), endMs - atMs + 20)
  const node = nodes[random.int(0, nodes.length - 1)]?.name ?? 'n0'
  const byMs = random.pick([-5000, -700, -60, 60, 700, 5000]) + random.int(-20, 20)
  if (kind === 'kill' || kind === 'stop' || kind === 'reload') return { kind, atMs, node }
  if (kind === 'store-pause') return { kind, atMs, forMs }
  if (kind === 'failover') {
    return { kind, atMs, lagMs: random.int(0, 300), clockMs: random.int(-100, 100) }
  }
  if (kind === 'store-jump') return { kind, atMs, byMs }
  if (kind === 'wall-jump') return { kind, atMs, node, byMs }
  if (kind === 'change') {
    const spreadMs = random.chance(0.3) ? 0 : random.int(1, SPREAD_MS_MAX)
    return { kind, atMs, spreadMs, rules: changeRules(random, rules) }
  }
  return { kind, atMs, node, forMs }
}
