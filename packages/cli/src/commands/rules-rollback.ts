/** `sluice rules rollback`: restores earlier rules as a new version. */
import { AdminError, type AppliedView, type VersionView } from '@sluice/client'
import type { Command } from 'commander'
import {
  type ConfirmFlags,
  confirm,
  requireTerminal,
  explainConfirmation,
  reportUnchanged,
} from '../confirm.js'
import { diffText, isEmptyDiff } from '../diff-text.js'
import { UsageError, OK } from '../command-errors.js'
import { escapeTerminal } from '../terminal-escape.js'
import {
  type ChangeFlags,
  type Cli,
  helpOf,
  run,
  type CommandContext,
  withWhy,
  wholeNumber,
} from '../command-context.js'
import { isShadowOnly } from '../version-summary.js'
import { versionsText } from './rules-read.js'

interface RollbackFlags extends ChangeFlags, ConfirmFlags {
  readonly confirmNoRules?: boolean
}

/** Pages of history that are read to show what a rollback reverts, or which versions exist. */
const PAGES_MAX = 10
const PAGE = 100
const UNDONE_SHOWN_MAX = 20
/** The records that a rollback reverts. Keys and tokens have versions too, and stay unchanged. */
const TAKEN_BACK: ReadonlySet<string> = new Set(['set', 'rule', 'candidate', 'override'])

/** The most versions offered if the command line names none. */
const OFFERED_MAX = 20
/** How often the user is asked for a version that is in the list. */
const TRIES_MAX = 3

export function addRulesRollback(rules: Command, cli: Cli): void {
  withWhy(rules.command('rollback'))
    .argument(
      '[words...]',
      'a version (without one, a list to choose from); before it, the id of the only rule meant',
    )
    .usage('[options] [id] [version]')
    .option('-y, --yes', 'do not ask for confirmation')
    .option('--confirm-no-rules', 'allow a rollback to an empty rule set')
    .description('restore an earlier version as a new one; shows what it undoes and asks first')
    .addHelpText(
      'after',
      helpOf(
        'sluice rules rollback 41\nsluice rules rollback per-user\nsluice rules rollback per-user 41 --yes',
      ),
    )
    .action((words: readonly string[], flags: RollbackFlags) =>
      run(cli, flags, (context) => rollback(context, words, flags)),
    )
}

async function rollback(
  context: CommandContext,
  words: readonly string[],
  flags: RollbackFlags,
): Promise<number> {
  const { io, client, print, isJson } = context
  const { id, given } = readWords(words)
  if (given !== undefined) requireTerminal(io, flags, '')
  const version = given ?? (await chooseVersion(context, id))
  if (version === undefined) return reportUnchanged(io)
  const options = {
    ifMatch: await presentVersion(context, id),
    why: flags.why,
    confirmNoRules: flags.confirmNoRules,
  }
  const goBack = (dryRun: boolean): Promise<AppliedView> =>
    id === undefined
      ? client.rollback(version, { ...options, dryRun })
      : client.rollbackRule(id, version, { ...options, dryRun })
  if (flags.yes !== true) {
    const preview = await goBack(true)
    if (isEmptyDiff(preview.diff)) {
      print(preview, () => `Everything is as in version ${version}: nothing to take back.\n`)
      return OK
    }
    const say = isJson ? io.err : io.out
    say(undoneText(await versionsAfter(context, id, version), io.columns) + diffText(preview.diff))
    if (!(await confirm(io, flags, `Go back to version ${version}?`))) return reportUnchanged(io)
  }
  const applied = await explainConfirmation(goBack(false), '--confirm-no-rules')
  const diff = flags.yes === true ? diffText(applied.diff) : ''
  print(applied, () => `${diff}As in version ${version}, now version ${applied.version}.\n`)
  return OK
}

/** A single word is a version if it is a number, and a rule id otherwise. */
function readWords(words: readonly string[]) {
  if (words.length > 2) throw new UsageError('found more than two words; accepted: [id] [version]')
  const [first, second] = words
  if (second !== undefined) return { id: first, given: wholeNumber('version', 1)(second) }
  if (first === undefined) return { id: undefined, given: undefined }
  const isNumber = /^\d+$/.test(first)
  return isNumber
    ? { id: undefined, given: wholeNumber('version', 1)(first) }
    : { id: first, given: undefined }
}

/** Lists the versions and asks for one; undefined if the user chose none of them. */
async function chooseVersion(
  context: CommandContext,
  id: string | undefined,
): Promise<number | undefined> {
  const { io } = context
  const [newest, ...earlier] = await versionsAfter(context, id, 0, OFFERED_MAX + 1)
  const what = id === undefined ? 'the rules' : escapeTerminal(id)
  if (newest === undefined || earlier.length === 0) {
    throw new UsageError(`found no earlier version of ${what} to go back to; see rules history`)
  }
  const offered = earlier.slice(0, OFFERED_MAX)
  const command = `sluice rules rollback ${id === undefined ? '' : `${escapeTerminal(id)} `}<version>`
  if (!io.isTerminal) {
    const list = versionsText(offered, io.columns)
    throw new UsageError(
      `found no version, and no terminal to ask on; accepted: ${command}\n${list}`,
    )
  }
  io.err(`Versions of ${what}; version ${newest.version} is the current one:\n`)
  io.err(versionsText(offered, io.columns))
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const answer = (await io.prompt('Roll back to version: ')).trim()
    if (answer === '') return undefined
    if (offered.some(({ version }) => String(version) === answer)) return Number(answer)
    io.err(
      `Found "${escapeTerminal(answer)}"; accepted: one of the versions above, or nothing to stop.\n`,
    )
  }
  return undefined
}

/** Undefined for a deleted rule, which a rollback creates again. */
async function presentVersion({ client }: CommandContext, id: string | undefined) {
  if (id === undefined) return (await client.listRules({ limit: 1 })).version
  try {
    return (await client.getRule(id)).version
  } catch (error) {
    if (error instanceof AdminError && error.code === 'rule_unknown') return undefined
    throw error
  }
}

/** Newest first; one more than is shown, to know whether there are more. */
async function versionsAfter(
  { client }: CommandContext,
  id: string | undefined,
  version: number,
  most = UNDONE_SHOWN_MAX + 1,
): Promise<readonly VersionView[]> {
  const undone: VersionView[] = []
  let before: number | undefined
  for (let pages = 0; pages < PAGES_MAX && undone.length < most; pages++) {
    const page = { before, limit: PAGE }
    const { versions, next } =
      id === undefined ? await client.listVersions(page) : await client.listRuleVersions(id, page)
    undone.push(...versions.filter((past) => past.version > version && isTakenBack(past)))
    if (next === null || next <= version || versions.length === 0) break
    before = next
  }
  return undone
}

function isTakenBack({ changes }: VersionView): boolean {
  return changes.some((change) => TAKEN_BACK.has(change.kind) && !isShadowOnly(change))
}

function undoneText(undone: readonly VersionView[], columns: number | undefined): string {
  const more = undone.length > UNDONE_SHOWN_MAX ? 'and more\n' : ''
  const versions = versionsText(undone.slice(0, UNDONE_SHOWN_MAX), columns)
  return `This undoes:\n${versions}${more}\n`
}
