/** Single changes of one rule, and ways back. */
import { AdminError, type AppliedView, type VersionView } from '@sluice/client'
import type { Command } from 'commander'
import { type AskFlags, confirm, mustBeAskable, orConfirm } from '../ask.js'
import { diffText, isEmptyDiff } from '../diff-text.js'
import { Misuse, OK, REFUSED } from '../failures.js'
import { ruleLimitsText } from '../rule-text.js'
import { safe } from '../safe.js'
import {
  type ChangeFlags,
  type Cli,
  helpOf,
  run,
  type Session,
  withWhy,
  wholeNumber,
} from '../session.js'
import { versionsText } from './rules-read.js'

interface SureFlags extends ChangeFlags, AskFlags {
  readonly confirmNoRules?: boolean
  readonly confirmLast?: boolean
}

/** Pages of versions that are looked at to say what going back undoes. */
const PAGES_MAX = 10
const PAGE = 100
const UNDONE_SHOWN_MAX = 20
/** What a rollback takes back. Keys and tokens have versions too, and stay. */
const TAKEN_BACK: ReadonlySet<string> = new Set(['set', 'rule', 'candidate', 'override'])

export function addRulesChange(rules: Command, cli: Cli): void {
  addMode(rules, cli, 'shadow', 'let a rule count and refuse nobody')
  addMode(rules, cli, 'enforce', 'let a rule refuse again; its counters go on')

  withWhy(rules.command('promote'))
    .argument('<id>', 'the id of a rule with a candidate')
    .description('put the candidate of a rule into force; the counters go on')
    .addHelpText('after', helpOf('sluice rules promote per-user'))
    .action((id: string, flags: ChangeFlags) =>
      run(cli, flags, async ({ client, tell }) => {
        const rule = await client.promoteRule(id, { why: flags.why })
        const limits = safe(ruleLimitsText(rule))
        tell(rule, () => `${rule.id} has ${limits} now. Version ${rule.version}.\n`)
        return OK
      }),
    )

  withWhy(rules.command('delete'))
    .argument('<id>', 'the id of a rule')
    .option('-y, --yes', 'do not ask')
    .option('--confirm-last', 'the last rule is meant: every call is then allowed')
    .description('remove a rule with its candidate and overrides')
    .addHelpText(
      'after',
      helpOf('sluice rules delete old-rule\nsluice rules delete old-rule --yes'),
    )
    .action((id: string, flags: SureFlags) =>
      run(cli, flags, (session) => deleteRule(session, id, flags)),
    )

  withWhy(rules.command('rollback'))
    .argument(
      '<words...>',
      'a version, see rules history; before it, the id of the only rule meant',
    )
    .usage('[options] [id] <version>')
    .option('-y, --yes', 'do not ask')
    .option('--confirm-no-rules', 'there were no rules then, and that is meant')
    .description('rules as they were, as a new version; shows what it undoes and asks first')
    .addHelpText(
      'after',
      helpOf('sluice rules rollback 41\nsluice rules rollback per-user 41 --yes'),
    )
    .action((words: readonly string[], flags: SureFlags) =>
      run(cli, flags, (session) => rollback(session, words, flags)),
    )

  withWhy(rules.command('adopt'))
    .option('-y, --yes', 'do not ask')
    .description('follow a rule store that was put back to an older state, on every node')
    .addHelpText('after', helpOf("sluice rules adopt --why 'restored the backup of Monday'"))
    .action((flags: SureFlags) => run(cli, flags, (session) => adopt(session, flags)))
}

function addMode(rules: Command, cli: Cli, mode: 'shadow' | 'enforce', description: string): void {
  withWhy(rules.command(mode))
    .argument('<id>', 'the id of a rule')
    .description(description)
    .addHelpText('after', helpOf(`sluice rules ${mode} per-user --why 'INC-7'`))
    .action((id: string, flags: ChangeFlags) =>
      run(cli, flags, async ({ client, tell }) => {
        const rule = await client.patchRule(id, { mode }, { why: flags.why })
        const means = mode === 'shadow' ? 'counts and refuses nobody' : 'refuses what is over'
        tell(rule, () => `${rule.id} ${means} now. Version ${rule.version}.\n`)
        return OK
      }),
    )
}

