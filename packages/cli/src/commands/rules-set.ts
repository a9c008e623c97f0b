/** `sluice rules set`: changes limits, mode or posture of one rule in one command. */
import type { RuleDiff, RuleView } from '@sluice/client'
import { type Command, Option } from 'commander'
import { type ConfirmFlags, confirm, requireTerminal, reportUnchanged } from '../confirm.js'
import { diffText, isEmptyDiff } from '../diff-text.js'
import { UsageError, OK, REFUSED } from '../command-errors.js'
import { editLimits, hasZeroLimit } from '../limit-edits.js'
import { isRecord } from '../guards.js'
import { instantText } from '../time-format.js'
import { escapeTerminal } from '../terminal-escape.js'
import {
  type ChangeFlags,
  type Cli,
  helpOf,
  run,
  type CommandContext,
  withWhy,
} from '../command-context.js'

interface SetFlags extends ChangeFlags, ConfirmFlags {
  readonly limits?: string
  readonly mode?: string
  readonly posture?: string
}

export function addRulesSet(rules: Command, cli: Cli): void {
  withWhy(rules.command('set'))
    .argument('<id>', 'the id of a rule')
    .option('--limits <limits>', '3/minute; 3/minute,100/hour for all; hourly=100/hour for one')
    .addOption(new Option('--mode <mode>', 'what it does').choices(['enforce', 'shadow', 'off']))
    .addOption(
      new Option('--posture <posture>', 'what it does while the store does not answer').choices([
        'open',
        'closed',
        'local',
      ]),
    )
    .option('-y, --yes', 'do not ask for confirmation')
    .description(
      'change the limits, mode or posture of a rule; shows the difference and asks first',
    )
    .addHelpText('after', helpOf(EXAMPLES))
    .action((id: string, flags: SetFlags) =>
      run(cli, flags, (context) => setRule(context, id, flags)),
    )
}

const EXAMPLES = `sluice rules set login --limits 3/minute --why 'INC-7'
sluice rules set per-user --limits hourly=500/hour
sluice rules set per-user --limits 5/second,500/hour --yes
sluice rules set login --posture closed`

async function setRule(context: CommandContext, id: string, flags: SetFlags): Promise<number> {
  const { io, client, print, isJson } = context
  requireTerminal(io, flags, '')
  if (flags.limits === undefined && flags.mode === undefined && flags.posture === undefined) {
    throw new UsageError('found nothing to set; accepted: --limits, --mode or --posture')
  }
  const rule = await client.getRule(id)
  const patch = patchOf(rule, flags)
  const { errors, diff } = await client.validateRule({ ...rule, ...patch }, id)
  if (diff === null) {
    for (const { message } of errors) io.err(`${escapeTerminal(message)}\n`)
    return REFUSED
  }
  if (isEmptyDiff(diff)) {
    print(rule, () => diffText(diff))
    return OK
  }
  const say = isJson ? io.err : io.out
  say(diffText(diff))
  for (const note of notesOf(rule, patch)) io.err(`${escapeTerminal(note)}\n`)
  if (!(await confirm(io, flags, questionOf(diff, 'Set it?')))) return reportUnchanged(io)
  const set = await client.patchRule(id, patch, { ifMatch: rule.version, why: flags.why })
  print(set, () => `Set as version ${set.version}.\n`)
  if (set.shadowUntil !== undefined) io.err(shadowNote(set.shadowUntil))
  return OK
}

/** Reminds that the rule is in shadow: an operator who tightens a limit expects refusals. */
function shadowNote(until: string): string {
  const end = 'sluice rules enforce, with its id or --all, ends that'
  return `It refuses nothing before ${instantText(until)} because it is in shadow; ${end}.\n`
}

function patchOf(rule: RuleView, { limits, mode, posture }: SetFlags) {
  return {
    ...(limits !== undefined && { limits: editLimits(rule['limits'], limits) }),
    ...(mode !== undefined && { mode }),
    ...(posture !== undefined && { posture }),
  }
}

/** What the change does not affect: overrides and bursts. */
function notesOf(
  { tiers, overrideCount }: RuleView,
  patch: { readonly limits?: readonly unknown[] },
): readonly string[] {
  if (patch.limits === undefined) return []
  const attribute = isRecord(tiers) ? Object.keys(tiers)[0] : undefined
  return [
    ...patch.limits.map(burstNote),
    attribute === undefined ? [] : `Tiers by ${attribute} keep their limits.`,
    overrideCount === 0 ? [] : `Callers with an override (${overrideCount}) keep theirs.`,
  ].flat()
}

function burstNote(limit: unknown): readonly string[] {
  if (!isRecord(limit)) return []
  const { max, burst } = limit
  if (typeof max !== 'number' || typeof burst !== 'number' || burst <= max) return []
  return [`The burst stays ${burst}: as many calls pass at once, whatever the limit of ${max}.`]
}

const RULES_NAMED_MAX = 5
const ZERO_TEXT = /(?:^|[[,\s])0+\/|max: 0(?=[,\s}])/

/** The question before a change; explains the effect of a limit that becomes 0. */
export function questionOf({ rules }: RuleDiff, question: string): string {
  const refusing = rules
    .filter(({ fields }) => fields.some(becomesZero))
    .map(({ id }) => escapeTerminal(id))
  if (refusing.length === 0) return question
  const named = refusing.slice(0, RULES_NAMED_MAX).join(', ')
  const more =
    refusing.length > RULES_NAMED_MAX ? ` and ${refusing.length - RULES_NAMED_MAX} more` : ''
  const who = refusing.length === 1 ? `rule ${named}` : `rules ${named}${more}`
  return `A limit of ${who} becomes 0: it refuses every call that it counts. ${question}`
}

function becomesZero(change: RuleDiff['rules'][number]['fields'][number]): boolean {
  const { field, before, after } = change
  const isLimits = field === 'limits' || field.startsWith('tiers.')
  return isLimits && ZERO_TEXT.test(after) && !ZERO_TEXT.test(before)
}

/** The same question before a candidate is promoted. */
export function promoteQuestion({ id, candidate, limits }: RuleView): string | undefined {
  if (!isRecord(candidate) || hasZeroLimit(limits) || !hasZeroLimit(candidate['limits'])) {
    return undefined
  }
  return `A limit of rule ${escapeTerminal(id)} becomes 0: it refuses every call that it counts. Promote it?`
}
