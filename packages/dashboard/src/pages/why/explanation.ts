/** Reads the explanation of a decision defensively, and summarizes it in one sentence. */
import type { DecisionSource, AdminDecisionView } from '@sluice/client'
import { count } from '../../format.js'
import { isRecord, valueText } from '@sluice/core/text'
import { waitText } from '../rules/rule-text.js'

export interface LimitExplanation {
  readonly name: string
  readonly algorithm: string
  readonly limit: number
  /** How much of the limit the priority of the call may use; undefined: all. */
  readonly ceiling: number | undefined
  readonly windowMs: number
  /** Only for a calendar window: its unit and zone. */
  readonly calendar: string | undefined
  readonly isCandidate: boolean
  readonly amount: number
  readonly remaining: number
  readonly resetAfterMs: number
  /** 0: within the limit. Null: no wait helps. */
  readonly retryAfterMs: number | null
  readonly delayMs: number
  readonly state: unknown
  readonly staleMs: number
  readonly posture: string | undefined
  /** How many blocks in a row the caller had, the present one included. */
  readonly blocks: number
  readonly isBlocked: boolean
}

export interface RuleExplanation {
  readonly rule: string
  readonly isMatched: boolean
  readonly why: string | null
  readonly mode: string
  readonly hash: string | null
  readonly caller: Readonly<Record<string, string>> | undefined
  /** The caller or network of the override that applies; undefined: none does. */
  readonly override: string | undefined
  /** What the rule depends on besides the call; undefined: nothing. */
  readonly note: string | undefined
  readonly limits: readonly LimitExplanation[]
}

export interface Explanation {
  readonly isAllowed: boolean
  readonly refusedBy: string | undefined
  /** The decision in one sentence. */
  readonly summary: string
  /** Undefined if the rule set has no priorities. */
  readonly priority: string | undefined
  /** What decided, and how old its data was. */
  readonly decidedBy: string
  readonly matched: readonly RuleExplanation[]
  readonly unmatched: readonly RuleExplanation[]
  /** Rules and candidates that would have refused the call if enforced. */
  readonly shadow: readonly string[]
}

const SOURCE_TEXTS: ReadonlyMap<string, string> = new Map<DecisionSource, string>([
  ['store', 'by the store'],
  ['lease', 'by this node, from a lease'],
  ['local', 'by this node, from its own counts'],
  ['deny-cache', 'by this node, from a refusal it remembers'],
  ['posture', 'on store failure, by the setting of each rule'],
])

export function explainDecision(decision: AdminDecisionView): Explanation {
  const explainField: unknown = decision['explain']
  const rules = Array.isArray(explainField)
    ? explainField.filter(isRecord).map(ruleOf(decision))
    : []
  const { staleMs, priority } = decision
  const decidedBy = decidedByText(decision)
  return {
    isAllowed: decision.allowed,
    refusedBy: decision.allowed || decision.rule === null ? undefined : valueText(decision.rule),
    summary: decisionSummary(decision),
    priority: typeof priority === 'string' ? priority : undefined,
    decidedBy: staleMs === undefined ? decidedBy : `${decidedBy}, ${waitText(staleMs)} old`,
    matched: rules.filter(({ isMatched }) => isMatched),
    unmatched: rules.filter(({ isMatched }) => !isMatched),
    shadow: listOf(decision['shadow']),
  }
}

function decidedByText({ source, reason, rule }: AdminDecisionView): string {
  if (reason === 'shed' && rule === null) return 'by this node, before any rule'
  return SOURCE_TEXTS.get(source) ?? valueText(source)
}

const numberOf = (value: unknown): number => (typeof value === 'number' ? value : 0)
const listOf = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.map(valueText) : []

/** `Refused by orders-per-user/hourly: 0 of 1,000 left, retry in 37 s.` */
export function decisionSummary(decision: AdminDecisionView): string {
  const { allowed, reason } = decision
  const rule = typeof decision.rule === 'string' ? decision.rule : undefined
  if (reason === 'shed' && rule === undefined) return 'Shed: this node is too busy.'
  if (reason === 'unmatched' || rule === undefined) {
    return 'Allowed: no rule with a limit matches this request.'
  }
  const limitName = decision['limitName']
  const limitPath = typeof limitName === 'string' ? `${rule}/${limitName}` : rule
  const left = `${count(numberOf(decision['remaining']))} of ${count(numberOf(decision['limit']))} left`
  if (allowed) return allowedText(decision, limitPath, left)
  if (reason === 'cost_exceeds_limit') {
    return `Refused by ${limitPath}: the request costs more than the limit of ${count(numberOf(decision['limit']))} can ever hold.`
  }
  const retry = decision['retryAfterMs']
  const then =
    typeof retry === 'number' ? `retry in ${waitText(retry)}` : 'and waiting does not help'
  if (reason === 'blocked') {
    return `Blocked by ${limitPath} for going over its limit: ${then}.`
  }
  if (reason === 'shed') {
    const { priority } = decision
    const whose = typeof priority === 'string' ? ` for priority ${priority}` : ''
    return `Shed by ${limitPath} to protect capacity: ${left}${whose}, ${then}.`
  }
  const posture = reason === 'posture' ? ' on store failure' : ''
  return `Refused by ${limitPath}${posture}: ${left}, ${then}.`
}

