/**
 * Compiles rules one by one, for an entry point that selects the limits of a call itself: the
 * limits of Envoy's descriptors.
 */
import type { Limit } from '../limit.js'
import { leftFieldHead, policyField } from '../policy-field.js'
import type { Rule } from '../rules/rule.js'
import { compileLimits, InternPool } from './compile-limits.js'
import { compileMatch } from './compiled-match.js'
import type { CompiledRule, Snapshot } from './compiled.js'
import { OverrideLimits } from './override-limits.js'

export class SingleRuleCompiler {
  readonly #context

  /** The counters are named with the keys of this snapshot. */
  constructor({ limitKey, ipv6Prefix, strictPaths, region }: Snapshot) {
    const limits = new InternPool<Limit>()
    this.#context = { limitKey, limits, priorities: [], region, ipv6Prefix, strictPaths }
  }

  /** `policy` is the name of its limits in headers and problem bodies. */
  compile(rule: Rule, policy: string): CompiledRule {
    const { conditions, pattern, methods } = compileMatch(rule)
    const limits = compileLimits(rule.limits, rule, this.#context).map((compiled) => {
      const field = policyField(policy, compiled.limit)
      return { ...compiled, policy, field, leftField: leftFieldHead(policy) }
    })
    return {
      rest: conditions,
      by: rule.by,
      candidate: undefined,
      limits,
      tiers: undefined,
      cost: rule.cost,
      mode: rule.mode,
      order: 0,
      id: rule.id,
      conditions,
      filedUnder: undefined,
      pattern,
      methods,
      rule,
      overrideLimits: new OverrideLimits(rule, this.#context),
    }
  }
}
