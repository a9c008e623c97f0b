/** Where the configuration of the rate limit service comes from: a directory or a control plane. */
import type { LimitTree } from './limit-tree.js'

/** What the rate limit service decides by. */
export interface EnvoyConfig {
  readonly domains: ReadonlyMap<string, LimitTree>
}

export interface EnvoyConfigSource {
  /** Undefined until the first configuration without errors. */
  current(): EnvoyConfig | undefined
  /** Why the newest configuration is not active. */
  problem(): string | undefined
  /** Configurations that became active. */
  loads(): number
  /** Configurations that did not, and times that they could not be read. */
  failures(): number
  onChange(listener: (config: EnvoyConfig) => void): void
  close(): void | Promise<void>
}
