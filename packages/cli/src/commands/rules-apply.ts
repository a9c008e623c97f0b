/** `sluice rules apply`, `diff` and `validate`: a whole set from a file. */
import { AdminError, type AppliedView, type RuleDiff } from '@sluice/client'
import {
  limitNameOf,
  type LimitSpec,
  parseRules,
  parseData,
  type Rule,
  type RuleSet,
  SHARE_WHOLE,
  TOLERANCE,
  toleratedOffer,
} from '@sluice/core'
import type { Command } from 'commander'
import { type ConfirmFlags, confirm, requireTerminal, explainConfirmation } from '../confirm.js'
import { diffText, isEmptyDiff } from '../diff-text.js'
import { UsageError, OK, REFUSED } from '../command-errors.js'
import { type InputText, readInputFile } from '../input-files.js'
import { escapeTerminal, escapedJson } from '../terminal-escape.js'
import {
  type ChangeFlags,
  type Cli,
  type CommonFlags,
  helpOf,
  run,
  type CommandContext,
  withCommon,
  withWhy,
} from '../command-context.js'
import { type EnvoyFlags, FROM, MERGE_DOMAINS, validateEnvoy } from './rules-import.js'
import { questionOf } from './rules-set.js'

interface FileFlags extends CommonFlags {
  readonly file: string
  readonly strict?: boolean
  readonly shadow?: boolean
}

interface ValidateFlags extends EnvoyFlags {
  readonly file?: string
  readonly trust?: string
  readonly regions?: string
}

interface ApplyFlags extends FileFlags, ChangeFlags, ConfirmFlags {
  readonly dryRun?: boolean
  readonly confirmNoRules?: boolean
}

const FILE = [
  '-f, --file <file>',
  'the whole rule set in YAML or JSON; - is standard input',
] as const
const STRICT = ['--strict', 'take warnings for errors'] as const
const SHADOW = ['--shadow', 'changed limits become candidates, new rules begin in shadow'] as const

export function addRulesApply(rules: Command, cli: Cli): void {
  withWhy(rules.command('apply'))
    .requiredOption(...FILE)
    .option(...SHADOW)
    .option(...STRICT)
    .option('--dry-run', 'show what would change without changing it')
    .option('-y, --yes', 'do not ask for confirmation')
    .option('--confirm-no-rules', 'allow an empty rule set; every call is then allowed')
    .description('replace the rules by those of a file; shows the difference and asks first')
    .addHelpText('after', helpOf(APPLY_EXAMPLES))
    .action((flags: ApplyFlags) =>
      run(cli, flags, async (context) => {
        if (flags.dryRun !== true) requireTerminal(context.io, flags, ', or --dry-run to look only')
        return applyRules(context, flags)
      }),
    )

  withCommon(rules.command('diff'))
    .requiredOption(...FILE)
    .option(...SHADOW)
    .option(...STRICT)
    .description('show what applying a file would change; exits 1 if anything changes')
    .addHelpText('after', helpOf(DIFF_EXAMPLES))
    .action((flags: FileFlags) => run(cli, flags, (context) => diffRules(context, flags)))

  rules
    .command('validate')
    .argument('[directory]', 'with --from: the directory of the configuration')
    .option(...FILE)
    .option(...FROM)
    .option(...MERGE_DOMAINS)
    .option(...STRICT)
    .option(
      '--trust <attributes>',
      'attributes, split by commas, that callers cannot set themselves',
    )
    .option('--regions <names>', 'regions, split by commas; by default those of shares')
    .option('--json', 'print JSON')
    .description('check a file or a configuration without a server; exits 1 if it has errors')
    .addHelpText('after', VALIDATE_HELP)
    .action(async (directory: string | undefined, flags: ValidateFlags) => {
      const { file, from } = flags
      if (file !== undefined && from === undefined && directory === undefined) {
        cli.exitWith(await validate(cli, { ...flags, file }))
        return
      }
      if (file !== undefined || from === undefined) {
        const found = file === undefined ? 'neither' : 'more than that'
        throw new UsageError(`found ${found}; accepted: -f <file>, or --from envoy <directory>`)
      }
      cli.exitWith(await validateEnvoy(cli, directory, flags))
    })
}

