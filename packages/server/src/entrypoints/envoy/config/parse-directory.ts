/** Parses the files of a configuration directory as one configuration, accepted whole or not. */
import { CooperativeYield } from '../../../lib/cooperative-yield.js'
import { joinParsed, type ParseConfigOptions, type ParsedConfig } from './join-parsed.js'
import { createSeenDomains, parseDomainFile, type ParsedDomainFile } from './parse-domain-file.js'
import { listConfigFiles, readConfigFiles, type ConfigFile } from './read-directory.js'
import { readTree } from './read-tree.js'

export interface ConfigDirectory extends ParsedConfig {
  readonly files: readonly string[]
  /** Files that were left out: hidden ones, and copies of editors. */
  readonly skipped: readonly string[]
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
  return joinParsed(parsed)
}