function allowedText(decision: AdminDecisionView, limitPath: string, left: string): string {
  const delay = numberOf(decision['delayMs'])
  const delayText = delay > 0 ? ` after a delay of ${waitText(delay)}` : ''
  const posture = decision.reason === 'posture' ? ' on store failure' : ''
  return `Allowed${posture}${delayText}: ${left} of the tightest limit, ${limitPath}.`
}

function ruleOf({
  callers,
}: AdminDecisionView): (fields: Readonly<Record<string, unknown>>) => RuleExplanation {
  return ({ rule, matched, why, mode, caller, override, note, limits }) => ({
    rule: valueText(rule),
    isMatched: matched === true,
    why: typeof why === 'string' ? why : null,
    mode: valueText(mode),
    hash: typeof caller === 'string' ? caller : null,
    caller: callers.find((each) => each.rule === rule)?.caller,
    override: isRecord(override) ? overrideText(override) : undefined,
    note: typeof note === 'string' ? note : undefined,
    limits: Array.isArray(limits) ? limits.filter(isRecord).map(limitOf) : [],
  })
}

function overrideText(override: Readonly<Record<string, unknown>>): string {
  const parts = Object.entries(override).map(([name, value]) => `${name}=${valueText(value)}`)
  return parts.length === 0 ? 'all callers' : parts.join(', ')
}

/** `calendar month, Europe/Berlin`. */
function calendarText({ window, zone }: Readonly<Record<string, unknown>>): string | undefined {
  if (window === undefined) return undefined
  return `calendar ${valueText(window)}, ${valueText(zone)}`
}

function limitOf(fields: Readonly<Record<string, unknown>>): LimitExplanation {
  const { name, algorithm, ceiling, retryAfterMs, posture, state, block } = fields
  return {
    name: valueText(name),
    algorithm: valueText(algorithm),
    limit: numberOf(fields['limit']),
    ceiling: typeof ceiling === 'number' ? ceiling : undefined,
    windowMs: numberOf(fields['windowMs']),
    calendar: calendarText(fields),
    isCandidate: fields['candidate'] === true,
    amount: numberOf(fields['amount']),
    remaining: numberOf(fields['remaining']),
    resetAfterMs: numberOf(fields['resetAfterMs']),
    retryAfterMs: typeof retryAfterMs === 'number' ? retryAfterMs : null,
    delayMs: numberOf(fields['delayMs']),
    state: state ?? null,
    staleMs: numberOf(fields['staleMs']),
    posture: typeof posture === 'string' ? posture : undefined,
    blocks: isRecord(block) ? numberOf(block['times']) : 0,
    isBlocked: isRecord(block) && typeof block['untilMs'] === 'number',
  }
}

/** What one limit decides for this call. */
export function limitVerdict(limit: LimitExplanation): string {
  const { retryAfterMs, delayMs, isBlocked, blocks } = limit
  if (retryAfterMs === null) return 'can never allow this cost'
  if (isBlocked) return `blocked, ${blocks} in a row: retry in ${waitText(retryAfterMs)}`
  if (retryAfterMs > 0) return `exhausted: retry in ${waitText(retryAfterMs)}`
  return delayMs > 0 ? `within the limit after ${waitText(delayMs)}` : 'within the limit'
}

type Holder = Readonly<Record<'holder' | 'places' | 'expiresAtMs', number>>

/** A node that holds places of a limit of concurrency. */
function isHolder(value: unknown): value is Holder {
  return isRecord(value) && typeof value['holder'] === 'number'
}

function holderText({ holder, places, expiresAtMs }: Holder): string {
  const until = new Date(expiresAtMs).toISOString()
  return `node ${holder}: ${places} in flight, until ${until} unless renewed`
}

/** The state of a counter, field by field, as the algorithm stores it. */
export function stateText(state: unknown): string {
  if (state === null) return 'no counter yet: the full budget is available'
  if (Array.isArray(state) && state.every(isHolder)) return state.map(holderText).join(', ')
  if (!isRecord(state)) return valueText(state)
  return Object.entries(state)
    .map(([name, value]) => `${name} ${valueText(value).slice(0, 200)}`)
    .join(', ')
}
