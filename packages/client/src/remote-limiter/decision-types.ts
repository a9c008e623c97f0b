/**
 * The types of the remote limiter. They have the shape of those of @sluice/limiter, so that its
 * middlewares accept them, without an import of it: users of this package need no other. A test
 * keeps both assignable.
 */
import type { DecisionView, PostureName, SettlementView } from '../api-types.js'

type AlgorithmName =
  | 'token-bucket'
  | 'gcra'
  | 'leaky-bucket'
  | 'fixed-window'
  | 'sliding-window-counter'
  | 'sliding-window-log'
  | 'concurrency'

export type Posture = 'open' | 'closed'

export type RemoteAttribute = string | number | bigint | boolean | null | undefined

/** One call: who or what it is, and how much it takes. */
export interface RemoteCall {
  readonly attributes: Readonly<Record<string, RemoteAttribute>>
  /** @default 1 */
  readonly cost?: number | undefined
}

export interface RemoteCheckOptions {
  /**
   * Whether the decision has a receipt, by which `refund` returns what it took; `'if-delayed'`:
   * only if the call has to wait. @default false
   */
  readonly receipt?: boolean | 'if-delayed' | undefined
  /** Whether the call can be delayed; if not, a needed delay is a refusal. @default true */
  readonly canWait?: boolean | undefined
  /**
   * Whether the call only passes through gates: nothing is charged, its cost is ignored, and it is
   * refused where a limit has nothing left. @default false
   */
  readonly gate?: boolean | undefined
}

export interface RemoteReserveOptions {
  /** How long it lasts: a duration such as `90s`, or milliseconds; `1s` to `1h`. @default 60s */
  readonly ttl?: string | number | undefined
  /** The same caller with the same key gets the same reservation, charged once. */
  readonly idempotencyKey?: string | undefined
  /** Whether the call can be delayed; if not, a needed delay is a refusal. @default true */
  readonly canWait?: boolean | undefined
}

/** Options of `extend`. */
export interface RemoteExtendOptions {
  /** The same handle with the same key is extended once, and charged once. */
  readonly idempotencyKey?: string | undefined
}

/** What was used: a number, or one for each cost attribute. */
export type ActualCosts = number | Readonly<Record<string, number>>

/** A decision that reserved costs, and the verbs that end it. */
export interface RemoteReservation extends RemoteDecision {
  /**
   * Whether it may hold places of limits of concurrency until it ends. Only the server knows its
   * rules, so this is so for each that was made: middlewares end it with its call.
   */
  holdsPlaces(): boolean
  settle(actual: ActualCosts): Promise<SettlementView>
  extend(
    attributes: RemoteCall['attributes'],
    options?: RemoteExtendOptions,
  ): Promise<RemoteReservation>
  cancel(): Promise<SettlementView>
}

/** One enforced limit, as headers show it. */
export interface RemotePolicy {
  readonly name: string
  readonly rule: string
  readonly limitName: string
  readonly algorithm: AlgorithmName
  readonly start?: 'clock' | 'call' | undefined
  readonly window?: 'month' | 'week' | 'day'
  readonly zone?: string
  readonly limit: number
  readonly windowMs: number
  readonly remaining: number
  readonly resetAfterMs: number
  /** 0 if the limit had room; null if it never will. */
  readonly retryAfterMs: number | null
}

/** The fields of a decision, as the decision API sends them. */
export type DecisionFields = Omit<DecisionView, 'policies'>

/** A decision with the methods by which a middleware writes headers and bodies. */
export interface RemoteDecision extends DecisionFields {
  policies(): readonly RemotePolicy[]
  policyField(): string
  leftField(jitterMs: number): string
  /** Visits the enforced rules, and the shadow rules that would have refused. */
  eachRule(visit: (rule: string, outcome: 'allowed' | 'refused' | 'shadow_refused') => void): void
  /** Visits nothing: the server does not send callers. */
  eachCaller(visit: (...caller: never[]) => void): void
  bound(): undefined
  shadowRefusals(): readonly never[]
  tags(): readonly string[]
  /** Visits the rules that were decided by posture; `''` if the server did not answer. */
  degraded(visit: (rule: string, posture: PostureName) => void): void
  /** Visits nothing: the server counts what exceeds a debt. */
  dropped(visit: (rule: string, units: number) => void): void
}

/** What decides while the server does not answer, such as a limiter of @sluice/limiter. */
export interface FallbackLimiter {
  check(call: RemoteCall, options?: RemoteCheckOptions): Promise<DecisionLike>
  peek?(call: RemoteCall): Promise<DecisionLike>
  refund?(receipt: string): Promise<void>
}

/** The part of a decision that the remote limiter passes on. */
export type DecisionLike = DecisionFields &
  Pick<RemoteDecision, 'policies' | 'policyField' | 'leftField' | 'eachRule'>
