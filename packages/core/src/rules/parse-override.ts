/** Parses a standalone override. */
import type { LimitSpec } from '../limit.js'
import { checkShareOf } from './check-share.js'
import type { RuleCache } from './incremental-parse.js'
import { refuseUnmergeable } from './parse-coordination.js'
import { readLimits } from './parse-limit.js'
import { checkHeadroomOf } from './parse-priorities.js'
import { checkCostOf, locateRule } from './parse-rule.js'
import { readOverride } from './parse-variants.js'
import { locateListedLimits } from './located-limits.js'
import { type Diagnostics, createDiagnostics, type Problem } from './diagnostics.js'
import { itemsOf, RULE, type Located } from './reader.js'
import type { OverrideLimitLists } from './override-limit-lists.js'
import type { Override, Rule } from './rule.js'
import type { Node } from './tree.js'
import { readValue } from './object-tree.js'

export interface ParsedOverride {
  /** Undefined if there are errors. */
  readonly override: Override | undefined
  readonly errors: readonly Problem[]
}

interface ParseOverrideOptions {
  /**
   * With the cache of the rule's owner, overrides with the same limits share one list, which is
   * parsed once. @default none: every list is parsed
   */
  readonly cache?: RuleCache | undefined
}

/**
 * `source` is `{ caller, limits, until }` as in a rules file, checked against a rule that was
 * parsed. Never throws.
 */
export function parseOverride(
  rule: Rule,
  source: object,
  { cache }: ParseOverrideOptions = {},
): ParsedOverride {
  const diagnostics = createDiagnostics({ file: undefined, strict: false, text: undefined })
  const override = readSource(rule, source, { ...diagnostics, lists: cache?.overrideLimits })
  const { errors } = diagnostics.finish()
  return { override: errors.length === 0 ? override : undefined, errors }
}

interface Parsing extends Diagnostics {
  readonly lists: OverrideLimitLists | undefined
}

function readSource(rule: Rule, source: object, parsing: Parsing): Override | undefined {
  const { root, problems } = readValue(source)
  if (root === undefined) {
    for (const problem of problems) parsing.report({ rule: rule.id, field: RULE, ...problem })
    return undefined
  }
  const located = locateRule(root, rule.id, parsing.report)
  const override = readOverride(located, rule.by, (field) => readSharedLimits(field, rule, parsing))
  refuseUnmergeable(() => locateListedLimits(located), rule.coordination)
  return override
}

function readSharedLimits(
  located: Located,
  rule: Rule,
  { count, lists }: Parsing,
): readonly LimitSpec[] | undefined {
  const text = lists === undefined ? '' : textOf(located.node)
  const known = lists?.get(rule, text)
  if (known !== undefined) return known
  const before = count()
  const limits = readLimits(located)
  if (limits === undefined || count() > before) return limits
  checkLimits(limits, rule, located)
  if (count() === before) lists?.store(rule, text, limits)
  return limits
}

function checkLimits(
  limits: readonly LimitSpec[],
  rule: Rule,
  { node, field, report }: Located,
): void {
  const locatedItems = node.kind === 'list' ? itemsOf({ node, field, report }) : []
  for (const [i, located] of locatedItems.entries()) {
    const limit = limits[i]
    if (limit === undefined) continue
    checkCostOf(limit, rule.cost, located)
    checkHeadroomOf(limit, rule, located)
    checkShareOf(limit, rule.posture, located)
  }
}

/** Returns equal text for equal nodes. Values that text cannot have always cause a problem. */
function textOf(node: Node): string {
  switch (node.kind) {
    case 'scalar':
      return typeof node.value === 'string' ? JSON.stringify(node.value) : String(node.value)
    case 'list':
      return `[${node.items.map(textOf).join()}]`
    case 'map':
      return `{${[...node.entries.values()].map(({ key, value }) => `${JSON.stringify(key)}:${textOf(value)}`).join()}}`
    case 'foreign':
      return node.type
  }
}
