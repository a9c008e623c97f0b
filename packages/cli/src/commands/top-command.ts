/** `sluice top`: callers by refusals, would-be refusals, usage, or time at their limit. */
import { type TopCallerView, type TopOrder, type TopView, UnreachableError } from '@sluice/client'
import { type Command, Option } from 'commander'
import { OK } from '../command-errors.js'
import type { Io } from '../io.js'
import { callerText } from '@sluice/core/text'
import { elapsedText } from '../time-format.js'
import { escapeTerminal } from '../terminal-escape.js'
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

interface TopFlags extends CommonFlags {
  readonly by: TopOrder
  readonly rule?: string
  readonly limit: number
  readonly watch?: boolean
  readonly wide?: boolean
}

const ORDERS: Readonly<Record<TopOrder, string>> = {
  refusals: 'most refusals',
  use: 'most use',
  zero: 'longest with nothing left',
  hours: 'at the limit in 12 or more of the last 24 hours',
  shadow: 'most that would have been refused, by a rule in shadow or a candidate',
}

const WATCH_EVERY_MS = 2000
/** Moves the cursor to the upper left and clears the screen. */
const CLEAR = '\u001b[H\u001b[2J'

export function addTop(program: Command, cli: Cli): void {
  withCommon(program.command('top'))
    .description('list the callers with most refusals or use, or exhausted for longest')
    .addOption(
      new Option('--by <order>', 'the order').choices(Object.keys(ORDERS)).default('refusals'),
    )
    .option('--rule <id>', 'only callers of this rule')
    .option('--limit <n>', 'maximum number of callers, up to 100', wholeNumber('--limit', 1), 20)
    .option('--wide', 'also show the hash of each caller, as in alerts and logs')
    .option('--watch', 'refresh every 2 s until interrupted')
    .addHelpText(
      'after',
      helpOf(
        'sluice top\nsluice top --by zero --rule per-user\nsluice top --by zero --wide\nsluice top --by shadow\nsluice top --watch',
      ),
    )
    .action((flags: TopFlags) =>
      run(cli, flags, async (context) => {
        await show(context, flags, '')
        while (flags.watch === true) {
          await context.io.wait(WATCH_EVERY_MS)
          if (!context.io.isOutputOpen()) break
          await showAgain(context, flags)
        }
        return OK
      }),
    )
}

async function show(
  { io, client, print }: CommandContext,
  { by, rule, limit, wide }: TopFlags,
  before: string,
): Promise<void> {
  const answer = await client.top({ by, rule, limit })
  print(answer, () => before + topText(answer, wide === true, io))
}

/** A server that is away for a moment does not end `--watch`. */
async function showAgain(context: CommandContext, flags: TopFlags): Promise<void> {
  const { io } = context
  try {
    await show(context, flags, io.columns === undefined ? '\n' : CLEAR)
  } catch (error) {
    if (!(error instanceof UnreachableError)) throw error
    io.err(`${escapeTerminal(error.message)}\n`)
  }
}

function topText(view: TopView, isWide: boolean, io: Io): string {
  const nowMs = Date.parse(view.at)
  const since = elapsedText(nowMs - Date.parse(view.since))
  const head = `${ORDERS[view.by]}; of the last ${since}, ${coverageText(view)}\n${shedText(view)}`
  if (view.callers.length === 0) return `${head}No callers in this period.\n`
  const isInexact = view.callers.some(({ error }) => error > 0)
  const hasCalls = view.callers.some((caller) => refusedCallOf(caller) !== undefined)
  const isShadowed = view.callers.some((caller) => shadowText(caller) !== undefined)
  const rows = table(
    [
      'RULE',
      'CALLER',
      ...(isWide ? ['HASH'] : []),
      'PLAN',
      'REFUSALS',
      ...(isShadowed ? ['WOULD BE REFUSED'] : []),
      ...(hasCalls ? ['LAST REFUSED'] : []),
      'USE',
      ...(isInexact ? ['ERROR'] : []),
      'AT ZERO',
      'HOURS',
      'SEEN',
    ],
    view.callers.map((caller) => [
      caller.rule,
      callerCell(caller),
      ...(isWide ? [caller.hash] : []),
      caller.plan ?? undefined,
      caller.refusals,
      ...(isShadowed ? [shadowText(caller)] : []),
      ...(hasCalls ? [refusedCallOf(caller)] : []),
      caller.use,
      ...(isInexact ? [caller.error] : []),
      caller.zeroSince === null
        ? undefined
        : `for ${elapsedText(nowMs - Date.parse(caller.zeroSince))}`,
      caller.hoursAtLimit,
      `${elapsedText(Math.max(0, nowMs - Date.parse(caller.lastSeen)))} ago`,
    ]),
    io.columns,
  )
  return `${head}\n${rows}`
}

/** What is shed now, which refusals of callers do not tell; a server of 0.1.0 sends none. */
function shedText({ shed = [] }: Partial<Pick<TopView, 'shed'>>): string {
  if (shed.length === 0) return ''
  const texts = shed.map(({ priority, perSecond, share }) => {
    const percent = Math.round(share * 1000) / 10
    return `${priority} ${percent} % (${perSecond}/s)`
  })
  return `shed in the last 10 s: ${texts.join(', ')}\n`
}

/** The hash if no node that answered knows the name; a server of release 0.1.0 sends less. */
function callerCell({ caller, hash, isEverybody }: TopCallerView): string {
  const isUnnamed = isEverybody === false && Object.keys(caller).length === 0
  return isUnnamed ? `hash=${hash}` : callerText(caller)
}

/** Method, and route or path; undefined if not known. */
function refusedCallOf({ lastRefusedCall }: TopCallerView): string | undefined {
  return lastRefusedCall ?? undefined
}

/** How many calls would have been refused, and by which rule; undefined if none. */
function shadowText({ shadowRefusals, candidateRefusals }: TopCallerView): string | undefined {
  const counts = [
    shadowRefusals > 0 ? `${shadowRefusals} in shadow` : [],
    candidateRefusals > 0 ? `${candidateRefusals} by candidate` : [],
  ].flat()
  return counts.length === 0 ? undefined : counts.join(', ')
}

/** Says that the list is incomplete, which would otherwise mislead. */
function coverageText({ isWhole, nodes }: TopView): string {
  if (!isWhole) {
    return 'of this process alone: what the others saw cannot be read while Redis does not answer'
  }
  return nodes === 1 ? 'on 1 node' : `on ${nodes} nodes`
}
