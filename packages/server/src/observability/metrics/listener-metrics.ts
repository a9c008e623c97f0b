/** What the listeners turned away or cut, as metrics. */
import type { HttpListener } from '../../entrypoints/http/http-listener.js'
import type { Registry } from './registry.js'

type Listeners = Readonly<Record<string, Pick<HttpListener, 'counts'>>>

/** By the names of the listeners, which are labels. */
export function registerListenerMetrics(registry: Registry, listeners: Listeners): void {
  const counts = () =>
    Object.entries(listeners).map(([name, listener]) => [name, listener.counts()] as const)
  registry.total(
    'sluice_connections_refused_total',
    'Connections closed at once, by listener and by the bound they met: total or address.',
    () =>
      counts().flatMap(([name, { overMax, overAddressMax }]) => [
        [[name, 'total'], overMax] as const,
        [[name, 'address'], overAddressMax] as const,
      ]),
    { labelNames: ['listener', 'reason'] },
  )
  registry.total(
    'sluice_connections_stalled_total',
    'Connections cut because their client read nothing of its responses.',
    () => counts().map(([name, { stalled }]) => [[name], stalled] as const),
    { labelNames: ['listener'] },
  )
  registry.total(
    'sluice_address_busy_total',
    'Requests answered 503 because their address had too many in flight.',
    () => counts().map(([name, { busyCalls }]) => [[name], busyCalls] as const),
    { labelNames: ['listener'] },
  )
}
