/** `sluice nodes`: who runs which version of the rules. */
import type { NodesView, NodeView } from '@sluice/client'
import type { Command } from 'commander'
import { OK } from '../failures.js'
import { instantText, timeText } from '../rule-text.js'
import { type Cli, type CommonFlags, helpOf, run, withCommon } from '../session.js'
import { pairs, table } from '../table.js'

export function addNodes(program: Command, cli: Cli): void {
  withCommon(program.command('nodes'))
    .description('every node, and the version of the rules it runs')
    .addHelpText('after', helpOf('sluice nodes\nsluice nodes --json'))
    .action((flags: CommonFlags) =>
      run(cli, flags, async ({ io, client, tell }) => {
        const answer = await client.listNodes()
        tell(answer, () => nodesText(answer, io.columns))
        return OK
      }),
    )
}

const NEWS = {
  push: 'told of at once',
  poll: 'asked for every few seconds',
  none: 'not heard of now',
} as const

function nodesText(view: NodesView, columns: number | undefined): string {
  const rows = pairs([
    ['rules', `version ${view.version} of ${view.source}`],
    ['changes', view.news === null ? 'when the file changes' : NEWS[view.news]],
    ...(view.readOnly === null ? [] : [['read-only', view.readOnly] as const]),
    ...(view.ageSeconds < 1
      ? []
      : [['confirmed', `${timeText(view.ageSeconds * 1000)} ago`] as const]),
    ...(view.problem === null ? [] : [['problem', view.problem] as const]),
  ])
  if (view.nodes.length === 0) return rows
  const nodes = table(
    ['NODE', 'HOST', 'PID', 'RELEASE', 'RULES', 'STARTED', 'SEEN', 'PROBLEM'],
    view.nodes.map((node) => [
      node.id,
      node.host,
      node.pid,
      node.release,
      rulesText(node, view.version),
      instantText(node.startedAt),
      `${timeText(node.seenMsAgo)} ago`,
      node.problem,
    ]),
    columns,
  )
  return `${rows}\n${nodes}`
}

function rulesText({ rulesVersion }: NodeView, newest: number): string {
  return rulesVersion < newest ? `${rulesVersion} (behind)` : String(rulesVersion)
}
