/** What travels between a node and the store. */
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
  /** The store's time after which nothing of it is done; 0: none. */
  readonly notAfter: number
}

export interface Beat {
  readonly nodes: number
  readonly wasKnown: boolean
  readonly place: number
}

/** `late`: nothing was done, because it came after its time. */
export interface Reply {
  readonly storeUs: number
  readonly late: boolean
  readonly answers?: Groups<Answer>
  readonly peeked?: Groups<PeekOutcome>
  readonly beat?: Beat
}

/** `lost`: the connection ended, and nobody knows. */
export type LinkOutcome = Reply | 'lost'
