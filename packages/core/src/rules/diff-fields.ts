/** Formats the fields of a rule as short texts and lists those that differ between two rules. */
import { show } from '../errors.js'
import { formatDuration } from '../text/duration.js'
import type { LimitSpec } from '../limit.js'
import { limitSpecText } from '../text/limit-text.js'
import {
  type Classification,
  type Headroom,
  isExclusion,
  type Rule,
  type RuleSet,
  type Shares,
  type ShedSpec,
  type Tiers,
  type WhereClause,
} from './rule.js'
import { quote } from './tree.js'

export interface FieldChange {
  readonly field: string
  /** Empty if the field was absent. */
  readonly before: string
  /** Empty if the field was removed. */
  readonly after: string
}

/** The contents of a field: a text, or a list, of which a long one is only counted. */
type FieldContents = string | readonly string[]
type Fields = readonly (readonly [field: string, said: FieldContents])[]

/** A longer list is reported by how many items were added and removed. */
const LISTED_MAX = 8
const TEXT_LENGTH_MAX = 1000

/** Defaults that are not reported for an added or removed rule. */
const DEFAULTS: ReadonlyMap<string, string> = new Map([
  ['cost', '1'],
  ['mode', 'enforce'],
  ['coordination', 'exact'],
  ['maxStranded', '0.05'],
  ['syncEvery', '100ms'],
  ['regions', 'merged'],
  ['posture', 'local'],
  ['hedge', 'false'],
  ['durable', 'false'],
  ['onExpiry', 'charge'],
  ['tag', 'false'],
])

/** One entry per field of a rule; the compiler reports a missing one. */
const FIELDS: {
  readonly [Name in Exclude<keyof Rule, 'id' | 'overrides'>]: (rule: Rule) => Fields
} = {
  description: ({ description }) => optional('description', description),
  match: ({ match }) => [
    ...(match.method.length === 0 ? [] : [['match.method', match.method] as const]),
    ...optional('match.path', match.path),
    ...[...match.where].map(([name, clause]) => whereField(name, clause)),
  ],
  by: ({ by }) => [['by', listText(by)]],
  limits: ({ limits }) => [['limits', limitsText(limits)]],
  tiers: ({ tiers }) => tierFields(tiers, ''),
  cost: ({ cost }) => [
    ['cost', typeof cost === 'number' ? String(cost) : `{ attribute: ${cost.attribute} }`],
  ],
  mode: ({ mode }) => [['mode', mode]],
  coordination: ({ coordination }) => [['coordination', coordination]],
  maxStranded: ({ maxStranded }) => [['maxStranded', String(maxStranded)]],
  syncEveryMs: ({ syncEveryMs }) => [['syncEvery', formatDuration(syncEveryMs)]],
  regions: ({ regions }) => [['regions', regions]],
  tolerance: ({ tolerance }) =>
    optional('tolerance', tolerance === undefined ? undefined : `${tolerance / 100}%`),
  posture: ({ posture }) => [['posture', postureText(posture)]],
  deadlineMs: ({ deadlineMs }) =>
    optional('deadline', deadlineMs === undefined ? undefined : formatDuration(deadlineMs)),
  hedge: ({ hedge }) => [['hedge', String(hedge)]],
  durable: ({ durable }) => [['durable', String(durable)]],
  headroom: ({ headroom }) => optional('headroom', headroom && sharesText(headroom)),
  protects: ({ protects }) => optional('protects', protects),
  onExpiry: ({ onExpiry }) => [['onExpiry', onExpiry]],
  tag: ({ tag }) => [['tag', String(tag)]],
  candidate: ({ candidate }) =>
    candidate === undefined
      ? []
      : [
          ['candidate.limits', limitsText(candidate.limits)],
          ...tierFields(candidate.tiers, 'candidate.'),
        ],
}

/** Returns the changed fields; for an added or removed rule, all fields that are not defaults. */
export function ruleFields(before: Rule | undefined, after: Rule | undefined) {
  const changes = changesOf(fieldsOf(before), fieldsOf(after))
  if (before !== undefined && after !== undefined) return changes
  return changes.filter(
    ({ field, before: was, after: is }) => DEFAULTS.get(field) !== (was === '' ? is : was),
  )
}

export function setFields(before: RuleSet, after: RuleSet): readonly FieldChange[] {
  const contents = ({
    routes,
    strictPaths,
    priorities,
    classify,
    shed,
    shares,
  }: RuleSet): Fields => [
    ['routes', routes],
    ['strictPaths', String(strictPaths)],
    ...(priorities === undefined ? [] : [['priorities', priorities] as const]),
    ...(classify === undefined ? [] : [['classify', classify.map(lineText)] as const]),
    ...optional('shed', shed && shedText(shed)),
    ...optional('shares', shares && sharesText(shares)),
  ]
  return changesOf(contents(before), contents(after))
}

