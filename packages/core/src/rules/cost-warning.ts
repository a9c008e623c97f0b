/** Warns of a cost that callers can choose themselves. */
import type { LocatedRule } from './parse-rule.js'
import { reportAt, fieldOf } from './reader.js'
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
  'route',
  'user',
])

/** For a rule without problems. A caller that sends "0" in its header is never limited. */
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
