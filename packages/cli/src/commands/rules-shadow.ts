/**
 * `sluice rules shadow` and `enforce`: rules that count without refusing, permanently or for a
 * time.
 */
import type { Command } from 'commander'
import { UsageError, OK } from '../command-errors.js'
import { instantText, timeText } from '../time-format.js'
import { escapeTerminal } from '../terminal-escape.js'
import {
  type ChangeFlags,
  type Cli,
  helpOf,
  run,
  type CommandContext,
  withWhy,
} from '../command-context.js'

interface ModeFlags extends ChangeFlags {
  readonly all?: boolean
}

interface ShadowFlags extends ModeFlags {
  readonly for?: string
}

export function addRulesShadow(rules: Command, cli: Cli): void {
  withWhy(rules.command('shadow'))
    .argument('[id]', 'the id of a rule')
    .option('--all', 'all enforced rules, with --for')
    .option('--for <duration>', 'for this long, from 1m to 24h; ends automatically')
    .description('make a rule, or temporarily all rules, count without refusing')
    .addHelpText('after', helpOf(SHADOW_EXAMPLES))
    .action((id: string | undefined, flags: ShadowFlags) =>
      run(cli, flags, (context) => shadow(context, id, flags)),
    )

  withWhy(rules.command('enforce'))
    .argument('[id]', 'the id of a rule')
    .option('--all', 'end every shadow that was started with --for')
    .description('make a rule refuse again; its counters are kept')
    .addHelpText('after', helpOf(ENFORCE_EXAMPLES))
    .action((id: string | undefined, flags: ModeFlags) =>
      run(cli, flags, (context) => enforce(context, id, flags)),
    )
}

const SHADOW_EXAMPLES = `sluice rules shadow per-user --why 'INC-7'
sluice rules shadow per-user --for 15m
sluice rules shadow --all --for 15m --why 'INC-7: refusals look wrong'`
const ENFORCE_EXAMPLES = `sluice rules enforce per-user --why 'INC-7'
sluice rules enforce --all --why 'INC-7 is over'`

async function shadow(
  context: CommandContext,
  id: string | undefined,
  flags: ShadowFlags,
): Promise<number> {
  requireOne(id, flags)
  const { io, client, print } = context
  const { why, for: duration } = flags
  if (duration === undefined) {
    if (id === undefined) {
      throw new UsageError('found --all without an end; accepted: --for with it, such as --for 15m')
    }
    return setMode(context, id, 'shadow', flags)
  }
  const shadowing = await client.shadowRules({ for: duration, rule: id }, { why })
  print(shadowing, () => {
    const subject = id === undefined ? 'All enforced rules are' : `${escapeTerminal(id)} is`
    const left = timeText(Date.parse(shadowing.until) - io.now())
    const end = `sluice rules enforce ${id === undefined ? '--all' : escapeTerminal(id)}`
    return `${subject} in shadow until ${instantText(shadowing.until)} (${left}). Version ${shadowing.version}.\nIt ends automatically; ${end} ends it now.\n`
  })
  return OK
}

async function enforce(
  context: CommandContext,
  id: string | undefined,
  flags: ModeFlags,
): Promise<number> {
  requireOne(id, flags)
  if (id !== undefined) return setMode(context, id, 'enforce', flags)
  const { client, print } = context
  const { version } = await client.endShadow(undefined, { why: flags.why })
  print({ version }, () => `Every rule does what its mode says now. Version ${version}.\n`)
  return OK
}

async function setMode(
  { io, client, print }: CommandContext,
  id: string,
  mode: 'shadow' | 'enforce',
  { why }: ChangeFlags,
): Promise<number> {
  const rule = await client.patchRule(id, { mode }, { why })
  const until = mode === 'enforce' ? rule.shadowUntil : undefined
  const means = mode === 'shadow' ? 'is in shadow' : 'is enforced'
  const from = until === undefined ? 'now' : `from ${instantText(until)} on`
  print(rule, () => `${rule.id} ${means} ${from}. Version ${rule.version}.\n`)
  if (until !== undefined) {
    io.err('All rules are in shadow until then; end it with: sluice rules enforce --all\n')
  }
  return OK
}

function requireOne(id: string | undefined, { all }: ModeFlags): void {
  if ((id === undefined) !== (all !== true)) return
  const found = id === undefined ? 'neither a rule nor --all' : 'a rule and --all'
  throw new UsageError(`found ${found}; accepted: the id of a rule, or --all`)
}
