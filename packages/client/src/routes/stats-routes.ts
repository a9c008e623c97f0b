/** What nodes see, and what limits would do. */
import type { Send } from '../send.js'
import type {
  AlertsView,
  StatsView,
  TopOrder,
  TopView,
  SimulationInput,
  SimulationView,
} from '../api-types.js'

export interface TopQuery {
  /** @default refusals */
  readonly by?: TopOrder | undefined
  readonly rule?: string | undefined
  /** Up to 100. @default 20 */
  readonly limit?: number | undefined
}

export function statsRoutes(send: Send) {
  return {
    /** What all nodes saw of their decisions: of the busiest rules, or of one. */
    stats: ({ rule }: { readonly rule?: string | undefined } = {}) =>
      send({ method: 'GET', has: 'series', path: '/stats', query: { rule } }) as Promise<StatsView>,

    /** Callers with most refusals, most use, or at their limit for longest. */
    top: (query: TopQuery = {}) =>
      send({
        method: 'GET',
        has: 'callers',
        path: '/top',
        query: { ...query },
      }) as Promise<TopView>,

    alerts: () => send({ method: 'GET', has: 'active', path: '/alerts' }) as Promise<AlertsView>,

    /** What limits would do with made-up calls. Nothing is spent or kept. */
    simulate: (input: SimulationInput) =>
      send({
        method: 'POST',
        has: 'trials',
        path: '/simulate',
        body: input,
      }) as Promise<SimulationView>,
  }
}
