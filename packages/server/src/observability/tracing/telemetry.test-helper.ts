/** A real SDK with in-memory exporters, and a gateway in front of a real upstream. */
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { context, propagation, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { W3CTraceContextPropagator } from '@opentelemetry/core'
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type Sampler,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base'
import { createLimiter } from '@sluice/limiter'
import { manualClock } from '@sluice/limiter/testing'
import { wallClock } from '../../lib/wall-clock.js'
import { parseConfig } from '../../config/parse-config.js'
import { testDecider } from '../../entrypoints/decision-api/decision-api.test-helper.js'
import { Gateway } from '../../entrypoints/gateway/gateway.js'
import { createLimitsPage } from '../../entrypoints/gateway/limits-page.js'
import { Upgrades } from '../../entrypoints/gateway/upgrade.js'
import { createUpstreams } from '../../entrypoints/gateway/upstreams.js'
import { createIdentifier } from '../../identity/identify.js'
import { SECRET } from '../../identity/identify.test-helper.js'
import { createMemoryLog } from '../log/memory-log.test-helper.js'
import type { Telemetry } from './telemetry.js'

/** Registered for the whole process, as a user would. */
export function registerSdk(sampler?: Sampler): InMemorySpanExporter {
  const exporter = new InMemorySpanExporter()
  const spanProcessors = [new SimpleSpanProcessor(exporter)]
  trace.setGlobalTracerProvider(
    new BasicTracerProvider({ spanProcessors, ...(sampler && { sampler }) }),
  )
  propagation.setGlobalPropagator(new W3CTraceContextPropagator())
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  return exporter
}

export function unregisterSdk(): void {
  trace.disable()
  propagation.disable()
  context.disable()
}

export interface TestGateway {
  readonly port: number
  /** The headers that reached the upstream, call by call. */
  readonly seen: IncomingHttpHeaders[]
  close(): Promise<void>
}

export async function startGateway(
  rules: readonly object[],
  telemetry: Telemetry | undefined,
  upgrade?: Parameters<Server['on']>[1],
): Promise<TestGateway> {
  const seen: IncomingHttpHeaders[] = []
  const upstream = createServer((request, response) => {
    seen.push(request.headers)
    response.end('ok')
  })
  if (upgrade !== undefined) upstream.on('upgrade', upgrade)
  const url = `http://127.0.0.1:${await listen(upstream)}`
  const { config } = parseConfig('{}', {
    file: undefined,
    env: { SLUICE_UPSTREAM: url },
    readFile: () => '',
  })
  if (config === undefined) throw new Error('no configuration')
  const limiter = createLimiter({ rules, clock: manualClock(), secret: SECRET })
  const nothing = () => undefined
  const upstreams = createUpstreams(config.gateway.upstreams, config.gateway.timeouts)
  const gateway = new Gateway({
    config,
    decider: testDecider(limiter),
    identifier: createIdentifier({ ...config, config: config.identity, secret: SECRET }),
    upstreams,
    limitsPage: createLimitsPage(limiter, () => ({
      nowMs: 0,
      fraction: 0,
      jitter: false,
      postureStatus: 429,
    })),
    clock: wallClock,
    responseClock: wallClock,
    random: () => 0.5,
    log: createMemoryLog().log,
    onUpstreamFailure: nothing,
    onSlowUpload: nothing,
    telemetry,
  })
  const upgrades = new Upgrades(gateway)
  const server = createServer((request, response) => void gateway.handle(request, response))
  server.on('upgrade', (request, socket, head) => void upgrades.handle(request, socket, head))
  const port = await listen(server)
  return {
    port,
    seen,
    async close() {
      upgrades.goAway()
      for (const each of [server, upstream]) each.closeAllConnections()
      await upstreams.close()
      await Promise.all([server, upstream].map((each) => new Promise((end) => each.close(end))))
      await limiter.close()
    },
  }
}

function listen(server: Server): Promise<number> {
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port))
  })
}
