/** A cost that callers may choose themselves. */
import type { LocatedRule } from './parse-rule.js'
import { reportAt, fieldOf } from './reader.js'
import { quote } from './tree.js'

/** What is known of where the attributes of calls come from. */
export interface AttributeOrigins {
  /**
   * Attributes that come from headers which callers may set as they like; every other is then
   * trusted. @default not known: every attribute that Sluice does not work out itself
   */
  readonly fromHeaders?: ReadonlySet<string> | undefined
  /** Attributes that the service sets itself, whatever else is known. @default none */
  readonly trusted?: ReadonlySet<string> | undefined
}

/** Worked out of the connection, the request line and verified credentials. */
const DERIVED_ATTRIBUTES: ReadonlySet<string> = new Set([
  'api_key',
  'ip',
  'method',
  'path',
  'plan',
  'route',
  'user',
])

/** For a rule without problems. A caller that writes "0" into its header is never limited. */
export function warnOfFreeCost(
  { rule, map }: LocatedRule,
  { fromHeaders, trusted }: AttributeOrigins,
): void {
  const { cost, mode } = rule
  if (typeof cost === 'number' || mode === 'off' || trusted?.has(cost.attribute) === true) return
  const { attribute } = cost
  const isFree = fromHeaders?.has(attribute) ?? !DERIVED_ATTRIBUTES.has(attribute)
  if (!isFree) return
  reportAt(fieldOf(map, 'cost') ?? map, 'free-cost', {
    found: quote(attribute),
    accepted: 'an attribute that your own service sets, and no header of the caller; or a number',
  })
}
