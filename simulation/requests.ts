/** The messages between a node and the store. */
import type { CounterKey, Take } from '@sluice/core'
import type { Answer, Charge, Give, Groups, PeekOutcome } from '@sluice/limiter'

export type Operation =
  | { readonly verb: 'take'; readonly groups: Groups<Take>; readonly states: boolean }
  | { readonly verb: 'peek'; readonly groups: Groups<Take> }
  | { readonly verb: 'give'; readonly give: Give }
  | { readonly verb: 'charge'; readonly charge: Charge }
  | { readonly verb: 'reset'; readonly key: CounterKey }
  | { readonly verb: 'beat'; readonly lifeMs: number }
  | { readonly verb: 'time' }

export interface Request {
  readonly node: string
  readonly operation: Operation
  /** True time of sending. */
  readonly sentUs: number
  /** The store's time after which nothing of it is applied; 0 for none. */
  readonly notAfter: number
}

export interface Beat {
  readonly nodes: number
  readonly wasKnown: boolean
  readonly place: number
}

/** `late`: nothing was applied, because it arrived after its deadline. */
export interface Reply {
  readonly storeUs: number
  readonly late: boolean
  readonly answers?: Groups<Answer>
  readonly peeked?: Groups<PeekOutcome>
  readonly beat?: Beat
}

/** `lost`: the connection ended, and the outcome is unknown. */
export type LinkOutcome = Reply | 'lost'
