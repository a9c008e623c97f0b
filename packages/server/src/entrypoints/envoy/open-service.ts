/** Opens the rate limit service and the quota service over the engine, as configured. */
import { monotonicMs, wallClock } from '../../lib/wall-clock.js'
import { systemScheduler } from '../../lib/scheduler.js'
import type { Config, EnvoyDomain, EnvoyHeaders, ReferenceHeaders } from '../../config/config.js'
import type { Registry } from '../../observability/metrics/registry.js'
import type { EntryPointDeps } from '../entrypoint.js'
import { ErrorReporter } from '../http/error-reporter.js'
import type { EnvoyConfigSource } from './config/config-source.js'
import { QuotaService } from './quota/quota-service.js'
import { createRateLimitService, type RateLimitService } from './rate-limit-service.js'
import type { MaskSecrets } from './reported-call.js'
import type { DomainOptions, ResponseHeaders } from './service-options.js'

export interface ServiceDeps extends Pick<EntryPointDeps, 'decider' | 'responseClock' | 'log'> {
  /** Undefined: the rules of Sluice decide all domains. */
  readonly envoyConfig: EnvoyConfigSource | undefined
  readonly registry: Registry
  readonly hideSecrets: MaskSecrets
  /** From 0 to 1. */
  readonly random: () => number
}

export interface QuotaDeps extends Omit<ServiceDeps, 'responseClock' | 'random'> {
  /** The live nodes that share the counters. */
  readonly fleetSize: () => number
}

/** Jitter, status and headers of refusals are those of the other entry points. */
export function openRateLimitService(
  { envoy, redis, refusals }: Config,
  { decider, responseClock, log, envoyConfig, registry, hideSecrets, random }: ServiceDeps,
): RateLimitService {
  const errorReporter = new ErrorReporter({
    log,
    clock: wallClock,
    component: 'rate limit service',
  })
  const { deadlineMs, domains, defaults, headers } = envoy
  return createRateLimitService(
    {
      decider,
      configSource: envoyConfig,
      registry,
      responseClock,
      nowMs: monotonicMs,
      random,
      mask: hideSecrets,
      log: {
        error: (error) => errorReporter.log(error),
        inexactLimit: (path, problem) =>
          log.warn({ limit: path, problem }, 'envoy: limit counted by a fixed window'),
      },
    },
    {
      domains: new Map([...domains].map(([name, domain]) => [name, optionsOf(domain)])),
      defaults: optionsOf(defaults),
      deadlineMs,
      storeDeadlineMs: redis?.deadlineMs ?? deadlineMs,
      headers: headersOf(headers),
      refusals,
      isShadow: envoy.shadow,
      isQuota: envoy.quota,
      nearLimitRatio: envoy.nearLimitRatio,
      sendsMetadata: envoy.metadata,
    },
  )
}

/** Reports of errors are those of the rate limit service. */
export function openQuotaService(
  { envoy }: Config,
  { decider, log, envoyConfig, registry, hideSecrets, fleetSize }: QuotaDeps,
): QuotaService {
  const errorReporter = new ErrorReporter({
    log,
    clock: wallClock,
    component: 'rate limit quota service',
  })
  return new QuotaService(
    {
      decider,
      configSource: envoyConfig,
      registry,
      scheduler: systemScheduler,
      mask: hideSecrets,
      fleetSize,
      onError: (error) => errorReporter.log(error),
    },
    {
      domains: new Map([...envoy.domains].map(([name, domain]) => [name, optionsOf(domain)])),
      isShadow: envoy.shadow,
    },
  )
}

function headersOf(headers: EnvoyHeaders | ReferenceHeaders): ResponseHeaders {
  if (typeof headers === 'object') return { kind: 'reference', ...headers }
  if (headers === 'none' || headers === 'refusals') return { kind: headers }
  return { kind: 'sluice', standard: true, legacy: headers === 'all' }
}

function optionsOf({ counting, requireMatch, algorithm, posture }: EnvoyDomain): DomainOptions {
  return {
    counting: counting === 'reference' ? 'reference' : 'all-or-nothing',
    requireMatch,
    algorithm,
    posture: posture === 'local' ? { local: 1 } : posture,
  }
}
