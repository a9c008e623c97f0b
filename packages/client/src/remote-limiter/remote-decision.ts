/** Decisions of the remote limiter: those that the server sent, and those without it. */
import { isRecord } from '../read-problem.js'
import type {
  DecisionFields,
  DecisionLike,
  Posture,
  RemoteDecision,
  RemotePolicy,
} from './decision-types.js'

const NO_POLICIES: readonly RemotePolicy[] = []

/** Undefined if it is not a decision. */
export function readDecision(value: unknown): RemoteDecision | undefined {
  if (!isRecord(value) || !isDecision(value)) return undefined
  const { policies, ...fields } = value
  for (const name of METHODS) if (Object.hasOwn(fields, name)) Reflect.deleteProperty(fields, name)
  return new FieldsDecision(fields, Array.isArray(policies) ? policies.filter(isPolicy) : [])
}

type SentDecision = DecisionFields & { readonly policies?: unknown }

function isDecision(
  value: Readonly<Record<string, unknown>>,
): value is SentDecision & typeof value {
  const { allowed, reason, source, delayMs, shadow, retryAfterMs } = value
  return (
    typeof allowed === 'boolean' &&
    typeof reason === 'string' &&
    typeof source === 'string' &&
    typeof delayMs === 'number' &&
    Array.isArray(shadow) &&
    (typeof retryAfterMs === 'number' || retryAfterMs === null)
  )
}

function isPolicy(value: unknown): value is RemotePolicy {
  return isRecord(value) && typeof value['name'] === 'string' && typeof value['limit'] === 'number'
}

/** How long a caller waits that was refused because the server does not answer. */
const POSTURE_RETRY_MS = 1000

/** The decision of a call that the server did not answer. */
export function postureDecision(posture: Posture): RemoteDecision {
  const allowed = posture === 'open'
  const fields: DecisionFields = {
    allowed,
    reason: 'posture',
    rule: null,
    limitName: null,
    limit: null,
    remaining: null,
    resetAfterMs: null,
    retryAfterMs: allowed ? 0 : POSTURE_RETRY_MS,
    delayMs: 0,
    shadow: [],
    source: 'posture',
    postures: { '': posture },
  }
  return new FieldsDecision(fields, NO_POLICIES)
}

/** A decision of the fallback, marked as one that the server did not make. */
export function fallbackDecision(decided: DecisionLike, receipt: string | undefined) {
  const { receipt: _, ...fields } = { ...decided }
  return new FieldsDecision(
    { ...fields, source: 'posture', ...(receipt !== undefined && { receipt }) },
    decided.policies(),
  )
}

/** The same decision without the receipt that only this limiter needed. */
export function withoutReceipt(decision: RemoteDecision): RemoteDecision {
  const { receipt: _, ...fields } = { ...decision }
  return new FieldsDecision(fields, decision.policies())
}

class FieldsDecision implements RemoteDecision {
  declare readonly allowed: boolean
  declare readonly reason: RemoteDecision['reason']
  declare readonly rule: string | null
  declare readonly limitName: string | null
  declare readonly limit: number | null
  declare readonly remaining: number | null
  declare readonly resetAfterMs: number | null
  declare readonly retryAfterMs: number | null
  declare readonly delayMs: number
  declare readonly shadow: readonly string[]
  declare readonly source: RemoteDecision['source']
  declare readonly priority?: string
  declare readonly staleMs?: number
  declare readonly receipt?: string
  declare readonly reservation?: string
  declare readonly postures?: NonNullable<RemoteDecision['postures']>
  readonly #policies: readonly RemotePolicy[]

  constructor(fields: DecisionFields, policies: readonly RemotePolicy[]) {
    Object.assign(this, fields)
    this.#policies = policies
  }

  policies(): readonly RemotePolicy[] {
    return this.#policies
  }

  policyField(): string {
    const items = this.#policies.map(({ name, limit, windowMs, window }) => {
      const quota = `"${name}";q=${limit}`
      if (windowMs === 0) return `${quota};qu="concurrent-requests"`
      // Windows of a calendar differ in length.
      const hasLength = window === undefined && windowMs % 1000 === 0
      return hasLength ? `${quota};w=${windowMs / 1000}` : quota
    })
    return items.join(', ')
  }

  leftField(jitterMs: number): string {
    const items = this.#policies.map(({ name, remaining, resetAfterMs, retryAfterMs }) => {
      const left = `"${name}";r=${remaining}`
      const timeMs = this.allowed ? resetAfterMs : retryAfterMs
      // A limit that did not refuse has no time: it could be later than that of the refusal.
      if (timeMs === null || (!this.allowed && timeMs === 0)) return left
      return `${left};t=${Math.ceil((timeMs + jitterMs) / 1000)}`
    })
    return items.join(', ')
  }

  eachRule(visit: (rule: string, outcome: 'allowed' | 'refused' | 'shadow_refused') => void): void {
    const rules = new Map<string, boolean>()
    for (const { rule, retryAfterMs } of this.#policies) {
      rules.set(rule, (rules.get(rule) ?? true) && retryAfterMs === 0)
    }
    for (const [rule, hasRoom] of rules) visit(rule, hasRoom ? 'allowed' : 'refused')
    for (const id of this.shadow) visit(id, 'shadow_refused')
    if (rules.size === 0 && this.shadow.length === 0)
      visit('', this.allowed ? 'allowed' : 'refused')
  }

  eachCaller(): void {}

  bound(): undefined {}

  shadowRefusals(): readonly never[] {
    return []
  }

  tags(): readonly string[] {
    return []
  }

  degraded(visit: Parameters<RemoteDecision['degraded']>[0]): void {
    for (const [rule, posture] of Object.entries(this.postures ?? {})) visit(rule, posture)
  }

  dropped(): void {}
}

/** A field of one of these names, which a later server may send, would replace the method. */
const METHODS = Object.getOwnPropertyNames(FieldsDecision.prototype)