async function deleteRule({ io, client, tell }: Session, id: string, flags: SureFlags) {
  mustBeAskable(io, flags, '')
  const { version, overrideCount } = await client.getRule(id)
  const more = overrideCount === 0 ? '' : ` and its ${overrideCount} overrides`
  if (!(await confirm(io, flags, `Delete ${safe(id)}${more}?`))) return unchanged(io)
  const { confirmLast: confirmLastRule, why } = flags
  const options = { ifMatch: version, confirmLastRule, why }
  const done = await orConfirm(client.deleteRule(id, options), '--confirm-last')
  tell(
    { deleted: id, version: done.version },
    () => `${id} is deleted. Its counters expire by themselves. Version ${done.version}.\n`,
  )
  return OK
}

async function rollback(
  session: Session,
  words: readonly string[],
  flags: SureFlags,
): Promise<number> {
  const { io, client, tell, isJson } = session
  mustBeAskable(io, flags, '')
  if (words.length > 2) throw new Misuse('found more than two words; accepted: [id] <version>')
  const [id] = words.length === 2 ? words : []
  const version = wholeNumber('version', 1)(words.at(-1) ?? '')
  const options = {
    ifMatch: await presentVersion(session, id),
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
      tell(preview, () => `Everything is as in version ${version}: nothing to take back.\n`)
      return OK
    }
    const say = isJson ? io.err : io.out
    say(undoneText(await versionsAfter(session, id, version), io.columns) + diffText(preview.diff))
    if (!(await confirm(io, flags, `Go back to version ${version}?`))) return unchanged(io)
  }
  const applied = await orConfirm(goBack(false), '--confirm-no-rules')
  const diff = flags.yes === true ? diffText(applied.diff) : ''
  tell(applied, () => `${diff}As in version ${version}, now version ${applied.version}.\n`)
  return OK
}

/** Undefined for a rule that was deleted: going back makes it anew. */
async function presentVersion({ client }: Session, id: string | undefined) {
  if (id === undefined) return (await client.listRules({ limit: 1 })).version
  try {
    return (await client.getRule(id)).version
  } catch (error) {
    if (error instanceof AdminError && error.code === 'rule_unknown') return undefined
    throw error
  }
}

/** Newest first; one more than is shown says that there are more. */
async function versionsAfter(
  { client }: Session,
  id: string | undefined,
  version: number,
): Promise<readonly VersionView[]> {
  const undone: VersionView[] = []
  let before: number | undefined
  for (let pages = 0; pages < PAGES_MAX && undone.length <= UNDONE_SHOWN_MAX; pages++) {
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
  return changes.some(({ kind }) => TAKEN_BACK.has(kind))
}

function undoneText(undone: readonly VersionView[], columns: number | undefined): string {
  const more = undone.length > UNDONE_SHOWN_MAX ? 'and more\n' : ''
  const versions = versionsText(undone.slice(0, UNDONE_SHOWN_MAX), columns)
  return `This undoes:\n${versions}${more}\n`
}

async function adopt({ io, client, tell }: Session, flags: SureFlags): Promise<number> {
  mustBeAskable(io, flags, '')
  const { version, problem } = await client.listNodes()
  if (problem !== null) io.err(`${safe(problem)}\n`)
  const question = 'Nodes then run what the store holds, older or not. Follow it?'
  if (!(await confirm(io, flags, question))) return unchanged(io)
  await client.adopt({ why: flags.why })
  tell({ adopted: true, before: version }, () => 'Every node follows the store as it is.\n')
  return OK
}

function unchanged(io: Session['io']): number {
  io.err('Nothing was changed.\n')
  return REFUSED
}
