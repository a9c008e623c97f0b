/** Commands that change a single rule. */
import type { Command } from 'commander'
import {
  type ConfirmFlags,
  confirm,
  requireTerminal,
  explainConfirmation,
  reportUnchanged,
} from '../confirm.js'
import { OK } from '../command-errors.js'
import { ruleLimitsText } from '@sluice/core/text'
import { escapeTerminal } from '../terminal-escape.js'
import {
  type ChangeFlags,
  type Cli,
  helpOf,
  run,
  type CommandContext,
  withWhy,
} from '../command-context.js'
import { promoteQuestion } from './rules-set.js'

interface SureFlags extends ChangeFlags, ConfirmFlags {
  readonly confirmLast?: boolean
}

export function addRulesChange(rules: Command, cli: Cli): void {
  withWhy(rules.command('promote'))
    .argument('<id>', 'the id of a rule with a candidate')
    .option('-y, --yes', 'do not ask for confirmation, even if a limit becomes 0')
    .description('promote the candidate of a rule to its limits; counters are kept')
    .addHelpText('after', helpOf('sluice rules promote per-user'))
    .action((id: string, flags: SureFlags) =>
      run(cli, flags, async ({ io, client, print }) => {
        const before = await client.getRule(id)
        const question = promoteQuestion(before)
        if (question !== undefined) {
          requireTerminal(io, flags, '')
          if (!(await confirm(io, flags, question))) return reportUnchanged(io)
        }
        const ifMatch = before.version
        const rule = await client.promoteRule(id, { ifMatch, why: flags.why })
        const limits = escapeTerminal(ruleLimitsText(rule))
        print(rule, () => `${rule.id} has ${limits} now. Version ${rule.version}.\n`)
        return OK
      }),
    )

  withWhy(rules.command('delete'))
    .argument('<id>', 'the id of a rule')
    .option('-y, --yes', 'do not ask for confirmation')
    .option('--confirm-last', 'allow removing the last rule; every call is then allowed')
    .description('remove a rule with its candidate and overrides')
    .addHelpText(
      'after',
      helpOf('sluice rules delete old-rule\nsluice rules delete old-rule --yes'),
    )
    .action((id: string, flags: SureFlags) =>
      run(cli, flags, (context) => deleteRule(context, id, flags)),
    )

  withWhy(rules.command('adopt'))
    .option('-y, --yes', 'do not ask for confirmation')
    .description('make every node follow a rule store that was restored to an older state')
    .addHelpText('after', helpOf("sluice rules adopt --why 'restored the backup of Monday'"))
    .action((flags: SureFlags) => run(cli, flags, (context) => adopt(context, flags)))
}

async function deleteRule({ io, client, print }: CommandContext, id: string, flags: SureFlags) {
  requireTerminal(io, flags, '')
  const { version, overrideCount } = await client.getRule(id)
  const more = overrideCount === 0 ? '' : ` and its ${overrideCount} overrides`
  if (!(await confirm(io, flags, `Delete ${escapeTerminal(id)}${more}?`)))
    return reportUnchanged(io)
  const { confirmLast: confirmLastRule, why } = flags
  const options = { ifMatch: version, confirmLastRule, why }
  const done = await explainConfirmation(client.deleteRule(id, options), '--confirm-last')
  print(
    { deleted: id, version: done.version },
    () => `${id} is deleted. Its counters expire by themselves. Version ${done.version}.\n`,
  )
  return OK
}

async function adopt({ io, client, print }: CommandContext, flags: SureFlags): Promise<number> {
  requireTerminal(io, flags, '')
  const { version, problem } = await client.listNodes()
  if (problem !== null) io.err(`${escapeTerminal(problem)}\n`)
  const question = 'All nodes will use the rules in the store, even if they are older. Continue?'
  if (!(await confirm(io, flags, question))) return reportUnchanged(io)
  await client.adopt({ why: flags.why })
  print({ adopted: true, before: version }, () => 'All nodes follow the rule store.\n')
  return OK
}
