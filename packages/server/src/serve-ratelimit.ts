/**
 * Runs `sluice serve --as-envoy-ratelimit`: the engine and the rate limit service alone, on the
 * ports of envoyproxy/ratelimit, without gateway, decision API and admin API.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { RatelimitConfig } from './config/ratelimit/ratelimit-environment.js'
import { startEngine } from './engine.js'
import { startClosable, startListener } from './entrypoints/entrypoint.js'
import { openConfigSource } from './entrypoints/envoy/open-config-source.js'
import { openRatelimit } from './entrypoints/open-ratelimit.js'
import { Closers } from './lib/closers.js'
import { wallClock } from './lib/wall-clock.js'
import type { Log } from './observability/log/logger.js'
import { drain, type DrainResult } from './shutdown.js'
import { warmUp } from './warm-up/warm-up.js'

export interface RunningRatelimit {
  /** The addresses, for the log. */
  readonly addresses: {
    readonly http: string
    readonly grpc: string
    readonly debug: string
    readonly metrics: string | undefined
  }
  /** Finishes the calls in flight and closes; `atOnce` refuses new calls without a delay. */
  stop(options?: { readonly atOnce?: boolean }): Promise<DrainResult>
}

export async function serveRatelimit(
  ratelimit: RatelimitConfig,
  { log }: { readonly log: Log },
): Promise<RunningRatelimit> {
  const closers = new Closers()
  try {
    return await start(ratelimit, log, closers)
  } catch (error) {
    return closers.closeAndThrow(error)
  }
}

async function start(
  ratelimit: RatelimitConfig,
  log: Log,
  closers: Closers,
): Promise<RunningRatelimit> {
  const { config, waitsForConfig } = ratelimit
  const engine = await startEngine(config, log, { rules: 'none', isExample: false })
  closers.add(() => engine.close())
  const { registry, counterStore } = engine
  const source = await openConfigSource(config, { log, registry, random: Math.random })
  closers.add(() => source?.close())
  let isDraining = false
  const isHealthy = () => !isDraining && (!waitsForConfig || source?.current() !== undefined)
  const entryPoints = openRatelimit(ratelimit, engine, { log, source, isHealthy })
  // Before any listener starts, so that the first calls meet code that has run.
  await warmUp(config, counterStore.store)
  const { http, grpc, debug, metrics } = entryPoints.listeners
  return {
    addresses: {
      http: await startListener(http, closers),
      grpc: (await startClosable(grpc, closers)).target,
      debug: await startListener(debug, closers),
      metrics: metrics && (await startListener(metrics, closers)),
    },
    async stop({ atOnce = false } = {}) {
      isDraining = true
      const { delayMs, withinMs } = config.shutdown
      const drained = await drain(entryPoints.drainable, {
        clock: wallClock,
        delayMs: atOnce ? 0 : delayMs,
        withinMs,
        sleep,
        onStopped: () => {},
      })
      await closers.close()
      return drained
    },
  }
}
