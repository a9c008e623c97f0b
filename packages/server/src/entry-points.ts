/** Opens the listeners over what decides: the gateway, and the decision API with forward-auth. */
import { randomInt } from 'node:crypto'
import type { RequestListener } from 'node:http'
import { type ApiParts, createApi } from './api/api.js'
import { wallClock, type WallClock } from './clock.js'
import type { Config, ListenAddress, TlsFiles } from './config/config.js'
import type { Decider } from './decider.js'
import type { UpstreamFailure } from './gateway/forward.js'
import { Gateway } from './gateway/gateway.js'
import { createLimitsPage } from './gateway/limits-page.js'
import { Upgrades } from './gateway/upgrade.js'
import { createUpstreams } from './gateway/upstreams.js'
import { answerProblem } from './http/answer.js'
import { createListener, type Listener } from './http/listener.js'
import type { Identifier } from './identity/identity.js'
import type { Log } from './log/logger.js'
import type { Telemetry } from './telemetry/telemetry.js'

/** What every entry point is made of. */
export interface EntryPointDeps {
  readonly decider: Decider
  readonly identifier: Identifier
  readonly log: Log
  /** For instants in responses. */
  readonly responseClock: WallClock
  /** Undefined: no spans. */
  readonly telemetry?: Telemetry | undefined
  /** Whether a worker listens alone, and not with the others. @default false */
  readonly exclusive?: boolean | undefined
}

export interface GatewayDeps extends EntryPointDeps {
  readonly onUpstreamFailure: (failure: UpstreamFailure) => void
}

export function openGateway(config: Config, deps: GatewayDeps) {
  const { decider, log, responseClock, exclusive } = deps
  const upstreams = createUpstreams(config.gateway.upstreams, config.gateway.timeouts)
  const { listen, tls } = config.gateway
  const listener = openListener(listen, tls, { config, log, exclusive })
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
  listener.server.on('request', (request, response) => void gateway.handle(request, response))
  listener.server.on('checkContinue', (request, response) => void gateway.handle(request, response))
  listener.server.on(
    'upgrade',
    (request, socket, head) => void upgrades.handle(request, socket, head),
  )
  return {
    listener,
    held: () => gateway.holds.count(),
    websockets: () => upgrades.count(),
    beginDraining: () => listener.beginDraining(),
    stopAccepting: () => listener.stopAccepting(),
    closeIdle: () => listener.closeIdle(),
    inFlight: () => listener.inFlight() + upgrades.count(),
    destroyAll() {
      gateway.holds.abandon()
      listener.destroyAll()
    },
    goAway: () => upgrades.goAway(),
    close: () => upstreams.close(),
  }
}

export type ApiDeps = EntryPointDeps & Pick<ApiParts, 'adminToken' | 'hideSecrets' | 'readiness'>

export function openApi(config: Config, deps: ApiDeps): Listener {
  const { log, exclusive } = deps
  const { listen, tls } = config.api
  const listener = openListener(listen, tls, { config, log, exclusive, ...BRIEF })
  const api = createApi({ ...deps, config, clock: wallClock, random })
  const handle = guarded((request, response) => api.handle(request, response), log)
  listener.server.on('request', handle)
  listener.server.on('checkContinue', handle)
  return listener
}

/** A mistake in one answer must not end the process, and with it everybody's calls. */
export function guarded(
  handle: (...args: Parameters<RequestListener>) => void | Promise<void>,
  log: Log,
): RequestListener {
  return (request, response) => {
    const fail = (error: unknown) => {
      log.error({ error: String(error) }, 'a request failed')
      if (response.headersSent) response.destroy()
      else answerProblem(response, { status: 500, detail: 'The log says how.', error: 'internal' })
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
  readonly requestMs?: number | undefined
  readonly exclusive?: boolean | undefined
}

/** Bodies of the gateway may be large and slow; those of the others are not. */
export const BRIEF = { requestMs: 30_000 }

export function openListener(
  listen: ListenAddress,
  tls: TlsFiles | undefined,
  { config, log, requestMs, exclusive }: OpenListenerOptions,
): Listener {
  const { timeouts, maxConnections } = config.gateway
  return createListener({
    listen,
    tls,
    timeouts: { ...timeouts, requestMs: requestMs ?? timeouts.requestMs },
    maxConnections,
    log,
    exclusive,
  })
}
