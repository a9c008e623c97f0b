/** Opens the rate limit service for Envoy: its gRPC listener over the services that decide. */
import { wallClock } from '../../lib/wall-clock.js'
import type { Config } from '../../config/config.js'
import type { EntryPointDeps } from '../entrypoint.js'
import { exemptAddresses } from '../http/address-bounds.js'
import { ErrorReporter } from '../http/error-reporter.js'
import type { Registry, Series } from '../../observability/metrics/registry.js'
import type { Drainable } from '../../shutdown.js'
import type { GrpcServer } from './grpc/grpc-server.js'
import { quotaMethod, type UnaryMethod, unaryMethods } from './grpc/grpc-service.js'
import { HealthService } from './grpc/health.js'
import { openGrpcServer } from './grpc/open-grpc-server.js'
import { reflectionMethods } from './grpc/reflection.js'
import type { QuotaService } from './quota/quota-service.js'
import type { RateLimitService } from './rate-limit-service.js'

export interface EnvoyDeps extends Pick<EntryPointDeps, 'log' | 'describeAddress' | 'exclusive'> {
  readonly service: RateLimitService
  /** Only for a server of streams: undefined with `envoy.server: own`. */
  readonly quotas: QuotaService | undefined
  /** Whether this node is ready to decide: its rules and its shutdown, never the store. */
  readonly isReady: () => boolean
  readonly registry: Registry
  /** From 0 to 1. */
  readonly random: () => number
}

export interface EnvoyEntryPoint extends Drainable {
  readonly listener: GrpcServer
}

/** Opens the listener; it does not listen yet. */
export function openEnvoy(config: Config, deps: EnvoyDeps): EnvoyEntryPoint {
  const { service, quotas, isReady, log, registry, describeAddress, exclusive, random } = deps
  const { envoy, gateway, trustedProxies } = config
  const health = new HealthService({ isReady })
  const listener = openGrpcServer(
    {
      listen: envoy.listen,
      tls: envoy.tls,
      maxConnections: gateway.maxConnections,
      perAddress: {
        maxConnections: gateway.maxConnectionsPerAddress,
        isExempt: exemptAddresses(trustedProxies),
        describe: describeAddress,
      },
      log,
      exclusive,
      random,
      times: { ageMs: envoy.maxAgeMs },
    },
    {
      kind: envoy.server,
      unary: unaryMethods({ service, health }),
      streams: [
        ...(quotas === undefined ? [] : [quotaMethod(quotas)]),
        ...(envoy.reflection ? reflectionMethods() : []),
      ],
      health,
      errorReporter: new ErrorReporter({ log, clock: wallClock, component: 'rate limit service' }),
      onAnswered: callCounter(registry),
    },
  )
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
    stopAccepting() {
      // The connections of these streams are announced to end: proxies open others elsewhere.
      quotas?.endStreams()
      return listener.stopAccepting()
    },
    closeIdle() {
      health.endWatches()
      listener.closeIdle()
    },
    inFlight: () => listener.inFlight(),
    leaving: () => listener.leaving?.() ?? 0,
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
  const ofMethod = new Map<UnaryMethod, Series[]>()
  return (method: UnaryMethod, code: number) => {
    const byCode = ofMethod.get(method) ?? []
    if (byCode.length === 0) ofMethod.set(method, byCode)
    byCode[code] ??= calls.labels(method.path.slice(method.path.lastIndexOf('/') + 1), `${code}`)
    byCode[code].inc()
  }
}