/** Returns `tiers.plan.pro`; a value that is not a plain name is quoted. */
export function tierField(attribute: string, value: string): string {
  return `tiers.${attribute}.${fieldKey(value)}`
}

/** `[10/second, 1000/hour]`; `no limit` for none. */
function limitsText(limits: readonly LimitSpec[]): string {
  return limits.length === 0 ? 'no limit' : `[${limits.map(limitSpecText).join(', ')}]`
}

export function listText(items: readonly string[]): string {
  return `[${items.map(itemText).join(', ')}]`
}

function fieldsOf(rule: Rule | undefined): Fields {
  return rule === undefined ? [] : Object.values(FIELDS).flatMap((read) => read(rule))
}

function changesOf(before: Fields, after: Fields): readonly FieldChange[] {
  const was = new Map(before)
  const is = new Map(after)
  const fields = new Set([...was.keys(), ...is.keys()])
  return [...fields].flatMap((field) => {
    const [old, now] = [was.get(field), is.get(field)]
    if (isSame(old, now)) return []
    return [{ field, before: contentsText(old), after: changedText(old, now) }]
  })
}

function isSame(before: FieldContents | undefined, after: FieldContents | undefined): boolean {
  if (typeof before !== 'object' || typeof after !== 'object') return before === after
  return before.length === after.length && before.every((item, i) => item === after[i])
}

/** Adds to a long list what changed: truncated, it would look the same before and after. */
function changedText(before: FieldContents | undefined, after: FieldContents | undefined): string {
  if (typeof before !== 'object' || typeof after !== 'object') return contentsText(after)
  if (Math.max(before.length, after.length) <= LISTED_MAX) return contentsText(after)
  const [was, is] = [new Set(before), new Set(after)]
  const added = after.filter((item) => !was.has(item)).length
  const removed = before.filter((item) => !is.has(item)).length
  const what = [
    ...(added > 0 ? [`${added} added`] : []),
    ...(removed > 0 ? [`${removed} removed`] : []),
  ].join(', ')
  return `${after.length} values, ${what === '' ? 'in another order' : what}`
}

function contentsText(contents: FieldContents | undefined): string {
  if (contents === undefined) return ''
  if (typeof contents === 'string') return show(contents, TEXT_LENGTH_MAX)
  return contents.length <= LISTED_MAX ? listText(contents) : `${contents.length} values`
}

function itemText(item: string): string {
  return /^[\w.:/*@ -]{1,128}$/.test(item) ? item : quote(item)
}

/** Excluded values have a separate field, as in the rule. */
function whereField(name: string, clause: WhereClause): readonly [string, FieldContents] {
  const field = `match.where.${fieldKey(name)}`
  return isExclusion(clause) ? [`${field}.not`, clause.not] : [field, clause ?? 'absent']
}

/** Quotes a key that is not a plain name, as in problems: it could forge the rest of the text. */
function fieldKey(key: string): string {
  return /^[\w.-]{1,64}$/.test(key) ? key : quote(key)
}

function optional(field: string, contents: string | undefined): Fields {
  return contents === undefined ? [] : [[field, contents]]
}

function tierFields(tiers: Tiers | undefined, prefix: string): Fields {
  if (tiers === undefined) return []
  return [...tiers.limits].map(
    ([value, limits]) => [prefix + tierField(tiers.attribute, value), limitsText(limits)] as const,
  )
}

/** `{ critical: 20%, writes: 5% }` */
function sharesText(shares: Headroom | Shares): string {
  const texts = [...shares].map(([name, share]) => `${fieldKey(name)}: ${share / 100}%`)
  return `{ ${texts.join(', ')} }`
}

function shedText({ loopMs, keep, most, mode }: ShedSpec): string {
  const loop = formatDuration(loopMs)
  return `{ loop: ${loop}, keep: ${listText(keep)}, most: ${most / 100}%, mode: ${mode} }`
}

/** `GET /v1/* where plan is [free]: reads` */
function lineText({ match, as }: Classification): string {
  const { method, path, where } = match
  const conditions = [...where].map(([name, clause]) => {
    const [, contents] = whereField(name, clause)
    return `${fieldKey(name)} is ${isExclusion(clause) ? 'not ' : ''}${contentsText(contents)}`
  })
  const parts = [
    ...(method.length === 0 ? [] : [method.join(' or ')]),
    ...(path === undefined ? [] : [path]),
    ...(conditions.length === 0 ? [] : [`where ${conditions.join(' and ')}`]),
  ]
  return `${parts.length === 0 ? 'every call' : parts.join(' ')}: ${as}`
}

function postureText(posture: Rule['posture']): string {
  if (typeof posture === 'string') return posture
  return posture.local === 1 ? 'local' : `{ local: ${posture.local} }`
}