const APPLY_EXAMPLES = `sluice rules apply -f rules.yaml --why 'INC-7: slow down exports'
sluice rules apply -f rules.yaml --shadow
sluice rules apply -f - --yes < rules.yaml`
const DIFF_EXAMPLES = `sluice rules diff -f rules.yaml
sluice rules diff -f rules.yaml --json`
const VALIDATE_HELP = `
Examples:
  sluice rules validate -f rules.yaml
  sluice rules validate -f rules.yaml --strict
  sluice rules validate -f rules.yaml --trust tokens,weight
  sluice rules validate -f rules.yaml --regions eu-west,us-east
  sluice rules validate --from envoy /srv/runtime_data/current/ratelimit/config

Exit codes: 0 good, 1 has errors, 2 misuse.`

async function applyRules(context: CommandContext, flags: ApplyFlags): Promise<number> {
  const { io, client, isJson } = context
  if (flags.file === '-' && flags.yes !== true && flags.dryRun !== true) {
    throw new UsageError(
      '-f -: found rules where an answer would come from; accepted: --yes with it',
    )
  }
  const source = await readInputFile(io, flags.file)
  // Everything below refers to this version: if it changes in the meantime, nothing is applied.
  const { version } = await client.listRules({ limit: 1 })
  const options = { ...optionsOf(source, flags), ifMatch: version, why: flags.why }
  const preview = await explainConflict(
    client.applyRules(source.text, { ...options, dryRun: true }),
  )
  printWarnings(context, preview.warnings)
  const isSame = isEmptyDiff(preview.diff)
  if (isJson && (isSame || flags.dryRun === true)) io.out(`${escapedJson(preview)}\n`)
  if (!isJson) io.out(diffText(preview.diff))
  if (isSame || flags.dryRun === true) return OK
  // Scripts get one result, and a user still sees what the question is about.
  if (isJson && flags.yes !== true) io.err(diffText(preview.diff))
  if (!(await confirm(io, flags, questionOf(preview.diff, 'Apply?')))) {
    io.err('Nothing was changed.\n')
    return REFUSED
  }
  const applied = await explainConflict(client.applyRules(source.text, options))
  context.print(applied, () => `Applied as version ${applied.version}.\n`)
  return OK
}

/** Adds what to do next to the server's message. */
async function explainConflict(applying: Promise<AppliedView>): Promise<AppliedView> {
  try {
    return await explainConfirmation(applying, '--confirm-no-rules')
  } catch (error) {
    if (!(error instanceof AdminError) || error.code !== 'version_conflict') throw error
    const now = error.version === undefined ? '' : `, now version ${error.version}`
    const message = `The rules were changed by someone else in the meantime${now}; nothing was changed. Run the command again.`
    throw new Error(message, { cause: error })
  }
}

function optionsOf({ file }: InputText, { strict, shadow, confirmNoRules }: Partial<ApplyFlags>) {
  return { file, strict, shadow, confirmNoRules }
}

async function diffRules(context: CommandContext, flags: FileFlags): Promise<number> {
  const { io, client, print } = context
  const source = await readInputFile(io, flags.file)
  const answer = await client.validateRules(source.text, {
    ...optionsOf(source, flags),
    // Nothing changes, so no confirmation is needed.
    confirmNoRules: true,
  })
  printWarnings(context, [...answer.errors, ...answer.warnings])
  print(answer, () => (answer.diff === null ? '' : diffText(answer.diff)))
  return isUnchanged(answer.diff) ? OK : REFUSED
}

