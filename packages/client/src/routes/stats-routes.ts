/** Routes of statistics, alerts and the simulation of limits. */
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
  /** At most 100. @default 20 */
  readonly limit?: number | undefined
}

export function statsRoutes(send: Send) {
  return {
    /** Returns the statistics of all nodes: of the busiest rules, or of one. */
    stats: ({ rule }: { readonly rule?: string | undefined } = {}) =>
      send({ method: 'GET', has: 'series', path: '/stats', query: { rule } }) as Promise<StatsView>,

    /** Returns the callers with most refusals, most usage, or longest at their limit. */
    top: (query: TopQuery = {}) =>
      send({
        method: 'GET',
        has: 'callers',
        path: '/top',
        query: { ...query },
      }) as Promise<TopView>,

    alerts: () => send({ method: 'GET', has: 'active', path: '/alerts' }) as Promise<AlertsView>,

    /** Simulates limits with given calls. Nothing is charged or stored. */
    simulate: (input: SimulationInput) =>
      send({
        method: 'POST',
        has: 'trials',
        path: '/simulate',
        body: input,
      }) as Promise<SimulationView>,
  }
}
