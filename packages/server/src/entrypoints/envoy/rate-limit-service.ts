/**
 * Envoy's rate limit service: a descriptor is a call, and a request is several calls that are
 * decided together, in one trip to the store. No bytes and no sockets here.
 *
 * A domain with a configuration is decided by it alone, any other by the rules of Sluice. A store
 * that does not answer is no error: each limit and rule then decides by its posture.
 */
import { type Decision, SluiceError } from '@sluice/core'
import type { Limiter } from '@sluice/limiter'
import type { PlannedOptions } from '@sluice/limiter/internal'
import { type Decider, TIMED_EVERY } from '../../decide.js'
import type { WallClock } from '../../lib/wall-clock.js'
import type { Registry } from '../../observability/metrics/registry.js'
import type { EnvoyConfig, EnvoyConfigSource } from './config/config-source.js'
import { ConfiguredDomain } from './configured-domain.js'
import { ConfiguredRequest } from './configured-request.js'
import { EnvoyMetrics } from './envoy-metrics.js'
import { GRPC_CODES, GrpcError } from './grpc-error.js'
import { attributesOf } from './native-attributes.js'
import { NativeRequest } from './native-request.js'
import type { RateLimitCall, RateLimitCallDeps } from './rate-limit-call.js'
import type { RateLimitRequest, RateLimitResponse } from './rate-limit-messages.js'
import { ReferenceMetrics } from './reference-metrics.js'
import type { MaskSecrets } from './reported-call.js'
import { describeRequest, type RequestDescriptor } from './request-descriptor.js'
import { metadataOf, ResponseWriter } from './response-parts.js'
import {
  CAP_MS,
  deadlineOf,
  type DomainOptions,
  type RateLimitServiceOptions,
} from './service-options.js'

export interface RateLimitOptions {
  /** How long the client waits for the answer, in milliseconds; undefined if it does not say. */
  readonly timeoutMs: number | undefined
}

export interface RateLimitService {
  /**
   * Answers a request. A promise only if a remote store decides. Fails with a GrpcError, which is
   * the status of the call: for a request that says nothing, and where nothing can be decided.
   */
  shouldRateLimit(
    request: RateLimitRequest,
    options: RateLimitOptions,
  ): RateLimitResponse | Promise<RateLimitResponse>
}

export interface RateLimitServiceDeps {
  readonly decider: Decider
  /** Undefined: the rules of Sluice decide all domains. */
  readonly configSource: EnvoyConfigSource | undefined
  readonly registry: Registry
  /** For instants in headers. */
  readonly responseClock: WallClock
  /** Milliseconds by a monotonic clock. */
  readonly nowMs: () => number
  /** From 0 to 1, for the jitter of refusals. */
  readonly random: () => number
  /** Masks the values of secret attributes. */
  readonly mask: MaskSecrets
  /** Receives unexpected errors, and limits that cannot be counted as their domain says. */
  readonly log: {
    error(error: unknown): void
    inexactLimit(path: string, problem: string): void
  }
}

const NO_OPTIONS: DomainOptions = {}
const NO_HEADERS: readonly string[] = []

export function createRateLimitService(
  deps: RateLimitServiceDeps,
  options: RateLimitServiceOptions,
): RateLimitService {
  return new DescriptorService(deps, options)
}

class DescriptorService implements RateLimitService {
  readonly #deps: RateLimitServiceDeps
  readonly #options: RateLimitServiceOptions
  readonly #limiter: Limiter
  readonly #decide
  readonly #metrics: EnvoyMetrics
  readonly #reference: ReferenceMetrics
  readonly #writer: ResponseWriter
  /** Domains with a configuration. */
  #domains = new Map<string, ConfiguredDomain>()
  /** Of domains that are configured in any way. */
  readonly #requestDeps = new Map<string, RateLimitCallDeps>()
  #planned: PlannedOptions = { deadlineMs: undefined, capMs: CAP_MS }
  #untimed = 0

  constructor(deps: RateLimitServiceDeps, options: RateLimitServiceOptions) {
    const { decider, configSource, registry } = deps
    this.#deps = deps
    this.#options = options
    this.#limiter = decider.limiter
    this.#decide = decider.planned('envoy')
    this.#metrics = new EnvoyMetrics(registry)
    this.#reference = new ReferenceMetrics(registry, options.nearLimitRatio)
    this.#writer = new ResponseWriter({ ...deps, options })
    if (configSource !== undefined) this.#reference.followLoads(configSource)
    const config = configSource?.current()
    if (config !== undefined) this.useConfig(config)
    configSource?.onChange((changed) => this.useConfig(changed))
  }

