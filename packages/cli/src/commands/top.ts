/** `sluice top`: who is limited most, uses most, or is at its limit for longest. */
import { type TopOrder, type TopView, UnreachableError } from '@sluice/client'
import { type Command, Option } from 'commander'
import { OK } from '../failures.js'
import type { Io } from '../io.js'
import { callerText, timeText } from '../rule-text.js'
import { safe } from '../safe.js'
import {
  type Cli,
  type CommonFlags,
  helpOf,
  run,
  type Session,
  wholeNumber,
  withCommon,
} from '../session.js'
import { table } from '../table.js'

interface TopFlags extends CommonFlags {
  readonly by: TopOrder
  readonly rule?: string
  readonly limit: number
  readonly watch?: boolean
}

const ORDERS: Readonly<Record<TopOrder, string>> = {
  refusals: 'most refusals',
  use: 'most use',
  zero: 'longest with nothing left',
  hours: 'at the limit in most of the last 24 hours',
}

const WATCH_EVERY_MS = 2000
/** To the upper left, and away with what is there. */
const CLEAR = '\u001b[H\u001b[2J'

export function addTop(program: Command, cli: Cli): void {
  withCommon(program.command('top'))
    .description('the callers with most refusals or use, or at their limit for longest')
    .addOption(
      new Option('--by <order>', 'the order').choices(Object.keys(ORDERS)).default('refusals'),
    )
    .option('--rule <id>', 'of one rule only')
    .option('--limit <n>', 'how many, up to 100', wholeNumber('--limit', 1), 20)
    .option('--watch', 'again every two seconds, until it is interrupted')
    .addHelpText(
      'after',
      helpOf('sluice top\nsluice top --by zero --rule per-user\nsluice top --watch'),
    )
    .action((flags: TopFlags) =>
      run(cli, flags, async (session) => {
        await show(session, flags, '')
        while (flags.watch === true) {
          await session.io.wait(WATCH_EVERY_MS)
          await showAgain(session, flags)
        }
        return OK
      }),
    )
}

async function show(
  { io, client, tell }: Session,
  { by, rule, limit }: TopFlags,
  before: string,
): Promise<void> {
  const answer = await client.top({ by, rule, limit })
  tell(answer, () => before + topText(answer, by, io))
}

/** A server that is away for a moment is no reason to stop looking. */
async function showAgain(session: Session, flags: TopFlags): Promise<void> {
  const { io } = session
  try {
    await show(session, flags, io.columns === undefined ? '\n' : CLEAR)
  } catch (error) {
    if (!(error instanceof UnreachableError)) throw error
    io.err(`${safe(error.message)}\n`)
  }
}

function topText(view: TopView, by: TopOrder, io: Io): string {
  const nowMs = Date.parse(view.at)
  const nodes = view.nodes === 1 ? '1 node' : `${view.nodes} nodes`
  const since = timeText(nowMs - Date.parse(view.since))
  const head = `${ORDERS[by]}; of the last ${since}, on ${nodes}\n`
  if (view.callers.length === 0) return `${head}Nobody.\n`
  const isInexact = view.callers.some(({ error }) => error > 0)
  const rows = table(
    [
      'RULE',
      'CALLER',
      'PLAN',
      'REFUSALS',
      'USE',
      ...(isInexact ? ['ERROR'] : []),
      'AT ZERO',
      'HOURS',
      'SEEN',
    ],
    view.callers.map((caller) => [
      caller.rule,
      callerText(caller.caller),
      caller.plan ?? undefined,
      caller.refusals,
      caller.use,
      ...(isInexact ? [caller.error] : []),
      caller.zeroSince === null
        ? undefined
        : `for ${timeText(nowMs - Date.parse(caller.zeroSince))}`,
      caller.hoursAtLimit,
      `${timeText(Math.max(0, nowMs - Date.parse(caller.lastSeen)))} ago`,
    ]),
    io.columns,
  )
  return `${head}\n${rows}`
}
