/** What nodes see, and what limits would do. */
import type { Send } from '../send.js'
import type { AlertsView, StatsView, TopOrder, TopView, TrialInput, TrialView } from '../types.js'

export interface TopAsked {
  /** @default refusals */
  readonly by?: TopOrder | undefined
  readonly rule?: string | undefined
  /** Up to 100. @default 20 */
  readonly limit?: number | undefined
}

export function figureRoutes(send: Send) {
  return {
    /** What all nodes saw of their decisions: of the busiest rules, or of one. */
    stats: ({ rule }: { readonly rule?: string | undefined } = {}) =>
      send({ method: 'GET', has: 'series', path: '/stats', query: { rule } }) as Promise<StatsView>,

    /** Callers with most refusals, most use, or at their limit for longest. */
    top: (asked: TopAsked = {}) =>
      send({
        method: 'GET',
        has: 'callers',
        path: '/top',
        query: { ...asked },
      }) as Promise<TopView>,

    alerts: () => send({ method: 'GET', has: 'active', path: '/alerts' }) as Promise<AlertsView>,

    /** What limits would do with made-up calls. Nothing is spent or kept. */
    trial: (trial: TrialInput) =>
      send({ method: 'POST', has: 'trials', path: '/trial', body: trial }) as Promise<TrialView>,
  }
}
