/** `sluice rules import` and `validate --from`: configurations of other rate limiters. */
import { parseRules, show, writeYaml } from '@sluice/core'
import type { ConfigDirectory, ImportedRules, ImportNote } from '@sluice/server/envoy-config'
import type { Command } from 'commander'
import { OK, REFUSED, UsageError } from '../command-errors.js'
import type { Cli } from '../command-context.js'
import { writeOutputFile } from '../input-files.js'
import { escapeDocument, escapedJson, escapeTerminal } from '../terminal-escape.js'

export interface EnvoyFlags {
  readonly from?: string
  readonly mergeDomains?: boolean
  readonly strict?: boolean
  readonly json?: boolean
}

interface ImportFlags extends EnvoyFlags {
  readonly domain?: string
  readonly output?: string
}

export const FROM = [
  '--from <format>',
  'the format: envoy, the configuration of envoyproxy/ratelimit',
] as const
export const MERGE_DOMAINS = [
  '--merge-domains',
  'with --from: several files may have one domain, as with MERGE_DOMAIN_CONFIG',
] as const

// No single quotes: the layout check would take the following text for a module name.
const NAME = `import`
const NOTE_SHOWN_MAX = 1000
const DOMAINS_SHOWN = 10

export function addRulesImport(rules: Command, cli: Cli): void {
  rules
    .command(NAME)
    .argument('[directory]', 'the directory of the configuration')
    .option(...FROM)
    .option('--domain <domain>', 'only this domain')
    .option(...MERGE_DOMAINS)
    .option('-o, --output <file>', 'write to this file')
    .option('--json', 'print JSON')
    .description('convert a configuration to rules; exits 1 if a limit has no rule that is equal')
    .addHelpText('after', HELP)
    .action(async (directory: string | undefined, flags: ImportFlags) => {
      cli.exitWith(await importEnvoy(cli, directory, flags))
    })
}

const HELP = `
Examples:
  sluice rules import --from envoy config > rules.yaml
  sluice rules import --from envoy config --domain shop -o rules.yaml
  sluice rules import --from envoy config | sluice rules apply -f - --dry-run

Comments in the rules say what could not be imported, and why. Nothing is sent to a server.

Exit codes: 0 everything, 1 something not, or has errors, 2 misuse.`

export async function validateEnvoy(
  { io }: Cli,
  directory: string | undefined,
  flags: EnvoyFlags,
): Promise<number> {
  const { LimitTree } = await loadReader()
  const read = await readDirectory(directory, flags)
  const { domains = [], files, skipped, errors, warnings } = read
  const valid = errors.length === 0 && (flags.strict !== true || warnings.length === 0)
  const counts = domains.map((config) => ({
    domain: config.domain,
    limits: new LimitTree(config).nodes.length,
  }))
  if (flags.json === true) {
    const answer = { valid, files, skipped, domains: counts, errors, warnings }
    io.out(`${escapedJson(answer)}\n`)
    return valid ? OK : REFUSED
  }
  printProblems(io, read)
  for (const file of skipped) io.err(`${escapeTerminal(file)}: left out\n`)
  if (!valid) return REFUSED
  const limits = counts.reduce((sum, each) => sum + each.limits, 0)
  const what = [count(files, 'file'), count(domains, 'domain'), plural(limits, 'limit')]
  io.out(`${what.join(', ')}, no errors.\n`)
  return OK
}

async function importEnvoy(
  { io }: Cli,
  directory: string | undefined,
  flags: ImportFlags,
): Promise<number> {
  const read = await readDirectory(directory, flags)
  if (read.domains === undefined) {
    printProblems(io, read)
    io.err('Nothing was imported.\n')
    return REFUSED
  }
  const { importRules } = await loadReader()
  const imported = importRules(selectDomain(read.domains, flags.domain))
  const document = { rules: imported.rules }
  const yaml = escapeDocument(`${headerOf(imported)}${writeYaml(document)}`)
  const { errors } = parseRules(yaml)
  if (errors.length > 0) {
    for (const { message } of errors) io.err(`${escapeTerminal(message)}\n`)
    io.err('The rules of all these limits do not load together. Nothing was imported.\n')
    return REFUSED
  }
  const text = flags.json === true ? `${escapedJson(imported)}\n` : yaml
  if (flags.output === undefined) io.out(text)
  else writeOutputFile(flags.output, text)
  const skipped = imported.notes.filter(({ kind }) => kind === 'skipped')
  const summary = `${plural(imported.rules.length, 'rule')}, ${plural(skipped.length, 'limit')} not imported.\n`
  io.err(skipped.length === 0 ? summary : `${summary}The comments in the rules say why.\n`)
  return skipped.length === 0 ? OK : REFUSED
}

/** Loaded only for these commands: the others start faster without it. */
function loadReader() {
  return import('@sluice/server/envoy-config')
}

async function readDirectory(
  directory: string | undefined,
  { from, mergeDomains }: EnvoyFlags,
): Promise<ConfigDirectory> {
  if (from !== 'envoy') {
    const found = from === undefined ? 'nothing' : `"${show(from)}"`
    throw new UsageError(`--from: found ${found}; accepted: envoy`)
  }
  if (directory === undefined) {
    throw new UsageError('--from envoy: found no directory; accepted: one with YAML files')
  }
  const { readConfigDirectory } = await loadReader()
  try {
    return await readConfigDirectory(directory, { mergeDomains })
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

type Domains = NonNullable<ConfigDirectory['domains']>

function selectDomain(domains: Domains, wanted: string | undefined): Domains {
  if (wanted === undefined) return domains
  const selected = domains.filter(({ domain }) => domain === wanted)
  if (selected.length > 0) return selected
  const known = domains.slice(0, DOMAINS_SHOWN).map(({ domain }) => show(domain))
  const more = domains.length > known.length ? ' and others' : ''
  const accepted = `${known.join(', ')}${more}`
  throw new UsageError(`--domain: found "${show(wanted)}"; accepted: ${accepted}`)
}

function printProblems(io: Cli['io'], { errors, warnings }: ConfigDirectory): void {
  for (const { message } of [...errors, ...warnings]) io.err(`${escapeTerminal(message)}\n`)
}

const HEADER = [
  'Imported from a configuration of envoyproxy/ratelimit.',
  'Each rule is equal to the limit of its descriptor for requests whose keys are nested as that',
  'configuration nests them, and have values. What a limit refuses takes nothing from it here.',
]

function headerOf({ notes }: ImportedRules): string {
  const lines = [
    ...HEADER,
    ...sectionOf(notes, 'skipped', 'Not imported:'),
    ...sectionOf(notes, 'dropped', 'Imported without:'),
    ...sectionOf(notes, 'unlimited', 'Unlimited, so without a rule:'),
  ]
  return lines.map((line) => `${`# ${line}`.trimEnd()}\n`).join('')
}

function sectionOf(
  notes: readonly ImportNote[],
  kind: ImportNote['kind'],
  title: string,
): readonly string[] {
  const found = notes.filter((note) => note.kind === kind)
  if (found.length === 0) return []
  const lineOf = ({ path, reasons }: ImportNote) =>
    kind === 'unlimited' ? path : `${path}: ${reasons.join('; ')}`
  // On one line each, whatever the names contain.
  return ['', title, ...found.map((note) => `- ${show(lineOf(note), NOTE_SHOWN_MAX)}`)]
}

function count(items: readonly unknown[], what: string): string {
  return plural(items.length, what)
}

function plural(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? '' : 's'}`
}