  shouldRateLimit(
    request: RateLimitRequest,
    options: RateLimitOptions,
  ): RateLimitResponse | Promise<RateLimitResponse> {
    this.#reference.requests.inc()
    const isTimed = this.#untimed === TIMED_EVERY - 1
    const beganMs = isTimed ? this.#deps.nowMs() : 0
    try {
      const answer = this.answer(request, options)
      if (answer instanceof Promise) return answer
      this.#untimed = isTimed ? 0 : this.#untimed + 1
      if (isTimed) this.observe(beganMs, TIMED_EVERY)
      return answer
    } catch (error) {
      throw this.statusOf(error)
    }
  }

  private observe(beganMs: number, times: number): void {
    this.#reference.seconds.observe((this.#deps.nowMs() - beganMs) / 1000, times)
  }

  private answer(
    request: RateLimitRequest,
    { timeoutMs }: RateLimitOptions,
  ): RateLimitResponse | Promise<RateLimitResponse> {
    const { domain, descriptors } = request
    requireRequest(request)
    const { configSource } = this.#deps
    if (configSource !== undefined && configSource.current() === undefined) {
      throw new GrpcError(GRPC_CODES.unavailable, 'no rate limit configuration loaded')
    }
    const described = describeRequest(descriptors, request.hitsAddend)
    const planned = this.plannedOptions(deadlineOf(this.#options, timeoutMs))
    const configured = this.#domains.get(domain)
    const returns =
      configured === undefined
        ? this.returnByRules(domain, described)
        : this.returnUnits(configured, domain, described, planned)
    const counted = returns === undefined ? described : described.filter((each) => !each.isReturn)
    const call =
      configured === undefined
        ? new NativeRequest(this.requestDeps(domain), counted)
        : this.configuredRequest(configured, domain, counted)
    const decided = this.#decide(call, planned)
    if (!(decided instanceof Promise) && !(returns instanceof Promise)) {
      return this.respond(request, described, call, configured)
    }
    const pending = returns instanceof Promise ? Promise.all([decided, returns]) : decided
    return this.respondLater(pending, request, described, call, configured)
  }

  /** One handler for all that comes after the store: each promise more costs CPU and memory. */
  private respondLater(
    pending: Promise<unknown> | Decision,
    request: RateLimitRequest,
    described: readonly RequestDescriptor[],
    call: RateLimitCall,
    configured: ConfiguredDomain | undefined,
  ): Promise<RateLimitResponse> {
    const beganMs = this.#deps.nowMs()
    return Promise.resolve(pending).then(
      () => {
        try {
          return this.respond(request, described, call, configured)
        } catch (error) {
          throw this.statusOf(error)
        } finally {
          this.observe(beganMs, 1)
        }
      },
      (error: unknown) => {
        this.observe(beganMs, 1)
        throw this.statusOf(error)
      },
    )
  }

  /** Most clients wait for the same time in all their requests. */
  private plannedOptions(deadlineMs: number): PlannedOptions {
    if (this.#planned.deadlineMs !== deadlineMs) this.#planned = { deadlineMs, capMs: CAP_MS }
    return this.#planned
  }

  private configuredRequest(
    configured: ConfiguredDomain,
    domain: string,
    descriptors: readonly RequestDescriptor[],
  ): ConfiguredRequest {
    configured.select(descriptors)
    return new ConfiguredRequest(this.requestDeps(domain), configured, this.#reference, descriptors)
  }

  private requestDeps(domain: string): RateLimitCallDeps {
    const known = this.#requestDeps.get(domain)
    if (known !== undefined) return known
    const { requireMatch = false } = this.optionsOf(domain)
    const made = { domain, requireMatch, mask: this.#deps.mask }
    // Clients may send any number of domains.
    if (this.#domains.has(domain) || this.#options.domains.has(domain)) {
      this.#requestDeps.set(domain, made)
    }
    return made
  }

  /** Gives units back first, in a call of its own: nothing that is refused keeps them. */
  private returnUnits(
    configured: ConfiguredDomain,
    domain: string,
    described: readonly RequestDescriptor[],
    options: PlannedOptions,
  ): Decision | Promise<Decision> | undefined {
    if (!hasReturns(described)) return undefined
    const returned = described.filter(({ isReturn }) => isReturn)
    const call = this.configuredRequest(configured, domain, returned)
    const decided = this.#decide(call, options)
    if (!(decided instanceof Promise)) return decided
    return decided.then((decision) => {
      if (decision.postures !== undefined) this.#metrics.countLostReturn()
      return decision
    })
  }

  /** The same by rules. Nobody waits for it: nothing depends on it. */
  private returnByRules(domain: string, described: readonly RequestDescriptor[]): true | undefined {
    if (!hasReturns(described)) return undefined
    for (const each of described) {
      if (!each.isReturn) continue
      each.kind = 'exempt'
      const attributes = this.#deps.mask(attributesOf(domain, each.descriptor.entries))
      this.#limiter.refund({ attributes, cost: each.hits }).catch((error: unknown) => {
        this.#metrics.countLostReturn()
        if (!(error instanceof SluiceError)) this.#deps.log.error(error)
      })
    }
    return true
  }

  private respond(
    request: RateLimitRequest,
    described: readonly RequestDescriptor[],
    call: RateLimitCall,
    configured: ConfiguredDomain | undefined,
  ): RateLimitResponse {
    for (let i = 0; i < described.length; i++) {
      if (described[i]?.kind === 'unmatched') this.countUnmatched(request.domain)
    }
    const isOver = this.isOver(described, configured)
    const isRefused = isOver && this.#options.isShadow !== true
    const { headers, body } = this.#writer.write(call.decision, described, isRefused)
    return new Response(
      isRefused,
      statusesOf(described),
      headers,
      body,
      this.#options.sendsMetadata === true ? metadataOf(request, described) : undefined,
    )
  }

  /** Over is a request of which a descriptor is, or all of its alternatives are. */
  private isOver(
    described: readonly RequestDescriptor[],
    configured: ConfiguredDomain | undefined,
  ): boolean {
    let quotas = 0
    let quotasOver = 0
    for (let i = 0; i < described.length; i++) {
      const each = described[i]
      if (each === undefined) continue
      const isOver = each.status.code === 'over-limit'
      if (configured?.isQuota(each) !== true) {
        if (isOver) return true
        continue
      }
      quotas++
      if (isOver) quotasOver++
    }
    return quotas > 0 && quotas === quotasOver
  }

  private countUnmatched(domain: string): void {
    const isConfigured = this.#domains.has(domain) || this.#options.domains.has(domain)
    this.#metrics.countUnmatched(domain, isConfigured)
  }

  private optionsOf(domain: string): DomainOptions {
    const { domains, defaults = NO_OPTIONS } = this.#options
    return domains.get(domain) ?? defaults
  }

  /** Limits of a new configuration go on with the counters of their paths. */
  private useConfig({ domains }: EnvoyConfig): void {
    const { isShadow = false, isQuota = false } = this.#options
    const made = new Map<string, ConfiguredDomain>()
    for (const [domain, tree] of domains) {
      const options = this.optionsOf(domain)
      const onInexact = (path: string, problem: string) => {
        this.#metrics.countInexact()
        this.#deps.log.inexactLimit(path, problem)
      }
      made.set(
        domain,
        new ConfiguredDomain({ domain, tree, options, isShadow, isQuota, onInexact }),
      )
    }
    this.#domains = made
  }

  private statusOf(error: unknown): GrpcError {
    this.#reference.countError()
    if (error instanceof GrpcError) return error
    if (!(error instanceof SluiceError)) {
      this.#deps.log.error(error)
      // The message of an unexpected error may contain anything, so only the log has it.
      return new GrpcError(GRPC_CODES.internal, 'internal error; see the server log')
    }
    const { status, message } = error
    if (status < 500) return new GrpcError(GRPC_CODES.invalidArgument, message)
    if (status !== 503) this.#deps.log.error(error)
    return new GrpcError(status === 503 ? GRPC_CODES.unavailable : GRPC_CODES.internal, message)
  }
}

/** A class, not an object literal, for the encoders that read it. */
class Response implements RateLimitResponse {
  readonly overallCode
  readonly statuses
  readonly responseHeaders
  readonly requestHeaders = NO_HEADERS
  readonly rawBody
  readonly dynamicMetadata

  constructor(
    isRefused: boolean,
    statuses: RateLimitResponse['statuses'],
    responseHeaders: readonly string[],
    rawBody: string,
    dynamicMetadata: RateLimitResponse['dynamicMetadata'],
  ) {
    this.overallCode = isRefused ? ('over-limit' as const) : ('ok' as const)
    this.statuses = statuses
    this.responseHeaders = responseHeaders
    this.rawBody = rawBody
    this.dynamicMetadata = dynamicMetadata
  }
}

/** With the texts of envoyproxy/ratelimit. */
function requireRequest({ domain, descriptors }: RateLimitRequest): void {
  const problem =
    domain === ''
      ? 'rate limit domain must not be empty'
      : descriptors.length === 0
        ? 'rate limit descriptor list must not be empty'
        : undefined
  if (problem !== undefined) throw new GrpcError(GRPC_CODES.invalidArgument, problem)
}

function hasReturns(described: readonly RequestDescriptor[]): boolean {
  for (let i = 0; i < described.length; i++) if (described[i]?.isReturn === true) return true
  return false
}

function statusesOf(described: readonly RequestDescriptor[]): RateLimitResponse['statuses'] {
  const first = described[0]
  if (described.length === 1 && first !== undefined) return [first.status]
  return described.map(({ status }) => status)
}
