/** Opens the entry points of `--as-envoy-ratelimit`; none of them listens yet. */
import type { RequestListener } from 'node:http'
import type { ListenAddress } from '../config/config.js'
import type { RatelimitConfig } from '../config/ratelimit/ratelimit-environment.js'
import { responseClock } from '../counter-store/response-clock.js'
import { type Engine, secretAttributes } from '../engine.js'
import { createSecretMasker } from '../identity/masked-value.js'
import { wallClock } from '../lib/wall-clock.js'
import type { Log } from '../observability/log/logger.js'
import { registerListenerMetrics } from '../observability/metrics/listener-metrics.js'
import { registerServerMetrics } from '../observability/metrics/server-metrics.js'
import { addressDescriber, random, respondOnError, SHORT_REQUEST_MS } from './entrypoint.js'
import type { EnvoyConfigSource } from './envoy/config/config-source.js'
import { JsonEndpoint } from './envoy/json-endpoint.js'
import { openEnvoy } from './envoy/open-envoy.js'
import { openRateLimitService } from './envoy/open-service.js'
import { debugEndpoints, httpEndpoints, metricsEndpoint } from './envoy/ratelimit-endpoints.js'
import { exemptAddresses } from './http/address-bounds.js'
import { ErrorReporter } from './http/error-reporter.js'
import { createListener, type HttpListener } from './http/http-listener.js'

export interface RatelimitOptions {
  readonly log: Log
  readonly source: EnvoyConfigSource | undefined
  readonly isHealthy: () => boolean
}

export function openRatelimit(
  { config, listeners: addresses }: RatelimitConfig,
  engine: Engine,
  { log, source, isHealthy }: RatelimitOptions,
) {
  const { counterStore, registry } = engine
  const { store, secret } = counterStore
  const describeAddress = addressDescriber(config.log.callers, secret)
  const service = openRateLimitService(config, {
    decider: engine.decider,
    responseClock: responseClock(store, wallClock),
    log,
    envoyConfig: source,
    registry,
    hideSecrets: createSecretMasker(secret, secretAttributes(config)),
    random,
  })
  const grpc = openEnvoy(config, {
    service,
    // The program that this stands for has no quota service.
    quotas: undefined,
    isReady: isHealthy,
    registry,
    log,
    describeAddress,
    random,
  })
  const errorReporter = new ErrorReporter({
    log,
    clock: wallClock,
    component: 'rate limit service',
  })
  const json = new JsonEndpoint({ service, errorReporter })
  // Where proxies need a certificate, whoever reaches the other port may not give back.
  const mayGiveBack = config.envoy.tls?.clientCa === undefined
  const open = (listen: ListenAddress, handle: RequestListener) => {
    const listener = openListener(listen, config, { log, describeAddress })
    listener.serve(respondOnError(handle, log))
    return listener
  }
  const { metrics } = addresses
  const listeners = {
    http: open(addresses.http, httpEndpoints({ isHealthy, json, mayGiveBack })),
    grpc: grpc.listener,
    debug: open(
      addresses.debug,
      debugEndpoints(() => source?.current()),
    ),
    metrics:
      metrics &&
      open(
        metrics.listen,
        metricsEndpoint(metrics.path, () => registry.text()),
      ),
  }
  registerServerMetrics(registry, { ...engine, log, ...NO_GATEWAY })
  registerListenerMetrics(registry, { http: listeners.http, grpc: listeners.grpc })
  return { listeners, drainable: [grpc, listeners.http] }
}

/** Metrics of a gateway that there is not. */
const NO_GATEWAY = {
  held: () => 0,
  websockets: () => 0,
  websocketCounts: () => ({ refused: 0, idle: 0 }),
}

function openListener(
  listen: ListenAddress,
  { gateway, trustedProxies }: RatelimitConfig['config'],
  {
    log,
    describeAddress: describe,
  }: { readonly log: Log; readonly describeAddress: (address: string) => string },
): HttpListener {
  const { timeouts, maxConnections, maxConnectionsPerAddress } = gateway
  return createListener({
    listen,
    tls: undefined,
    timeouts: {
      headersMs: timeouts.headersMs,
      requestMs: SHORT_REQUEST_MS,
      stallMs: SHORT_REQUEST_MS,
    },
    maxConnections,
    perAddress: {
      maxConnections: maxConnectionsPerAddress,
      maxCalls: maxConnectionsPerAddress,
      isExempt: exemptAddresses(trustedProxies),
      describe,
    },
    log,
  })
}
