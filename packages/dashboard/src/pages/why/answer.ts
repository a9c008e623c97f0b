/** What the server explains of a call, read with care, and the answer to "why?" in one sentence. */
import type { DecisionSource, DecisionView } from '@sluice/client'
import { count } from '../../format.js'
import { isRecord, waitText, wordOf } from '../rules/rule-text.js'

export interface LimitAnswer {
  readonly name: string
  readonly algorithm: string
  readonly limit: number
  readonly windowMs: number
  readonly isCandidate: boolean
  readonly amount: number
  readonly remaining: number
  readonly resetAfterMs: number
  /** 0: it has room. Null: it never will. */
  readonly retryAfterMs: number | null
  readonly delayMs: number
  readonly state: unknown
  readonly staleMs: number
  readonly posture: string | undefined
}

export interface RuleAnswer {
  readonly rule: string
  readonly isMatched: boolean
  readonly why: string | null
  readonly mode: string
  readonly hash: string | null
  readonly caller: Readonly<Record<string, string>> | undefined
  /** Whom the override is for that holds, perhaps a network; undefined: none does. */
  readonly override: string | undefined
  readonly limits: readonly LimitAnswer[]
}

export interface Answer {
  readonly isAllowed: boolean
  readonly refusedBy: string | undefined
  /** One sentence. */
  readonly said: string
  /** Who decided, and from how old a knowledge. */
  readonly decided: string
  readonly matched: readonly RuleAnswer[]
  readonly passed: readonly RuleAnswer[]
  /** Rules and candidates that would have refused it, were they enforced. */
  readonly shadow: readonly string[]
}

const DECIDED: ReadonlyMap<string, string> = new Map<DecisionSource, string>([
  ['store', 'by the store'],
  ['lease', 'by this node, from a lease'],
  ['local', 'by this node, from its own counts'],
  ['deny-cache', 'by this node, from a refusal it remembers'],
  ['posture', 'by the postures of the rules, because the store does not answer'],
])

export function answerOf(decision: DecisionView): Answer {
  const explain: unknown = decision['explain']
  const rules = Array.isArray(explain) ? explain.filter(isRecord).map(ruleOf(decision)) : []
  const { staleMs } = decision
  const decided = DECIDED.get(decision.source) ?? wordOf(decision.source)
  return {
    isAllowed: decision.allowed,
    refusedBy: decision.allowed || decision.rule === null ? undefined : wordOf(decision.rule),
    said: sentenceOf(decision),
    decided: staleMs === undefined ? decided : `${decided}, known since ${waitText(staleMs)}`,
    matched: rules.filter(({ isMatched }) => isMatched),
    passed: rules.filter(({ isMatched }) => !isMatched),
    shadow: listOf(decision['shadow']),
  }
}

const numberOf = (value: unknown): number => (typeof value === 'number' ? value : 0)
const listOf = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.map(wordOf) : []

/** `Refused by orders-per-user/hourly: 0 of 1,000 left, retry in 37 s.` */
export function sentenceOf(decision: DecisionView): string {
  const { allowed, reason } = decision
  const rule = typeof decision.rule === 'string' ? decision.rule : undefined
  if (reason === 'unmatched' || rule === undefined) {
    return 'Allowed: no rule with a limit matches this call.'
  }
  const limitName = decision['limitName']
  const named = typeof limitName === 'string' ? `${rule}/${limitName}` : rule
  const left = `${count(numberOf(decision['remaining']))} of ${count(numberOf(decision['limit']))} left`
  if (allowed) return allowedBy(decision, named, left)
  if (reason === 'cost_exceeds_limit') {
    return `Refused by ${named}: the call costs more than the limit of ${count(numberOf(decision['limit']))} can ever hold.`
  }
  const retry = decision['retryAfterMs']
  const then = typeof retry === 'number' ? `retry in ${waitText(retry)}` : 'and no wait helps'
  const posture = reason === 'posture' ? ' by its posture, without the store' : ''
  return `Refused by ${named}${posture}: ${left}, ${then}.`
}

function allowedBy(decision: DecisionView, named: string, left: string): string {
  const delay = numberOf(decision['delayMs'])
  const held = delay > 0 ? `, held for ${waitText(delay)}` : ''
  const posture = decision.reason === 'posture' ? ' by posture, without the store' : ''
  return `Allowed${posture}${held}: ${left} of the tightest limit, ${named}.`
}

function ruleOf({
  callers,
}: DecisionView): (told: Readonly<Record<string, unknown>>) => RuleAnswer {
  return ({ rule, matched, why, mode, caller, override, limits }) => ({
    rule: wordOf(rule),
    isMatched: matched === true,
    why: typeof why === 'string' ? why : null,
    mode: wordOf(mode),
    hash: typeof caller === 'string' ? caller : null,
    caller: callers.find((each) => each.rule === rule)?.caller,
    override: isRecord(override) ? overrideText(override) : undefined,
    limits: Array.isArray(limits) ? limits.filter(isRecord).map(limitOf) : [],
  })
}

function overrideText(override: Readonly<Record<string, unknown>>): string {
  const parts = Object.entries(override).map(([name, value]) => `${name}=${wordOf(value)}`)
  return parts.length === 0 ? 'everybody' : parts.join(', ')
}

function limitOf(told: Readonly<Record<string, unknown>>): LimitAnswer {
  const { name, algorithm, retryAfterMs, posture, state } = told
  return {
    name: wordOf(name),
    algorithm: wordOf(algorithm),
    limit: numberOf(told['limit']),
    windowMs: numberOf(told['windowMs']),
    isCandidate: told['candidate'] === true,
    amount: numberOf(told['amount']),
    remaining: numberOf(told['remaining']),
    resetAfterMs: numberOf(told['resetAfterMs']),
    retryAfterMs: typeof retryAfterMs === 'number' ? retryAfterMs : null,
    delayMs: numberOf(told['delayMs']),
    state: state ?? null,
    staleMs: numberOf(told['staleMs']),
    posture: typeof posture === 'string' ? posture : undefined,
  }
}

/** What a limit says to this call. */
export function verdictOf({ retryAfterMs, delayMs }: LimitAnswer): string {
  if (retryAfterMs === null) return 'never has room'
  if (retryAfterMs > 0) return `full: room in ${waitText(retryAfterMs)}`
  return delayMs > 0 ? `room after ${waitText(delayMs)}` : 'has room'
}

/** A counter's state as the algorithm keeps it, field by field. */
export function stateText(state: unknown): string {
  if (state === null) return 'no counter yet: the whole budget is there'
  if (!isRecord(state)) return wordOf(state)
  return Object.entries(state)
    .map(([name, value]) => `${name} ${wordOf(value).slice(0, 200)}`)
    .join(', ')
}
