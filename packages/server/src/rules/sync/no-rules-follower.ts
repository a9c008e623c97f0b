/** Stands for the rules of a server that has none, where only configured domains are limited. */
import { parseRules } from '@sluice/core'
import type { Limiter } from '@sluice/limiter'
import { UnavailableError } from '../store/rule-store.js'
import { createCatalog } from './rule-catalog.js'
import type { RuleFollower } from './rule-follower.js'

/** The limiter decides from now on, by no rules. */
export function followNoRules(limiter: Pick<Limiter, 'setParsedRules'>): RuleFollower {
  limiter.setParsedRules(parseRules('rules: []'))
  return {
    name: 'none',
    catalog: createCatalog(),
    store: undefined,
    isReady: () => true,
    hasHadRules: () => false,
    version: () => 1,
    ageSeconds: () => 0,
    failures: () => 0,
    problem: () => undefined,
    status: () => undefined,
    shadowUntil: () => undefined,
    refresh: () => Promise.reject(new UnavailableError('there are no rules to read')),
    close: () => Promise.resolve(),
  }
}
