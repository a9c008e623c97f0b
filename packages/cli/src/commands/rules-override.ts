/** `sluice rules override`: other limits for one caller of one rule. */
import { callerId, type OverrideView } from '@sluice/client'
import { parseData } from '@sluice/core'
import type { Command } from 'commander'
import { UsageError, OK } from '../command-errors.js'
import { callerText, countedAttributes, limitsText } from '@sluice/core/text'
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
import { table } from '../text-table.js'
import { parseAttributes } from '../parse-attributes.js'
import { paginate } from '../paginate.js'

interface OverrideFlags extends ChangeFlags {
  readonly until?: string
  readonly list?: boolean
  readonly remove?: boolean
  readonly limit: number
  readonly after?: string
}

const LISTED_DEFAULT = 100
const PAGE = 1000

export function addRulesOverride(rules: Command, cli: Cli): void {
  withWhy(rules.command('override'))
    .argument('<rule>', 'the id of a rule')
    .argument(
      '[words...]',
      'who, as in user=u1 or ip=203.0.113.0/24, and then the limits; none is no limit',
    )
    .option('--until <time>', 'when it ends, as in 2027-01-01T00:00:00Z')
    .option('--list', 'list the overrides of the rule')
    .option('--remove', 'remove the override')
    .option(
      '--limit <count>',
      'maximum number of overrides',
      wholeNumber('--limit', 1),
      LISTED_DEFAULT,
    )
    .option('--after <caller>', 'only overrides after this one')
    .description('set, list or remove limits for one caller of a rule')
    .addHelpText('after', helpOf(EXAMPLES))
    .action((rule: string, words: readonly string[], flags: OverrideFlags) =>
      run(cli, flags, (context) => {
        if (flags.list === true && flags.remove === true) {
          throw new UsageError('found --list and --remove; accepted: one of them, or neither')
        }
        if (flags.list === true) return list(context, rule, words, flags)
        if (flags.remove === true) return remove(context, rule, words, flags)
        return set(context, rule, words, flags)
      }),
    )
}

const EXAMPLES = `sluice rules override per-user user=u1 50/second --why 'a launch' --until 2027-01-01T00:00:00Z
sluice rules override per-user user=u1 '{ max: 1000, window: 1h, name: hourly }' 50/second
sluice rules override per-user user=u1 none
sluice rules override per-address ip=203.0.113.0/24 1000/second --why 'the office in Lyon'
sluice rules override per-user --list
sluice rules override per-user user=u1 --remove`

async function set(
  { io, client, print }: CommandContext,
  rule: string,
  words: readonly string[],
  { until, why }: OverrideFlags,
): Promise<number> {
  const { caller, limits } = readWords(words)
  if (limits === undefined) {
    throw new UsageError(
      'found no limit; accepted: limits such as 50/second, none, --list or --remove',
    )
  }
  const input = { caller, limits, ...(until === undefined ? {} : { until }) }
  const override = await client.addOverride(rule, input, { why })
  print(
    override,
    () => `${escapeTerminal(rule)}: ${describe(override)}. Version ${override.version}.\n`,
  )
  if (isPast(io, override)) io.err('--until is in the past: the override has no effect.\n')
  return OK
}

function isPast(io: CommandContext['io'], { until }: OverrideView): boolean {
  return until !== undefined && Date.parse(until) <= io.now()
}

function describe({ caller, limits, until }: OverrideView): string {
  const end = until === undefined ? '' : ` until ${until}`
  return escapeTerminal(`${callerText(caller)} has ${limitsText(limits)}${end}`)
}

async function remove(
  { client, print }: CommandContext,
  rule: string,
  words: readonly string[],
  { why }: OverrideFlags,
): Promise<number> {
  const { caller, limits } = readWords(words)
  if (limits !== undefined)
    throw new UsageError('--remove: found a limit; accepted: only the caller')
  const by = countedAttributes((await client.getRule(rule))['by'])
  const names = Object.keys(caller)
  if (names.length !== by.length || !by.every((name) => names.includes(name))) {
    const accepted =
      by.map((name) => `${name}=...`).join(' ') || 'nothing: the rule counts all callers together'
    throw new UsageError(`caller: found ${callerText(caller)}; accepted: ${accepted}`)
  }
  const { version } = await client.deleteOverride(rule, callerId(by, caller), { why })
  print(
    { removed: caller, version },
    () =>
      `${escapeTerminal(rule)}: ${escapeTerminal(callerText(caller))} has no override now. Version ${version}.\n`,
  )
  return OK
}

async function list(
  { io, client, print }: CommandContext,
  rule: string,
  words: readonly string[],
  flags: OverrideFlags,
): Promise<number> {
  if (words.length > 0)
    throw new UsageError('--list: found more than a rule; accepted: only the rule')
  const request = { from: flags.after, max: flags.limit, page: PAGE }
  const { items: overrides, next } = await paginate<OverrideView, string>(
    request,
    async (after, limit) => {
      const page = await client.listOverrides(rule, { after, limit })
      return { items: page.overrides, next: page.next }
    },
  )
  print({ overrides, next }, () =>
    overrides.length === 0
      ? 'No overrides.\n'
      : table(
          ['CALLER', 'LIMITS', 'UNTIL', 'VERSION'],
          overrides.map((each) => [
            callerText(each.caller),
            limitsText(each.limits),
            isPast(io, each) ? `${each.until} (past)` : each.until,
            each.version,
          ]),
          io.columns,
        ),
  )
  if (next !== null) io.err(`More results: --after ${escapeTerminal(next)}\n`)
  return OK
}

/** Callers are given as name=value; every other word is a limit. */
function readWords(words: readonly string[]) {
  const isLimit = (word: string) => word.startsWith('{') || !word.includes('=')
  const limits = words.filter(isLimit)
  const caller = parseAttributes(words.filter((word) => !isLimit(word)))
  if (limits.length === 0) return { caller, limits: undefined }
  if (limits.includes('none')) {
    if (limits.length > 1)
      throw new UsageError('found none and other limits; accepted: one or the other')
    return { caller, limits: [] }
  }
  return { caller, limits: limits.map(readLimit) }
}

/** Parses the long form as YAML or JSON; the server validates the limit. */
function readLimit(word: string): unknown {
  if (!word.startsWith('{')) return word
  const { value, problems } = parseData(word)
  if (value !== undefined && problems.length === 0) return value
  throw new UsageError(`limit: found "${word}"; accepted: 50/second, or { max: 50, window: 1s }`)
}
