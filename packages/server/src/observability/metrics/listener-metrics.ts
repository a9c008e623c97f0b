/** Registers connections and requests that the listeners refused or closed. */
import type { ListenerCounts } from '../../entrypoints/http/http-listener.js'
import type { Registry } from './registry.js'

type Listeners = Readonly<Record<string, { counts(): ListenerCounts }>>

/** By listener name, which becomes a label. */
export function registerListenerMetrics(registry: Registry, listeners: Listeners): void {
  const counts = () =>
    Object.entries(listeners).map(([name, listener]) => [name, listener.counts()] as const)
  registry.total(
    'sluice_connections_refused_total',
    'Connections refused, by listener and by the bound they exceeded: total or address.',
    () =>
      counts().flatMap(([name, { overMax, overAddressMax }]) => [
        [[name, 'total'], overMax] as const,
        [[name, 'address'], overAddressMax] as const,
      ]),
    { labelNames: ['listener', 'reason'] },
  )
  registry.total(
    'sluice_connections_stalled_total',
    'Connections closed because the client did not read its responses.',
    () => counts().map(([name, { stalled }]) => [[name], stalled] as const),
    { labelNames: ['listener'] },
  )
  registry.total(
    'sluice_address_busy_total',
    'Requests refused with 503 because their address had too many in flight.',
    () => counts().map(([name, { busyCalls }]) => [[name], busyCalls] as const),
    { labelNames: ['listener'] },
  )
}
