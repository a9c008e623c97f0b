/** Opens what the configuration of the rate limit service comes from, with its metrics. */
import type { Config, XdsConfig } from '../../config/config.js'
import { formatListen } from '../../config/listen.js'
import type { Log } from '../../observability/log/logger.js'
import type { Registry } from '../../observability/metrics/registry.js'
import type { EnvoyConfigSource } from './config/config-source.js'
import { followConfigDirectory } from './config/directory-source.js'
import { type ControlPlaneSource, followControlPlane } from './xds/control-plane-source.js'

export interface ConfigSourceDeps {
  readonly log: Log
  readonly registry: Registry
  /** From 0 to 1. */
  readonly random: () => number
}

/** Undefined: the rules of Sluice decide all domains. */
export async function openConfigSource(
  { envoy: { config: directory, xds, mergeDomains } }: Config,
  { log, registry, random }: ConfigSourceDeps,
): Promise<EnvoyConfigSource | undefined> {
  if (directory !== undefined) return followConfigDirectory({ directory, mergeDomains }, { log })
  if (xds === undefined) return undefined
  const source = followControlPlane(optionsOf(xds, mergeDomains), { log, random })
  registerXdsMetrics(registry, source)
  return source
}

function optionsOf({ server, nodeId, nodeMetadata, ...others }: XdsConfig, mergeDomains: boolean) {
  const node = { id: nodeId, metadata: Object.fromEntries(nodeMetadata) }
  return { ...others, server: formatListen(server), node, mergeDomains }
}

/** Each worker has a stream of its own: the gauge is that of the one that has none. */
export function registerXdsMetrics(
  registry: Registry,
  source: Pick<ControlPlaneSource, 'isConnected' | 'streamsLost'>,
): void {
  registry.gauge(
    'sluice_envoy_xds_connected',
    '1 while the connection to the control plane is open, otherwise 0.',
    'min',
    () => (source.isConnected() ? 1 : 0),
  )
  registry.total(
    'sluice_envoy_xds_streams_lost_total',
    'Streams of the control plane that ended, and attempts to open one that failed.',
    () => source.streamsLost(),
  )
}
