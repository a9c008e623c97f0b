/** Parses one rule: its fields and the constraints between them. */
import { moduleOf } from '../algorithms/index.js'
import { defineLimit, type LimitSpec } from '../limit.js'
import { readAttributeName, readBy } from './parse-attribute.js'
import { readCoordination } from './parse-coordination.js'
import { readDuration, readNonEmptyLimits } from './parse-limit.js'
import { EVERY_CALL, readMatch } from './parse-match.js'
import { readHeadroom } from './parse-priorities.js'
import { readRegions } from './parse-regions.js'
import { readCandidate, readOverrides, readTiers } from './parse-variants.js'
import { locatedLimitsOf } from './located-limits.js'
import type { ReportDiagnostic } from './diagnostics.js'
import {
  reportAt,
  fieldOf,
  readBoolean,
  readChoice,
  readMap,
  readNumber,
  readOptional,
  readRequired,
  readText,
  RULE,
  type Located,
} from './reader.js'
import type { Cost, Mode, Posture, Rule } from './rule.js'
import { slug } from './suggest.js'
import type { MapNode, Node } from './tree.js'

const ID = /^[a-z0-9-]{1,64}$/
const ACCEPTED_ID = '1 to 64 of a-z, 0-9 and "-", such as orders-per-user'
const DESCRIPTION_LENGTH_MAX = 1000
const COST_MAX = 1_000_000
const ACCEPTED_COST = `a whole number from 0 to ${COST_MAX}, or { attribute: name }`
/** The largest factor of a local fallback; more than ten times the limit is hardly a limit. */
const FACTOR_MAX = 10
const ACCEPTED_FACTOR = `a number above 0, up to ${FACTOR_MAX}`
const DEADLINE_MS_MIN = 1
const DEADLINE_MS_MAX = 10_000
const ACCEPTED_DEADLINE = 'a duration from 1ms to 10s'

const MODES: readonly Mode[] = ['enforce', 'shadow', 'off']
const PROTECTED = ['capacity'] as const
const ON_EXPIRY = ['charge', 'refund'] as const
const POSTURES = ['open', 'closed', 'local'] as const

const FIELDS: readonly string[] = [
  'id',
  'description',
  'match',
  'by',
  'limits',
  'tiers',
  'candidate',
  'overrides',
  'cost',
  'mode',
  'coordination',
  'maxStranded',
  'syncEvery',
  'regions',
  'tolerance',
  'posture',
  'deadline',
  'hedge',
  'durable',
  'headroom',
  'protects',
  'onExpiry',
  'tag',
]

/** A rule with its position in the source. */
export interface LocatedRule {
  readonly rule: Rule
  readonly map: Located<MapNode>
}

/**
 * Returns undefined only if there is no rule at all: an invalid field is reported and read as its
 * default.
 */
export function readRule(located: Located): LocatedRule | undefined {
  const scoped = scopeToRule(located)
  const map = readMap(scoped, FIELDS)
  if (map === undefined) return undefined

  const by = readOptional(map, 'by', readBy)
  const isByRead = by !== undefined || !map.node.entries.has('by')
  const rule: Rule = {
    id: readRequired(map, 'id', { accepted: ACCEPTED_ID, read: readId }) ?? '',
    description: readOptional(map, 'description', readDescription),
    match: readOptional(map, 'match', readMatch) ?? EVERY_CALL,
    by: by ?? [],
    limits:
      readRequired(map, 'limits', { accepted: 'a list of limits', read: readNonEmptyLimits }) ?? [],
    tiers: readOptional(map, 'tiers', readTiers),
    overrides:
      readOptional(map, 'overrides', (field) =>
        readOverrides(field, isByRead ? (by ?? []) : undefined),
      ) ?? [],
    candidate: readOptional(map, 'candidate', readCandidate),
    cost: readOptional(map, 'cost', readCost) ?? 1,
    mode: readOptional(map, 'mode', (field) => readChoice(field, MODES)) ?? 'enforce',
    ...readCoordination(map),
    ...readRegions(map),
    posture: readOptional(map, 'posture', readPosture) ?? { local: 1 },
    deadlineMs: readOptional(map, 'deadline', readDeadline),
    durable: readOptional(map, 'durable', readBoolean) ?? false,
    headroom: readOptional(map, 'headroom', readHeadroom),
    protects: readOptional(map, 'protects', (field) => readChoice(field, PROTECTED)),
    onExpiry: readOptional(map, 'onExpiry', (field) => readChoice(field, ON_EXPIRY)) ?? 'charge',
    tag: readOptional(map, 'tag', readBoolean) ?? false,
  }
  checkPresence(rule, map)
  return { rule, map }
}

