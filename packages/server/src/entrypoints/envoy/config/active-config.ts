/** The configuration that is active: a new one replaces it as a whole, or changes nothing. */
import type { Log } from '../../../observability/log/logger.js'
import type { EnvoyConfig } from './config-source.js'
import type { DomainConfig } from './domain-config.js'
import type { ConfigProblem, ParsedConfig } from './join-parsed.js'
import { LimitTree } from './limit-tree.js'

const PROBLEMS_LOGGED = 20

/** Log fields: where the configuration comes from, and how much of it there is. */
type LogFields = Readonly<Record<string, string | number>>

export class ActiveConfig {
  readonly #log: Log
  /** Names the source in log lines. */
  readonly #source: LogFields
  readonly #listeners: ((config: EnvoyConfig) => void)[] = []
  #active: EnvoyConfig | undefined
  #problem: string | undefined
  #loads = 0
  #failures = 0

  constructor(log: Log, source: LogFields) {
    this.#log = log
    this.#source = source
  }

  current(): EnvoyConfig | undefined {
    return this.#active
  }

  problem(): string | undefined {
    return this.#problem
  }

  loads(): number {
    return this.#loads
  }

  failures(): number {
    return this.#failures
  }

  onChange(listener: (config: EnvoyConfig) => void): void {
    this.#listeners.push(listener)
  }

  /** Activates a configuration without errors; returns whether it had none. */
  accept({ domains, errors, warnings }: ParsedConfig, counted: LogFields): boolean {
    if (domains === undefined) {
      this.fail(errors)
      return false
    }
    this.activate(domains, counted)
    for (const { message } of warnings.slice(0, PROBLEMS_LOGGED)) {
      this.#log.warn({ problem: message }, 'envoy configuration warning')
    }
    return true
  }

  /** The configuration is the active one again, after one with errors. */
  clearProblem(): void {
    if (this.#problem === undefined) return
    this.#problem = undefined
    this.#log.info(this.#source, 'envoy configuration valid again: it is the active one')
  }

  /** A problem that lasts is reported once, not at each attempt. */
  failOnce(message: string): void {
    if (this.#problem === message) return
    this.#problem = message
    this.#failures++
    this.logFailure(message)
  }

  private activate(domains: readonly DomainConfig[], counted: LogFields): void {
    const trees = new Map(domains.map((config) => [config.domain, new LimitTree(config)]))
    const active = { domains: trees }
    this.#active = active
    this.#problem = undefined
    this.#loads++
    let limits = 0
    for (const { nodes } of trees.values()) limits += nodes.length
    const fields = { ...this.#source, ...counted, domains: trees.size, limits }
    this.#log.info(fields, 'envoy configuration loaded')
    for (const listener of this.#listeners) listener(active)
  }

  private fail(errors: readonly Pick<ConfigProblem, 'message'>[]): void {
    this.#problem = summaryOf(errors)
    this.#failures++
    for (const { message } of errors.slice(0, PROBLEMS_LOGGED)) this.logFailure(message)
  }

  private logFailure(problem: string): void {
    const active = this.#active === undefined ? 'none is active' : 'the active one stays'
    this.#log.error({ ...this.#source, problem }, `envoy configuration invalid: ${active}`)
  }
}

function summaryOf(errors: readonly Pick<ConfigProblem, 'message'>[]): string {
  const [first, ...others] = errors.map(({ message }) => message)
  const more = others.length === 0 ? '' : ` (and ${others.length} more)`
  return `${first ?? 'invalid'}${more}`
}
