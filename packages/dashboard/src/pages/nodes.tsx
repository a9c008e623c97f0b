/** The nodes: rules version, load, clock and last report of each process. */
import type { NodesView, NodeView, RegionView, RingMemberView } from '@sluice/client'
import { api, useResource } from '../api.js'
import { usePolling } from '../clock.js'
import { count, duration, rate } from '../format.js'
import { rulesVersion, liveStats } from '../live.js'
import '../styles/overview.css'
import {
  Badge,
  Card,
  Definitions,
  Empty,
  ErrorNote,
  Grid,
  Loading,
  Note,
  Page,
  Stack,
  Table,
  Text,
  RelativeTime,
} from '../ui/index.js'
import { ClockOffset, StoreCard } from './overview/store-card.js'

const POLL_MS = 4000
/** Nodes report every two seconds; after this time the last report counts as old. */
const SILENT_MS = 15_000

export function NodesPage() {
  const pollCount = usePolling(POLL_MS)
  const nodes = useResource(() => api.listNodes(), [pollCount, rulesVersion.value])
  return (
    <Page
      title="Nodes"
      lead="Every process that decides requests, with its rules version, load and clock."
    >
      {nodes.value !== undefined ? (
        <NodesContent view={nodes.value} />
      ) : nodes.error !== undefined ? (
        <ErrorNote error={nodes.error} onRetry={nodes.reload} />
      ) : (
        <Loading />
      )}
    </Page>
  )
}

const isBehind = (node: NodeView, version: number): boolean => node.rulesVersion < version

function NodesContent({ view }: { readonly view: NodesView }) {
  const behind = view.nodes.filter((node) => isBehind(node, view.version)).length
  const store = liveStats.value?.store
  return (
    <Stack>
      {view.problem !== null && (
        <Note tone="degraded" title="Rules cannot be loaded">
          <p>
            <Text value={view.problem} max={400} /> Nodes keep using the last valid rules.
          </p>
        </Note>
      )}
      {behind > 0 && (
        <Note
          tone="degraded"
          title={behind === 1 ? '1 node is behind' : `${behind} nodes are behind`}
        >
          <p>
            {behind === 1 ? 'It uses' : 'They use'} rules older than version {count(view.version)}.
          </p>
        </Note>
      )}
      <Card flush title={view.nodes.length === 1 ? '1 node' : `${view.nodes.length} nodes`}>
        <NodesTable view={view} />
      </Card>
      {view.ring !== undefined && (
        <Card flush title="Ring">
          <RingTable members={view.ring} />
        </Card>
      )}
      {view.regions !== undefined && (
        <Card flush title="Other regions">
          <RegionsTable regions={view.regions} />
        </Card>
      )}
      <Grid columns={2}>
        <RulesCard view={view} />
        {store !== undefined && <StoreCard store={store} />}
      </Grid>
    </Stack>
  )
}

function NodesTable({ view }: { readonly view: NodesView }) {
  const unknown = <span class="faint">unknown</span>
  return (
    <Table
      caption="Nodes"
      rows={view.nodes}
      rowKey={({ id }) => id}
      empty={<Empty title="No node has reported yet." />}
      columns={[
        {
          head: 'Node',
          isMain: true,
          cell: (node) => (
            <div class="stacked-cell">
              <Text value={node.id} mono max={60} />
              <span class="faint small">
                <Text value={node.host} max={60} />, process {node.pid}, release{' '}
                <Text value={node.release} max={20} />
              </span>
            </div>
          ),
        },
        { head: 'Rules', cell: (node) => <NodeRules node={node} version={view.version} /> },
        {
          head: 'Requests',
          isNumber: true,
          cell: ({ decisionsPerSecond: value }) =>
            value === undefined ? unknown : `${rate(value)} /s`,
        },
        {
          head: 'Refused',
          isNumber: true,
          cell: ({ refusalsPerSecond: value }) =>
            value === undefined ? unknown : `${rate(value)} /s`,
        },
        {
          head: 'Clock offset',
          isNumber: true,
          cell: ({ clockOffsetMs }) => <ClockOffset ms={clockOffsetMs} />,
        },
        {
          head: 'Store',
          cell: ({ store }) => (store === undefined ? unknown : <Text value={store} max={60} />),
        },
        {
          head: 'Started',
          isNumber: true,
          cell: ({ startedAt }) => <RelativeTime at={startedAt} />,
        },
        { head: 'Last report', isNumber: true, cell: (node) => <LastReport node={node} /> },
      ]}
    />
  )
}

/** Members join and leave within seconds; the same as in the alert. */
const DIFFERS_MS_HIGH = 30_000

