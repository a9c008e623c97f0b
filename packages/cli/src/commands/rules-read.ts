/** `sluice rules list`, `get`, `history` and `export`. */
import type { AdminClient, RulesPage, RuleView, VersionView } from '@sluice/client'
import { writeYaml } from '@sluice/core'
import type { Command } from 'commander'
import { writeOutputFile } from '../input-files.js'
import { byText, matchText, ruleLimitsText } from '@sluice/core/text'
import { instantText } from '../time-format.js'
import { escapeTerminal, escapeDocument } from '../terminal-escape.js'
import {
  type Cli,
  type CommonFlags,
  helpOf,
  run,
  type CommandContext,
  wholeNumber,
  withCommon,
} from '../command-context.js'
import { table } from '../text-table.js'
import { whatChanged } from '../version-summary.js'
import { paginate } from '../paginate.js'

const PAGE = 1000
const VERSIONS_DEFAULT = 20
const VERSIONS_PAGE = 100

export function addRulesRead(rules: Command, cli: Cli): void {
  withCommon(rules.command('list'))
    .description('list all rules in their order')
    .addHelpText('after', helpOf('sluice rules list\nsluice rules list --json'))
    .action((flags: CommonFlags) => run(cli, flags, listRules))

  withCommon(rules.command('get'))
    .argument('<id>', 'the id of a rule')
    .description('show one rule as YAML, with its version')
    .addHelpText('after', helpOf('sluice rules get per-user\nsluice rules get per-user --json'))
    .action((id: string, flags: CommonFlags) =>
      run(cli, flags, async ({ client, print }) => {
        const rule = await client.getRule(id)
        print(rule, () => ruleText(rule))
        return undefined
      }),
    )

  withCommon(rules.command('history'))
    .argument('[id]', 'only changes of this rule, its candidate and its overrides')
    .option(
      '--limit <count>',
      'maximum number of versions',
      wholeNumber('--limit', 1),
      VERSIONS_DEFAULT,
    )
    .option('--before <version>', 'only versions below this one', wholeNumber('--before', 1))
    .description('list changes: who, what, when and why, newest first')
    .addHelpText('after', helpOf('sluice rules history\nsluice rules history per-user --limit 5'))
    .action((id: string | undefined, flags: HistoryFlags) =>
      run(cli, flags, (context) => showHistory(context, id, flags)),
    )

  withCommon(rules.command('export'))
    .option('-o, --output <file>', 'write to this file')
    .description('export the whole rule set as YAML, with candidates and overrides, without keys')
    .addHelpText(
      'after',
      helpOf('sluice rules export -o rules.yaml\nsluice rules export > rules.yaml'),
    )
    .action((flags: ExportFlags) => run(cli, flags, (context) => exportRules(context, flags)))
}

interface HistoryFlags extends CommonFlags {
  readonly limit: number
  readonly before?: number
}

interface ExportFlags extends CommonFlags {
  readonly output?: string
}

async function listRules({ io, client, print }: CommandContext): Promise<undefined> {
  const set = await readAllRules(client)
  print(set, () =>
    set.rules.length === 0
      ? noRulesText(set.version)
      : shadowNote(set) +
        table(
          ['ID', 'MODE', 'BY', 'LIMITS', 'MATCH', 'OVERRIDES', 'VERSION'],
          set.rules.map((rule) => [
            rule.id,
            modeText(rule),
            byText(rule['by']),
            ruleLimitsText(rule),
            matchText(rule['match']),
            rule.overrideCount,
            rule.version,
          ]),
          io.columns,
        ),
  )
  return undefined
}

/** The version of the last change to the set; there is none before the first change. */
function noRulesText(version: number): string {
  const since = version === 0 ? '' : `, since version ${version}`
  return `No rules: every call is allowed${since}.\n`
}

/** Warns that rules are in shadow, because missing protection must not go unnoticed. */
function shadowNote({ shadowUntil }: RulesPage): string {
  // An older server does not report this.
  if (shadowUntil === null || shadowUntil === undefined) return ''
  return `All enforced rules are in shadow until ${instantText(shadowUntil)}.\n\n`
}

function modeText({ mode, candidate, shadowUntil }: RuleView): string {
  const written = typeof mode === 'string' ? mode : 'enforce'
  const own =
    shadowUntil === undefined
      ? written
      : `shadow until ${instantText(shadowUntil)}, then ${written}`
  return candidate === undefined || candidate === null ? own : `${own} +candidate`
}

/** Read page by page, because a set has up to 10,000 rules. */
async function readAllRules(client: AdminClient): Promise<RulesPage> {
  const first = await client.listRules({ limit: PAGE })
  if (first.next === null) return first
  const request = { from: first.next, max: Infinity, page: PAGE }
  const { items } = await paginate<RuleView, string>(request, async (after, limit) => {
    const page = await client.listRules({ after, limit })
    return { items: page.rules, next: page.next }
  })
  return { ...first, rules: [...first.rules, ...items], next: null }
}

function ruleText({ version, overrideCount, shadowUntil, ...rule }: RuleView): string {
  const overrides = overrideCount === 1 ? '1 override' : `${overrideCount} overrides`
  const shadow =
    shadowUntil === undefined ? '' : `, in shadow until ${instantText(escapeTerminal(shadowUntil))}`
  return `# version ${version}, ${overrides}${shadow}\n${escapeDocument(writeYaml(rule))}`
}

async function showHistory(
  { io, client, print }: CommandContext,
  id: string | undefined,
  { limit, before }: HistoryFlags,
): Promise<undefined> {
  const request = { from: before, max: limit, page: VERSIONS_PAGE }
  const end: { keptSince?: number } = {}
  const { items: versions } = await paginate<VersionView, number>(request, async (from, max) => {
    const page = { before: from, limit: max }
    const historyPage =
      id === undefined ? await client.listVersions(page) : await client.listRuleVersions(id, page)
    // A server of the previous release keeps all versions, and does not report that.
    if (historyPage.next === null && historyPage.keptSince) end.keptSince = historyPage.keptSince
    return { items: historyPage.versions, next: historyPage.next }
  })
  const { keptSince } = end
  const older = keptSince === undefined ? '' : `Versions are kept since version ${keptSince}.\n`
  print({ versions, ...end }, () => versionsText(versions, io.columns) + older)
  return undefined
}

export function versionsText(versions: readonly VersionView[], columns?: number): string {
  if (versions.length === 0) return 'No changes.\n'
  return table(
    ['VERSION', 'AT', 'BY', 'WHAT', 'WHY'],
    versions.map((past) => [
      past.version,
      instantText(past.at),
      past.by,
      whatChanged(past),
      past.why ?? '',
    ]),
    columns,
  )
}

async function exportRules(
  { io, client, isJson }: CommandContext,
  { output }: ExportFlags,
): Promise<undefined> {
  const text = await client.exportRules()
  if (output !== undefined) {
    writeOutputFile(output, text)
    io.err(`Written to ${escapeTerminal(output)}.\n`)
  } else if (isJson) io.out(`${JSON.stringify({ yaml: text })}\n`)
  // Output to a file or a program is not escaped.
  else io.out(io.columns === undefined ? text : escapeDocument(text))
  return undefined
}
