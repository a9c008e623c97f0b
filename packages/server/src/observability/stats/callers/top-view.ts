/** Top callers as the admin API tells them. */

/**
 * Most refusals, most use, longest at zero, at the limit in most hours of the last 24, or most
 * would-be refusals.
 */
export type TopOrder = 'refusals' | 'use' | 'zero' | 'hours' | 'shadow'

export interface TopCallerView {
  readonly rule: string
  /** Open attributes as they are, secret ones as hash and last four characters. */
  readonly caller: Readonly<Record<string, string>>
  readonly hash: string
  /** The rule has one counter for all of its calls. Else an empty `caller` has no name here. */
  readonly isEverybody: boolean
  readonly plan: string | null
  /** Method and route or path of one that was refused lately, or would have been. */
  readonly lastRefusedCall: string | null
  readonly refusals: number
  /** What was admitted, in units of cost. */
  readonly use: number
  /** What would have been refused of what passed: by the rule in shadow, and by its candidate. */
  readonly shadowRefusals: number
  readonly candidateRefusals: number
  /** By how much the figure it is ordered by may be too high. */
  readonly error: number
  /** An ISO time; null: something is left. */
  readonly zeroSince: string | null
  readonly lastSeen: string
  readonly hoursAtLimit: number
}
