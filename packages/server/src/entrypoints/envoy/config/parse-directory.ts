/** Parses the files of a configuration directory as one configuration, accepted whole or not. */
import type { Problem } from '@sluice/core/config-reader'
import { CooperativeYield } from '../../../lib/cooperative-yield.js'
import type { DescriptorConfig, DomainConfig } from './domain-config.js'
import { createSeenDomains, parseDomainFile, type ParsedDomainFile } from './parse-domain-file.js'
import { listConfigFiles, readConfigFiles, type ConfigFile } from './read-directory.js'
import { readTree } from './read-tree.js'

/** The most problems of all files together: each file may have a hundred. */
const PROBLEMS_MAX = 200

export type ConfigProblem = Omit<Problem, 'rule'>

export interface ParsedConfig {
  /** Undefined if there are errors. In the order of the files. */
  readonly domains: readonly DomainConfig[] | undefined
  readonly errors: readonly ConfigProblem[]
  readonly warnings: readonly ConfigProblem[]
}

export interface ConfigDirectory extends ParsedConfig {
  readonly files: readonly string[]
  /** Files that were left out: hidden ones, and copies of editors. */
  readonly skipped: readonly string[]
}

export interface ParseConfigOptions {
  /** Whether several files may have one domain. @default false */
  readonly mergeDomains?: boolean | undefined
}

/** Rejects if the directory cannot be read; the message says why. */
export async function readConfigDirectory(
  directory: string,
  options: ParseConfigOptions = {},
): Promise<ConfigDirectory> {
  const { files, skipped } = await listConfigFiles(directory)
  const snapshot = await readConfigFiles(files)
  return { files, skipped, ...(await parseConfigFiles(snapshot.files, options)) }
}

/** Decisions run in between: each file is a slice of work, and a large one is read elsewhere. */
export async function parseConfigFiles(
  files: readonly ConfigFile[],
  { mergeDomains = false }: ParseConfigOptions,
): Promise<ParsedConfig> {
  const seen = createSeenDomains(mergeDomains)
  const parsed: ParsedDomainFile[] = []
  const slice = new CooperativeYield()
  for (const { file, text } of files) {
    parsed.push(parseDomainFile(text, { file, seen, tree: await readTree(text) }))
    if (slice.isDue()) await slice.pause()
  }
  const errors = parsed.flatMap((each) => each.errors).slice(0, PROBLEMS_MAX)
  const warnings = parsed.flatMap((each) => each.warnings).slice(0, PROBLEMS_MAX)
  return { domains: errors.length > 0 ? undefined : mergeParsed(parsed), errors, warnings }
}

function mergeParsed(parsed: readonly ParsedDomainFile[]): readonly DomainConfig[] {
  const merged = new Map<string, DescriptorConfig[]>()
  for (const { config } of parsed) {
    if (config === undefined) continue
    const known = merged.get(config.domain)
    if (known === undefined) merged.set(config.domain, [...config.descriptors])
    else for (const descriptor of config.descriptors) known.push(descriptor)
  }
  return [...merged].map(([domain, descriptors]) => ({ domain, descriptors }))
}
