/** Joins what was parsed of several files or resources: accepted as a whole or not at all. */
import type { Problem } from '@sluice/core/config-reader'
import type { DescriptorConfig, DomainConfig } from './domain-config.js'
import type { ParsedDomainFile } from './parse-domain-file.js'

/** The most problems of all parts together: each may have a hundred. */
export const PROBLEMS_MAX = 200

export type ConfigProblem = Omit<Problem, 'rule'>

export interface ParsedConfig {
  /** Undefined if there are errors. In the order of the files or resources. */
  readonly domains: readonly DomainConfig[] | undefined
  readonly errors: readonly ConfigProblem[]
  readonly warnings: readonly ConfigProblem[]
}

export interface ParseConfigOptions {
  /** Whether several files or resources may have one domain. @default false */
  readonly mergeDomains?: boolean | undefined
}

export function joinParsed(parsed: readonly ParsedDomainFile[]): ParsedConfig {
  const errors = parsed.flatMap((each) => each.errors).slice(0, PROBLEMS_MAX)
  const warnings = parsed.flatMap((each) => each.warnings).slice(0, PROBLEMS_MAX)
  return { domains: errors.length > 0 ? undefined : mergeDomains(parsed), errors, warnings }
}

function mergeDomains(parsed: readonly ParsedDomainFile[]): readonly DomainConfig[] {
  const merged = new Map<string, DescriptorConfig[]>()
  for (const { config } of parsed) {
    if (config === undefined) continue
    const known = merged.get(config.domain)
    if (known === undefined) merged.set(config.domain, [...config.descriptors])
    else for (const descriptor of config.descriptors) known.push(descriptor)
  }
  return [...merged].map(([domain, descriptors]) => ({ domain, descriptors }))
}