function RingTable({ members }: { readonly members: readonly RingMemberView[] }) {
  return (
    <Table
      caption="Members of the ring"
      rows={members}
      rowKey={({ member }) => member}
      empty={<Empty title="No member." />}
      columns={[
        {
          head: 'Member',
          isMain: true,
          cell: ({ member }) => <Text value={member} mono max={60} />,
        },
        {
          head: 'State',
          cell: ({ isAnswering }) =>
            isAnswering ? (
              <Badge tone="allowed">answers</Badge>
            ) : (
              <Badge tone="degraded">does not answer</Badge>
            ),
        },
        {
          head: 'Partitions',
          isNumber: true,
          cell: ({ partitions }) => count(partitions),
        },
        {
          head: 'Knows',
          cell: ({ differsForMs: ms }) =>
            ms !== null && ms >= DIFFERS_MS_HIGH ? (
              <Badge tone="degraded">{`other members, for ${duration(ms)}`}</Badge>
            ) : (
              'the same members'
            ),
        },
      ]}
    />
  )
}

/** What waits for longer is not on its way any more; the same as in the alert. */
const LAG_MS_HIGH = 5000

function RegionsTable({ regions }: { readonly regions: readonly RegionView[] }) {
  const unknown = <span class="faint">unknown</span>
  return (
    <Table
      caption="Other regions"
      rows={regions}
      rowKey={({ region }) => region}
      empty={<Empty title="No other region." />}
      columns={[
        {
          head: 'Region',
          isMain: true,
          cell: ({ region }) => <Text value={region} mono max={60} />,
        },
        {
          head: 'Store',
          cell: ({ isAnswering }) =>
            isAnswering ? (
              <Badge tone="allowed">answers</Badge>
            ) : (
              <Badge tone="degraded">does not answer</Badge>
            ),
        },
        { head: 'Lag', isNumber: true, cell: ({ lagMs }) => <RegionLag ms={lagMs} /> },
        { head: 'Waiting callers', isNumber: true, cell: ({ pending }) => count(pending) },
        {
          head: 'Unknown, dropped',
          isNumber: true,
          cell: ({ unknown: lost, dropped }) => `${count(lost)}, ${count(dropped)}`,
        },
        {
          head: 'Nodes',
          isNumber: true,
          cell: ({ nodes }) => (nodes === null ? unknown : count(nodes)),
        },
        {
          head: 'Rules',
          cell: ({ rulesVersion: version }) =>
            version === null ? unknown : <Text value={`version ${version}`} max={40} />,
        },
        {
          head: 'Clock offset',
          isNumber: true,
          cell: ({ clockOffsetMs }) => <ClockOffset ms={clockOffsetMs} />,
        },
        {
          head: 'Last heartbeat',
          isNumber: true,
          cell: ({ seenMsAgo }) => (seenMsAgo === null ? unknown : <HeartbeatAge ms={seenMsAgo} />),
        },
      ]}
    />
  )
}

function RegionLag({ ms }: { readonly ms: number }) {
  if (ms === 0) return <>none</>
  return ms > LAG_MS_HIGH ? <Badge tone="degraded">{duration(ms)}</Badge> : <>{duration(ms)}</>
}

function HeartbeatAge({ ms }: { readonly ms: number }) {
  const text = ms < 1000 ? 'just now' : `${duration(ms)} ago`
  return ms > LAG_MS_HIGH ? <Badge tone="degraded">{text}</Badge> : <>{text}</>
}

function NodeRules({ node, version }: { readonly node: NodeView; readonly version: number }) {
  if (node.problem !== undefined) {
    return (
      <Badge tone="refused" title={node.problem.slice(0, 300)}>
        version {count(node.rulesVersion)}, problem
      </Badge>
    )
  }
  return isBehind(node, version) ? (
    <Badge tone="degraded">version {count(node.rulesVersion)}, behind</Badge>
  ) : (
    <Badge tone="allowed">version {count(node.rulesVersion)}</Badge>
  )
}

function LastReport({ node }: { readonly node: NodeView }) {
  const text = node.seenMsAgo < 1000 ? 'just now' : `${duration(node.seenMsAgo)} ago`
  return node.seenMsAgo > SILENT_MS ? <Badge tone="degraded">{text}</Badge> : <>{text}</>
}

const CHANGE_DELIVERY: Readonly<Record<string, string>> = {
  push: 'pushed',
  poll: 'polled',
  none: 'not received',
}

/** A rule store that cannot be read accepts no changes either. */
function changeableText({ readOnly, problem }: NodesView): string {
  if (readOnly !== null) return `no: ${readOnly}`
  return problem === null ? 'yes' : 'not now: rules cannot be loaded'
}

function RulesCard({ view }: { readonly view: NodesView }) {
  return (
    <Card title="Rules" lead="Rule store">
      <Definitions
        items={[
          { term: 'Source', value: <Text value={view.source} max={120} /> },
          { term: 'Version', value: count(view.version) },
          {
            term: 'Change delivery',
            value: view.news === null ? 'unknown' : (CHANGE_DELIVERY[view.news] ?? view.news),
          },
          {
            term: 'Last confirmed',
            value: view.ageSeconds < 1 ? 'just now' : `${duration(view.ageSeconds * 1000)} ago`,
          },
          {
            term: 'Editable here',
            value: <Text value={changeableText(view)} max={200} />,
          },
        ]}
      />
    </Card>
  )
}
