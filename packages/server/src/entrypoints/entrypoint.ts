/** Opens the listeners over what decides: the gateway, and the decision API with forward-auth. */
import { randomInt } from 'node:crypto'
import type { RequestListener } from 'node:http'
import { formatHash, hashTexts, sipKey } from '@sluice/core'
import { type DecisionApiDeps, createApi } from './decision-api/decision-api.js'
import { wallClock, type WallClock } from '../lib/wall-clock.js'
import type { Config, ListenAddress, TlsFiles } from '../config/config.js'
import type { Decider } from '../decide.js'
import type { UpstreamFailure } from './gateway/forward.js'
import { Gateway } from './gateway/gateway.js'
import { createLimitsPage } from './gateway/limits-page.js'
import { Upgrades } from './gateway/upgrade.js'
import { createUpstreams } from './gateway/upstreams.js'
import { exemptAddresses } from './http/address-bounds.js'
import { sendProblem } from './http/responses.js'
import { createListener, type HttpListener } from './http/http-listener.js'
import type { Identifier } from '../identity/identify.js'
import type { Log } from '../observability/log/logger.js'
import type { Telemetry } from '../observability/tracing/telemetry.js'

/** What every entry point is made of. */
export interface EntryPointDeps {
  readonly decider: Decider
  readonly identifier: Identifier
  readonly log: Log
  /** For instants in responses. */
  readonly responseClock: WallClock
  /** An address as a log line may show it. */
  readonly describeAddress: (address: string) => string
  /** Undefined: no spans. */
  readonly telemetry?: Telemetry | undefined
  /** Whether a worker listens alone, and not with the others. @default false */
  readonly exclusive?: boolean | undefined
}

export interface GatewayEntryPointDeps extends EntryPointDeps {
  /** Called with the origin of the upstream before a call is sent to it. */
  readonly onUpstreamCall?: ((upstream: string) => void) | undefined
  /** Called with the origin of the upstream that did not answer a call. */
  readonly onUpstreamFailure: (failure: UpstreamFailure, upstream: string) => void
  readonly onSlowUpload: () => void
}

export function openGateway(config: Config, deps: GatewayEntryPointDeps) {
  const { decider, responseClock } = deps
  const upstreams = createUpstreams(config.gateway.upstreams, config.gateway.timeouts)
  const { listen, tls } = config.gateway
  const { timeouts, maxCallsPerAddress } = config.gateway
  const listener = openListener(listen, tls, {
    ...deps,
    config,
    requestMs: timeouts.requestMs,
    stallMs: timeouts.stallMs,
    maxCallsPerAddress,
  })
  const refusalOptions = () => ({
    nowMs: responseClock.now(),
    fraction: random(),
    ...config.refusals,
  })
  const gateway = new Gateway({
    ...deps,
    config,
    upstreams,
    limitsPage: createLimitsPage(decider.limiter, refusalOptions),
    clock: wallClock,
    random,
  })
  const upgrades = new Upgrades(gateway)
  listener.serve((request, response) => void gateway.handle(request, response))
  listener.server.on(
    'upgrade',
    (request, socket, head) => void upgrades.handle(request, socket, head),
  )
  return {
    listener,
    held: () => gateway.heldCalls.count(),
    websockets: () => upgrades.count(),
    websocketCounts: () => upgrades.counts(),
    beginDraining: () => listener.beginDraining(),
    stopAccepting: () => listener.stopAccepting(),
    closeIdle: () => listener.closeIdle(),
    inFlight: () => listener.inFlight() + upgrades.count(),
    destroyAll() {
      gateway.heldCalls.abandon()
      listener.destroyAll()
    },
    goAway: () => upgrades.goAway(),
    close: () => upstreams.close(),
  }
}

export type DecisionApiEntryPointDeps = EntryPointDeps &
  Pick<DecisionApiDeps, 'adminToken' | 'hideSecrets' | 'readiness'>

export function openDecisionApi(config: Config, deps: DecisionApiEntryPointDeps): HttpListener {
  const { listen, tls } = config.api
  const listener = openListener(listen, tls, { ...deps, ...shortRequestOptions(config) })
  const api = createApi({ ...deps, config, clock: wallClock, random })
  listener.serve(respondOnError((request, response) => api.handle(request, response), deps.log))
  return listener
}

/** A mistake in one answer must not end the process, and with it everybody's calls. */
export function respondOnError(
  handle: (...args: Parameters<RequestListener>) => void | Promise<void>,
  log: Log,
): RequestListener {
  return (request, response) => {
    const fail = (error: unknown) => {
      log.error({ error: String(error) }, 'a request failed')
      if (response.headersSent) response.destroy()
      else sendProblem(response, { status: 500, detail: 'The log says how.', error: 'internal' })
    }
    try {
      handle(request, response)?.catch(fail)
    } catch (error) {
      fail(error)
    }
  }
}

/** Jitter: not a secret, but not to be guessed from the clock either. */
function random(): number {
  return randomInt(2 ** 31) / 2 ** 31
}

interface OpenListenerOptions {
  readonly config: Config
  readonly log: Log
  readonly describeAddress: (address: string) => string
  readonly requestMs: number
  readonly stallMs: number
  readonly maxCallsPerAddress: number
  readonly exclusive?: boolean | undefined
}

const SHORT_REQUEST_MS = 30_000

/**
 * Bodies of the gateway may be large and slow; those of the other listeners are not. Their clients
 * are few and known, each perhaps with all calls of a machine: what they call takes no connection
 * to an upstream, so an address may have as many calls as connections.
 */
export function shortRequestOptions(config: Config) {
  const maxCallsPerAddress = config.gateway.maxConnectionsPerAddress
  return { config, requestMs: SHORT_REQUEST_MS, stallMs: SHORT_REQUEST_MS, maxCallsPerAddress }
}

export function openListener(
  listen: ListenAddress,
  tls: TlsFiles | undefined,
  options: OpenListenerOptions,
): HttpListener {
  const { config, log, describeAddress, requestMs, stallMs, exclusive } = options
  const { timeouts, maxConnections, maxConnectionsPerAddress } = config.gateway
  return createListener({
    listen,
    tls,
    timeouts: { headersMs: timeouts.headersMs, requestMs, stallMs },
    maxConnections,
    perAddress: {
      maxConnections: maxConnectionsPerAddress,
      maxCalls: options.maxCallsPerAddress,
      isExempt: exemptAddresses(config.trustedProxies),
      describe: describeAddress,
    },
    log,
    exclusive,
  })
}

/** As refusals name a caller that is counted by `ip`: by its hash, unless clear text is wanted. */
export function addressDescriber(
  callers: Config['log']['callers'],
  secret: Uint8Array,
): (address: string) => string {
  const key = sipKey(secret)
  return callers === 'clear'
    ? (address) => address
    : (address) => formatHash(hashTexts(key, [address]))
}