/** Null if the rules have errors, so that there is nothing to compare. */
function isUnchanged(diff: RuleDiff | null): boolean {
  return diff !== null && isEmptyDiff(diff)
}

function printWarnings(
  { io, isJson }: CommandContext,
  problems: readonly { readonly message: string }[],
): void {
  if (!isJson) for (const { message } of problems) io.err(`${escapeTerminal(message)}\n`)
}

async function validate(
  { io }: Cli,
  flags: ValidateFlags & { readonly file: string },
): Promise<number> {
  const { text, file } = await readInputFile(io, flags.file)
  const trusted = new Set(flags.trust?.split(',').map((name) => name.trim()))
  const regions = flags.regions?.split(',').map((name) => name.trim())
  const options = { file, strict: flags.strict, trusted, regions }
  const { rules, errors: own, warnings } = parseRules(text, options)
  // A rule store keeps rules as plain values, and refuses what has no such form.
  const errors = own.length > 0 ? own : parseData(text, { file }).problems
  const valid = rules !== undefined && errors.length === 0
  const notes = valid ? [...inFlightNotes(rules.rules), ...toleranceNotes(rules, regions)] : []
  if (flags.json === true) io.out(`${escapedJson({ valid, errors, warnings, notes })}\n`)
  else {
    for (const { message } of [...errors, ...warnings]) io.err(`${escapeTerminal(message)}\n`)
    if (valid)
      io.out(`${rules.rules.length} ${rules.rules.length === 1 ? 'rule' : 'rules'}, no errors.\n`)
    for (const note of notes) io.out(`${note}\n`)
  }
  return valid ? OK : REFUSED
}

/** What is right, but depends on the entry point, which a file of rules does not know. */
function inFlightNotes(rules: readonly Rule[]): readonly string[] {
  const counting = rules.filter((rule) => limitsOf(rule).some(isConcurrency))
  if (counting.length === 0) return []
  const ids = counting.map(({ id }) => id)
  const shown = ids.slice(0, IDS_SHOWN_MAX).join(', ')
  const more = ids.length > IDS_SHOWN_MAX ? ` and ${ids.length - IDS_SHOWN_MAX} more` : ''
  const where = 'gateway, middlewares and reservations, not decision API and forward-auth'
  return [`Calls in flight are counted only where their end is seen (${where}): ${shown}${more}.`]
}

const IDS_SHOWN_MAX = 10

/** How far the tolerance of limits that regions merge holds; none for one region. */
function toleranceNotes(
  { rules, shares }: RuleSet,
  regions: readonly string[] | undefined,
): readonly string[] {
  if ((shares?.size ?? regions?.length ?? 1) < 2) return []
  const notes = rules.flatMap((rule) =>
    rule.limits.flatMap((limit) => {
      const times = rule.mode === 'off' ? undefined : toleratedOffer(limit, rule)
      if (times === undefined) return []
      const share = `${((rule.tolerance ?? TOLERANCE) * 100) / SHARE_WHOLE}%`
      const name = `${rule.id}, ${limitNameOf(limit)}`
      return [`Regions stay within ${share} of ${name} while up to ${times} times it is offered.`]
    }),
  )
  const more = notes.length - TOLERANCES_SHOWN_MAX
  const shown = notes.slice(0, TOLERANCES_SHOWN_MAX)
  return more > 0 ? [...shown, `And ${more} more limits that regions merge.`] : shown
}

const TOLERANCES_SHOWN_MAX = 20

function limitsOf({ limits, tiers, overrides, candidate }: Rule): readonly LimitSpec[] {
  const lists = [
    limits,
    ...(tiers?.limits.values() ?? []),
    ...overrides.map((override) => override.limits),
    candidate?.limits ?? [],
    ...(candidate?.tiers?.limits.values() ?? []),
  ]
  return lists.flat()
}

function isConcurrency({ algorithm }: LimitSpec): boolean {
  return algorithm === 'concurrency'
}
