/** Opens the source of this node's rules that the configuration names: a file or a rule store. */
import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import process from 'node:process'
import type { Limiter } from '@sluice/limiter'
import type { WallClock } from '../../lib/wall-clock.js'
import type { Config } from '../../config/config.js'
import { ruleContextOf } from '../../config/rule-context.js'
import type { RegisteredKeys } from '../../identity/api-keys/known-keys.js'
import type { Log } from '../../observability/log/logger.js'
import type { RulesFileContent } from '../../startup/preflight.js'
import { RELEASE } from '../../generated/release.js'
import { openRuleStore } from '../store/open-rule-store.js'
import type { NodeReport, RuleStore } from '../store/rule-store.js'
import { openLastKnownGood } from './last-known-good/last-known-good.js'
import { followNoRules } from './no-rules-follower.js'
import type { RuleFollower } from './rule-follower.js'
import { followRulesFile } from './rules-file-follower.js'
import { followStore } from './rule-store-follower.js'

export interface RuleFollowerDeps {
  readonly limiter: Limiter
  readonly keys: RegisteredKeys
  readonly log: Log
  readonly clock: WallClock
  /** The rules file, read already; undefined: rules are in a rule store. */
  readonly rules: RulesFileContent | 'none' | undefined
  /** Whether nothing is configured, so that a new rule store begins with the example. */
  readonly isExample: boolean
  /** A store that another process holds for this one; undefined: it is opened here. */
  readonly store?: SharedStore | undefined
}

/** A rule store that the workers of one server share. */
export interface SharedStore extends RuleStore {
  readonly isKeeper: boolean
}

export type NodeInfo = Omit<NodeReport, 'rulesVersion' | 'problem'>

export function describeNode(clock: WallClock): NodeInfo {
  return {
    id: randomBytes(8).toString('hex'),
    host: hostname(),
    pid: process.pid,
    release: RELEASE,
    startedAt: new Date(clock.now()).toISOString(),
  }
}

/** Resolves when rules are active, or when it is clear that there are none for now. */
export async function openRuleFollower(
  config: Config,
  node: NodeInfo,
  { limiter, keys, log, clock, rules, isExample, store: shared }: RuleFollowerDeps,
): Promise<RuleFollower> {
  if (rules === 'none') return followNoRules(limiter)
  if (rules !== undefined) return followRulesFile(rules, { limiter, log, clock })
  const store = shared ?? (await openRuleStore(config, { log, clock, isExample }))
  if (store === undefined) throw new Error('rules: neither a rules file nor a rule store')
  const isKeeper = shared?.isKeeper ?? true
  // A file store is in the data directory already: it needs no copy there.
  const lastKnownGood =
    config.database === undefined
      ? undefined
      : openLastKnownGood({ dataDir: config.dataDir, log, isKeeper })
  const ruleContext = ruleContextOf(config)
  return followStore({ store, limiter, keys, log, node, lastKnownGood, ruleContext })
}
