/** Where this node's rules come from, as the configuration says. */
import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import process from 'node:process'
import type { Limiter } from '@sluice/limiter'
import type { WallClock } from '../../lib/wall-clock.js'
import type { Config } from '../../config/config.js'
import { headerAttributes } from '../../config/header-attributes.js'
import type { RegisteredKeys } from '../../identity/api-keys/known-keys.js'
import type { Log } from '../../observability/log/logger.js'
import type { RulesFileContent } from '../../startup/preflight.js'
import { RELEASE } from '../../lib/release.js'
import { openRuleStore } from '../store/open-rule-store.js'
import type { NodeReport, RuleStore } from '../store/rule-store.js'
import { openLastKnownGood } from './last-known-good/last-known-good.js'
import type { RuleFollower } from './rule-follower.js'
import { followRulesFile } from './rules-file-follower.js'
import { followStore } from './rule-store-follower.js'

export interface RuleFollowerDeps {
  readonly limiter: Limiter
  readonly keys: RegisteredKeys
  readonly log: Log
  readonly clock: WallClock
  /** The user's own rules, read already; undefined: they are in a rule store. */
  readonly rules: RulesFileContent | undefined
  /** Whether nothing is configured, so that a new rule store begins with the example. */
  readonly isExample: boolean
  /** Held by another process for this one; undefined: it is opened here. */
  readonly store?: SharedStore | undefined
}

/** A rule store that several workers have together. */
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

/** Resolves when there are rules, or it is clear that there are none for now. */
export async function openRuleFollower(
  config: Config,
  node: NodeInfo,
  { limiter, keys, log, clock, rules, isExample, store: shared }: RuleFollowerDeps,
): Promise<RuleFollower> {
  if (rules !== undefined) return followRulesFile(rules, { limiter, log, clock })
  const store = shared ?? (await openRuleStore(config, { log, clock, isExample }))
  if (store === undefined) throw new Error('rules: neither a file of them nor a rule store')
  const isKeeper = shared?.isKeeper ?? true
  // Files in the data directory are their own last good copy.
  const lastKnownGood =
    config.database === undefined
      ? undefined
      : openLastKnownGood({ dataDir: config.dataDir, log, isKeeper })
  const fromHeaders = headerAttributes(config)
  return followStore({ store, limiter, keys, log, node, lastKnownGood, fromHeaders })
}
