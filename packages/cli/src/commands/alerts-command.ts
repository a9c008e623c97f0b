/** `sluice alerts`: active alerts, and those resolved lately. */
import type { AlertsView, AlertView } from '@sluice/client'
import type { Command } from 'commander'
import { OK, REFUSED } from '../command-errors.js'
import type { Io } from '../io.js'
import { elapsedText, instantText } from '../time-format.js'
import { escapeTerminal } from '../terminal-escape.js'
import { type Cli, type CommonFlags, helpOf, run, withCommon } from '../command-context.js'
import { table } from '../text-table.js'

/** The most resolved alerts that are listed; `--json` has all. */
const RECENT_SHOWN_MAX = 10

export function addAlerts(program: Command, cli: Cli): void {
  withCommon(program.command('alerts'))
    .description('active alerts and recently resolved ones; exits 1 if any is active')
    .addHelpText('after', helpOf('sluice alerts\nsluice alerts --json'))
    .action((flags: CommonFlags) =>
      run(cli, flags, async ({ io, client, print }) => {
        const answer = await client.alerts()
        print(answer, () => alertsText(answer, io))
        return answer.active.length === 0 ? OK : REFUSED
      }),
    )
}

function alertsText({ active, recent }: AlertsView, io: Io): string {
  const present = active.length === 0 ? 'No alert is active.\n' : active.map(toText(io)).join('')
  if (recent.length === 0) return present
  const shown = recent.slice(0, RECENT_SHOWN_MAX)
  const hasCallers = shown.some((alert) => callerOf(alert) !== '')
  const past = table(
    ['ENDED', 'ALERT', 'SUBJECT', ...(hasCallers ? ['CALLER'] : []), 'SINCE', 'UNTIL', 'NODE'],
    shown.map((alert) => [
      alert.severity,
      alert.alert,
      alert.subject,
      ...(hasCallers ? [callerOf(alert)] : []),
      instantText(alert.since),
      instantText(alert.resolvedAt ?? undefined),
      alert.node,
    ]),
    io.columns,
  )
  return `${present}\n${past}`
}

/** The caller by name, because the subject contains only its hash. Empty: not about one caller. */
function callerOf({ details: { caller } }: AlertView): string {
  return Array.isArray(caller) ? caller.join(' ') : ''
}

/** Method, and route or path, of a recently refused call. Empty: not known. */
function refusedCallOf({ details: { lastRefusedCall } }: AlertView): string {
  return typeof lastRefusedCall === 'string' ? lastRefusedCall : ''
}

const toText =
  (io: Io) =>
  (view: AlertView): string => {
    const { severity, alert, subject, summary, since, node, runbook } = view
    const about = subject === '' ? '' : ` ${subject}`
    const long = elapsedText(io.now() - Date.parse(since))
    const head = `${severity}  ${alert}${about}, for ${long}, seen by ${node}`
    const caller = callerOf(view)
    const call = refusedCallOf(view)
    const lines = [
      head,
      `  ${summary}`,
      caller === '' ? [] : `  caller: ${caller}`,
      call === '' ? [] : `  last refused: ${call}`,
      `  ${runbook}`,
    ].flat()
    // Each alert stays one line, whatever text it contains.
    return lines.map((line) => `${escapeTerminal(line.replaceAll('\n', ' '))}\n`).join('')
  }
