/** Opens the rate limit service as tests need it: with a clock of their own, over any store. */
import { createLimiter, type Limiter, memoryStore, type Store } from '@sluice/limiter'
import { type ManualClock, manualClock } from '@sluice/limiter/testing'
import type { Call, Decision } from '@sluice/core'
import { createDecider } from '../../decide.js'
import { createSecretMasker } from '../../identity/masked-value.js'
import { createRegistry, type Registry } from '../../observability/metrics/registry.js'
import type { EnvoyConfig, EnvoyConfigSource } from './config/config-source.js'
import { LimitTree } from './config/limit-tree.js'
import { parseConfigFiles } from './config/parse-directory.js'
import { createRateLimitService, type RateLimitService } from './rate-limit-service.js'
import type { RateLimitServiceOptions } from './service-options.js'

export interface OpenOptions extends Partial<RateLimitServiceOptions> {
  /** As the configuration files say it; undefined for a server without a configuration. */
  readonly config?: readonly object[] | undefined
  readonly rules?: string | object | undefined
  readonly clock?: ManualClock | undefined
  readonly store?: Store | undefined
  /** @default a fixed one, so that a memory store needs no random key */
  readonly secret?: Uint8Array | undefined
  /** Receives every decision that is reported. */
  readonly onDecision?: ((decision: Decision, call: Call) => void) | undefined
}

export interface OpenService {
  readonly service: RateLimitService
  readonly limiter: Limiter
  readonly clock: ManualClock
  readonly registry: Registry
  readonly errors: unknown[]
  readonly inexact: string[]
  readonly useConfig: (config: readonly object[]) => Promise<void>
  readonly close: () => Promise<void>
}

const SECRET = Uint8Array.from({ length: 16 }, (_, i) => i)
const REFUSALS = { postureStatus: 429, shedStatus: 429, jitter: false } as const
const NO_RULES: readonly object[] = []

async function configOf(domains: readonly object[]): Promise<EnvoyConfig> {
  const files = domains.map((each, i) => ({ file: `${i}.yaml`, text: JSON.stringify(each) }))
  const { domains: read, errors } = await parseConfigFiles(files, { mergeDomains: false })
  if (read === undefined) throw new Error(errors.map(({ message }) => message).join('\n'))
  return { domains: new Map(read.map((each) => [each.domain, new LimitTree(each)])) }
}

export async function openService(options: OpenOptions = {}): Promise<OpenService> {
  const { config, rules = NO_RULES, clock = manualClock(), secret = SECRET, ...more } = options
  const store = options.store ?? memoryStore({ clock })
  const nowMs = () => clock.now() / 1000
  const limiter = createLimiter({ rules, store, clock, secret, monotonicMs: nowMs })
  await limiter.ready()
  const registry = createRegistry()
  const decider = createDecider({
    limiter,
    metrics: { count: () => {} },
    observability: { onDecision: options.onDecision ?? (() => {}) },
    refusals: { logRefusal: () => {}, logShadowRefusal: () => {} },
    degraded: { onDecision: () => {} },
    times: { observe: () => {} },
    nowMs,
  })
  const source = config && new ManualSource(await configOf(config))
  const errors: unknown[] = []
  const inexact: string[] = []
  const service = createRateLimitService(
    {
      decider,
      configSource: source,
      registry,
      responseClock: { now: nowMs },
      nowMs,
      random: () => 0,
      mask: createSecretMasker(secret, ['api_key']),
      log: {
        error: (error) => void errors.push(error),
        inexactLimit: (path, problem) => void inexact.push(`${path}: ${problem}`),
      },
    },
    {
      domains: new Map(),
      deadlineMs: 15,
      storeDeadlineMs: 50,
      headers: { kind: 'sluice', standard: true, legacy: true },
      refusals: REFUSALS,
      ...more,
    },
  )
  const useConfig = async (changed: readonly object[]) => source?.use(await configOf(changed))
  const close = () => limiter.close()
  return { service, limiter, clock, registry, errors, inexact, useConfig, close }
}

/** A source that a test changes. */
class ManualSource implements EnvoyConfigSource {
  #config: EnvoyConfig
  readonly #listeners: ((config: EnvoyConfig) => void)[] = []

  constructor(config: EnvoyConfig) {
    this.#config = config
  }

  current(): EnvoyConfig {
    return this.#config
  }

  problem(): undefined {
    return undefined
  }

  loads(): number {
    return 1
  }

  failures(): number {
    return 0
  }

  onChange(listener: (config: EnvoyConfig) => void): void {
    this.#listeners.push(listener)
  }

  use(config: EnvoyConfig): void {
    this.#config = config
    for (const listener of this.#listeners) listener(config)
  }

  close(): void {}
}
