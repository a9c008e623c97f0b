/** Opens the rate limit service for Envoy: its gRPC listener over the service that decides. */
import { wallClock } from '../../lib/wall-clock.js'
import type { Config } from '../../config/config.js'
import type { EntryPointDeps } from '../entrypoint.js'
import { exemptAddresses } from '../http/address-bounds.js'
import { ErrorReporter } from '../http/error-reporter.js'
import type { Registry } from '../../observability/metrics/registry.js'
import type { Drainable } from '../../shutdown.js'
import { GrpcListener } from './grpc/grpc-listener.js'
import { serveWithGrpcJs } from './grpc/grpc-js-server.js'
import { unaryMethods } from './grpc/grpc-service.js'
import { HealthService } from './grpc/health.js'
import { reflectionMethods } from './grpc/reflection.js'
import type { RateLimitService } from './rate-limit-service.js'

export interface EnvoyDeps extends Pick<EntryPointDeps, 'log' | 'describeAddress' | 'exclusive'> {
  readonly service: RateLimitService
  /** Whether this node is ready to decide: its rules and its shutdown, never the store. */
  readonly isReady: () => boolean
  readonly registry: Registry
  /** From 0 to 1. */
  readonly random: () => number
}

export interface EnvoyEntryPoint extends Drainable {
  readonly listener: GrpcListener
}

/** Opens the listener; it does not listen yet. */
export function openEnvoy(config: Config, deps: EnvoyDeps): EnvoyEntryPoint {
  const { service, isReady, log, registry, describeAddress, exclusive, random } = deps
  const { envoy, gateway, trustedProxies } = config
  const health = new HealthService({ isReady })
  const unary = unaryMethods({ service, health })
  const paths = new Set(unary.map(({ path }) => path))
  const listener = new GrpcListener({
    listen: envoy.listen,
    tls: envoy.tls,
    maxConnections: gateway.maxConnections,
    perAddress: {
      maxConnections: gateway.maxConnectionsPerAddress,
      isExempt: exemptAddresses(trustedProxies),
      describe: describeAddress,
    },
    isUnary: (path) => paths.has(path),
    log,
    exclusive,
    random,
  })
  serveWithGrpcJs(listener.server, {
    unary,
    streams: envoy.reflection ? reflectionMethods() : [],
    health,
    errorReporter: new ErrorReporter({ log, clock: wallClock, component: 'rate limit service' }),
    clock: wallClock,
    onAnswered: callCounter(registry),
  })
  registry.gauge(
    'sluice_grpc_connections',
    'Open connections of the rate limit service for Envoy.',
    'sum',
    () => listener.connections(),
  )
  return {
    listener,
    beginDraining() {
      health.beginDraining()
      listener.beginDraining()
    },
    stopAccepting: () => listener.stopAccepting(),
    closeIdle() {
      health.endWatches()
      listener.closeIdle()
    },
    inFlight: () => listener.inFlight(),
    destroyAll: () => listener.destroyAll(),
  }
}

/** The methods and statuses are few and are not chosen by clients. */
function callCounter(registry: Registry) {
  const calls = registry.counter(
    'sluice_grpc_calls_total',
    'Calls of unary methods, by method and by the number of their gRPC status.',
    ['method', 'code'],
  )
  return ({ path }: { readonly path: string }, code: number) => {
    calls.labels(path.slice(path.lastIndexOf('/') + 1), String(code)).inc()
  }
}
