/** Warns of attributes that callers can choose themselves. */
import type { LocatedRule } from './parse-rule.js'
import { locatedLimitsOf } from './located-limits.js'
import { reportAt, fieldOf, itemsOf, type Located } from './reader.js'
import type { RuleSet } from './rule.js'
import { quote } from './tree.js'

/** The known sources of call attributes. */
export interface AttributeOrigins {
  /**
   * Attributes that come from headers which callers control; all others are then trusted. @default
   * unknown: every attribute that Sluice does not derive itself
   */
  readonly fromHeaders?: ReadonlySet<string> | undefined
  /** Attributes that the service sets itself; they are always trusted. @default none */
  readonly trusted?: ReadonlySet<string> | undefined
}

/** Derived from the connection, the request line and verified credentials. */
const DERIVED_ATTRIBUTES: ReadonlySet<string> = new Set([
  'api_key',
  'ip',
  'method',
  'path',
  'plan',
  'priority',
  'route',
  'user',
])

/** For a rule without problems. A caller that sends "0" in its header is never limited. */
export function warnOfFreeCost({ rule, map }: LocatedRule, origins: AttributeOrigins): void {
  const { cost, mode } = rule
  if (typeof cost === 'number' || mode === 'off') return
  const { attribute } = cost
  if (!isClaimed(attribute, origins)) return
  reportAt(fieldOf(map, 'cost') ?? map, 'free-cost', {
    found: quote(attribute),
    accepted: 'an attribute that your own service sets, and no header of the caller; or a number',
  })
}

/**
 * Warns of a block of callers that others can name: by going over under that name they lock its
 * owner out. With `ip` in `by` they lock out only themselves.
 */
export function warnOfClaimedBlock({ rule, map }: LocatedRule, origins: AttributeOrigins): void {
  if (rule.mode === 'off' || rule.by.includes('ip')) return
  const claimed = rule.by.find((attribute) => isClaimed(attribute, origins))
  if (claimed === undefined) return
  const blocking = locatedLimitsOf(rule, map).find(({ limit }) => limit.block !== undefined)
  if (blocking === undefined) return
  reportAt(blocking.located, 'claimed-block', {
    found: quote(claimed),
    accepted: `by: [${[...rule.by, 'ip'].join(', ')}], or attributes that your own service verifies`,
  })
}

/**
 * Warns of lines of `classify` that callers can meet by what they send: who chooses its priority
 * crowds others out. To choose the last one gains nothing.
 */
export function warnOfClaimedPriority(
  { node, field, report }: Located,
  { classify = [], priorities = [] }: Pick<RuleSet, 'classify' | 'priorities'>,
  origins: AttributeOrigins,
): void {
  const lines = node.kind === 'list' ? itemsOf({ node, field, report }) : []
  for (const [i, { match, as }] of classify.entries()) {
    const line = lines[i]
    if (line === undefined || as === priorities.at(-1)) continue
    for (const attribute of match.where.keys()) {
      if (!isClaimed(attribute, origins)) continue
      reportAt({ ...line, field: `${line.field}.match.where` }, 'claimed-priority', {
        found: quote(attribute),
        accepted: 'an attribute that your own service verifies, and no header of the caller',
      })
    }
  }
}

/** Whether a caller may set an attribute to any value. */
function isClaimed(attribute: string, { fromHeaders, trusted }: AttributeOrigins): boolean {
  if (trusted?.has(attribute) === true) return false
  return fromHeaders?.has(attribute) ?? !DERIVED_ATTRIBUTES.has(attribute)
}
