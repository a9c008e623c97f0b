/** `sluice nodes`: which node runs which version of the rules. */
import type { NodesView, NodeView, RegionView, RingMemberView } from '@sluice/client'
import type { Command } from 'commander'
import { OK } from '../command-errors.js'
import { elapsedText, instantText, offsetText } from '../time-format.js'
import { type Cli, type CommonFlags, helpOf, run, withCommon } from '../command-context.js'
import { type Cell, pairs, table } from '../text-table.js'

export function addNodes(program: Command, cli: Cli): void {
  withCommon(program.command('nodes'))
    .description('list all nodes with the rules version of each')
    .addHelpText('after', helpOf('sluice nodes\nsluice nodes --json'))
    .action((flags: CommonFlags) =>
      run(cli, flags, async ({ io, client, print }) => {
        const answer = await client.listNodes()
        print(answer, () => nodesText(answer, io.columns))
        return OK
      }),
    )
}

const NEWS = {
  push: 'pushed to this node at once',
  poll: 'polled every few seconds',
  none: 'not received now',
} as const

const TITLES = ['NODE', 'HOST', 'PID', 'RELEASE', 'RULES', 'STARTED', 'SEEN']
const STATS_TITLES = ['CALLS/S', 'REFUSED/S', 'CLOCK', 'STORE']

function nodesText(view: NodesView, columns: number | undefined): string {
  const rows = pairs([
    ['rules', `version ${view.version} of ${view.source}`],
    ['changes', view.news === null ? 'when the file changes' : NEWS[view.news]],
    ...(view.readOnly === null ? [] : [['read-only', view.readOnly] as const]),
    ...(view.ageSeconds < 1
      ? []
      : [['confirmed', `${elapsedText(view.ageSeconds * 1000)} ago`] as const]),
    ...(view.problem === null ? [] : [['problem', view.problem] as const]),
  ])
  if (view.nodes.length === 0) return rows
  // Only for nodes that report statistics; nothing is known about older ones.
  const hasFigures = view.nodes.some((node) => node.decisionsPerSecond !== undefined)
  const nodes = table(
    [...TITLES, ...(hasFigures ? STATS_TITLES : []), 'PROBLEM'],
    view.nodes.map((node) => [
      node.id,
      node.host,
      node.pid,
      node.release,
      rulesText(node, view.version),
      instantText(node.startedAt),
      `${elapsedText(node.seenMsAgo)} ago`,
      ...(hasFigures ? statsCells(node) : []),
      node.problem,
    ]),
    columns,
  )
  return `${rows}\n${nodes}${regionsText(view.regions ?? [], columns)}${ringText(view.ring ?? [], columns)}`
}

function ringText(members: readonly RingMemberView[], columns: number | undefined): string {
  if (members.length === 0) return ''
  const rows = members.map((each): readonly Cell[] => [
    each.member,
    each.isAnswering ? 'answers' : 'does not answer',
    each.partitions,
    each.differsForMs === null ? 'the same' : `others, for ${elapsedText(each.differsForMs)}`,
  ])
  return `\n${table(['MEMBER', 'STATE', 'PARTITIONS', 'KNOWS'], rows, columns)}`
}

const REGION_TITLES = ['REGION', 'STORE', 'LAG', 'PENDING', 'UNKNOWN', 'DROPPED', 'NODES', 'RULES']

function regionsText(regions: readonly RegionView[], columns: number | undefined): string {
  if (regions.length === 0) return ''
  const rows = regions.map((each): readonly Cell[] => [
    each.region,
    each.isAnswering ? 'answers' : 'does not answer',
    each.lagMs === 0 ? 'none' : elapsedText(each.lagMs),
    each.pending,
    each.unknown,
    each.dropped,
    each.nodes ?? undefined,
    each.rulesVersion ?? undefined,
    each.clockOffsetMs === null ? undefined : offsetText(each.clockOffsetMs),
    each.seenMsAgo === null ? 'never' : `${elapsedText(each.seenMsAgo)} ago`,
  ])
  return `\n${table([...REGION_TITLES, 'CLOCK', 'SEEN'], rows, columns)}`
}

function rulesText({ rulesVersion }: NodeView, newest: number): string {
  return rulesVersion < newest ? `${rulesVersion} (behind)` : String(rulesVersion)
}

function statsCells(node: NodeView): readonly Cell[] {
  const { decisionsPerSecond, refusalsPerSecond, clockOffsetMs, store } = node
  return [
    rateText(decisionsPerSecond),
    rateText(refusalsPerSecond),
    clockOffsetMs === undefined || clockOffsetMs === null ? undefined : offsetText(clockOffsetMs),
    store,
  ]
}

function rateText(rate: number | undefined): Cell {
  return rate === undefined ? undefined : Math.round(rate * 10) / 10
}