/** Makes later messages name the rule by its id, if it is valid, instead of its position. */
function scopeToRule(located: Located): Located {
  const { node } = located
  const id = node.kind === 'map' ? node.entries.get('id')?.value : undefined
  const rule = id?.kind === 'scalar' && typeof id.value === 'string' ? id.value : ''
  return ID.test(rule) ? locateRule(node, rule, located.report) : located
}

export function locateRule<T extends Node>(
  node: T,
  rule: string,
  report: ReportDiagnostic,
): Located<T> {
  return { node, field: RULE, report: (diagnostic) => report({ rule, ...diagnostic }) }
}

function readId(located: Located): string | undefined {
  const id = readText(located, { accepted: ACCEPTED_ID, most: Number.POSITIVE_INFINITY })
  if (id === undefined || ID.test(id)) return id
  return reportAt(located, 'bad-id', { accepted: ACCEPTED_ID, suggestion: slug(id) })
}

function readDescription(located: Located): string | undefined {
  return readText(located, { accepted: 'text', most: DESCRIPTION_LENGTH_MAX })
}

function readCost(located: Located): Cost | undefined {
  if (located.node.kind === 'map') {
    const map = readMap(located, ['attribute'])
    if (map === undefined) return undefined
    const accepted = 'the attribute that holds the cost'
    const attribute = readRequired(map, 'attribute', { accepted, read: readAttributeName })
    return attribute === undefined ? undefined : { attribute }
  }
  const cost = readNumber(located, ACCEPTED_COST)
  if (cost === undefined || (Number.isInteger(cost) && cost >= 0 && cost <= COST_MAX)) return cost
  return reportAt(located, 'bad-number', { accepted: ACCEPTED_COST })
}

function readPosture(located: Located): Posture | undefined {
  if (located.node.kind === 'map') {
    const map = readMap(located, ['local'])
    if (map === undefined) return undefined
    const local = readRequired(map, 'local', { accepted: ACCEPTED_FACTOR, read: readFactor })
    return local === undefined ? undefined : { local }
  }
  const posture = readChoice(located, POSTURES, `${POSTURES.join(', ')}, { local: factor }`)
  return posture === 'local' ? { local: 1 } : posture
}

function readFactor(located: Located): number | undefined {
  const factor = readNumber(located, ACCEPTED_FACTOR)
  if (factor === undefined || (factor > 0 && factor <= FACTOR_MAX)) return factor
  return reportAt(located, 'bad-number', { accepted: ACCEPTED_FACTOR })
}

function readDeadline(located: Located): number | undefined {
  const ms = readDuration(located)
  if (ms === undefined || (ms >= DEADLINE_MS_MIN && ms <= DEADLINE_MS_MAX)) return ms
  return reportAt(located, 'bad-duration', { accepted: ACCEPTED_DEADLINE })
}

/**
 * Checks that limits allow the cost of one call, at least 1 times the factor. For a rule without
 * problems: only then are its limits known.
 */
export function checkCost({ rule, map }: LocatedRule): void {
  if (typeof rule.cost !== 'number' || rule.cost <= 1) return
  for (const { located, limit } of locatedLimitsOf(rule, map))
    checkCostOf(limit, rule.cost, located)
}

export function checkCostOf(limit: LimitSpec, cost: Cost, located: Located): void {
  if (typeof cost !== 'number' || cost <= 1) return
  const { capacity } = defineLimit(limit)
  const most = capacity + moduleOf(limit).unitsBeyondCapacity
  // A limit of 0 refuses all calls on purpose.
  if (capacity === 0 || cost <= most) return
  reportAt(located, 'cost-above-limit', {
    found: `cost ${cost}`,
    why: `the ${most} that this limit holds at most`,
    accepted: `a cost up to ${most}, or a larger limit or burst`,
  })
}

/**
 * Reports a rule that requires an attribute of `by` to be absent: it counts only calls that have
 * it.
 */
function checkPresence({ by, match }: Rule, map: Located<MapNode>): void {
  for (const attribute of by) {
    if (match.where.get(attribute) !== null) continue
    reportAt(fieldOf(map, 'by') ?? map, 'never-matches', {
      found: `by ${attribute} where ${attribute} is absent`,
      accepted: `another attribute to count by, or no "${attribute}: null" in match.where`,
    })
  }
}
