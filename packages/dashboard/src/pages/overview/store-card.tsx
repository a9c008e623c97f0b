/** The store: its address, memory, evictions and nodes. */
import type { StoreNodeView, StoreView } from '@sluice/client'
import { bytes, count, millis, percent } from '../../format.js'
import { Badge, Card, Definitions, Meter, Stack, Table, Text } from '../../ui/index.js'
import { isInProcess } from './headline-figures.js'

/** Same threshold as the memory alert. */
const MEMORY_SHARE_HIGH = 0.8
const CLOCK_OFFSET_HIGH_MS = 20

export function StoreCard({ store }: { readonly store: StoreView }) {
  const { memoryBytes, memoryMaxBytes } = store
  const share =
    memoryBytes === null || memoryMaxBytes === null || memoryMaxBytes === 0
      ? undefined
      : memoryBytes / memoryMaxBytes
  return (
    <Card
      title="Store"
      lead={<Text value={store.state} max={160} />}
      actions={
        store.isWell ? (
          <Badge tone="allowed">healthy</Badge>
        ) : (
          <Badge tone="degraded">unhealthy</Badge>
        )
      }
    >
      <Stack gap={4}>
        <Definitions
          items={[
            { term: 'Address', value: <Text value={store.name} mono max={100} /> },
            {
              // Redis reports all keys, including those that are not counters.
              term: isInProcess(store) ? 'Counters' : 'Keys',
              value: store.counters === null ? 'unknown' : count(store.counters),
            },
            {
              term: 'Memory',
              value:
                share === undefined
                  ? bytes(memoryBytes)
                  : `${bytes(memoryBytes)} of ${bytes(memoryMaxBytes)} (${percent(share)})`,
            },
            {
              term: isInProcess(store) ? 'Evicted counters' : 'Evicted keys',
              value:
                store.evicted === 0 ? (
                  'none'
                ) : (
                  <Badge tone="degraded">{count(store.evicted)}</Badge>
                ),
            },
          ]}
        />
        {share !== undefined && (
          <Meter
            label="Store memory"
            value={share}
            tone={share > MEMORY_SHARE_HIGH ? 'degraded' : 'accent'}
          />
        )}
        {store.nodes.length > 0 && <StoreNodes nodes={store.nodes} />}
      </Stack>
    </Card>
  )
}

function StoreNodes({ nodes }: { readonly nodes: readonly StoreNodeView[] }) {
  return (
    <div class="inset">
      <Table
        caption="Store nodes"
        rows={nodes}
        rowKey={({ address }) => address}
        columns={[
          {
            head: 'Redis',
            isMain: true,
            cell: ({ address }) => <Text value={address} mono max={80} />,
          },
          { head: 'State', cell: (node) => <StoreNodeBadge node={node} /> },
          {
            head: 'Clock offset',
            isNumber: true,
            cell: ({ clockOffsetMs }) => <ClockOffset ms={clockOffsetMs} />,
          },
        ]}
      />
    </div>
  )
}

function StoreNodeBadge({ node }: { readonly node: StoreNodeView }) {
  if (node.isBreakerOpen) return <Badge tone="refused">breaker open</Badge>
  return node.isAnswering ? (
    <Badge tone="allowed">answering</Badge>
  ) : (
    <Badge tone="degraded">not answering</Badge>
  )
}

/** A clock offset, marked when it is large: limits are only as exact as the clocks behind them. */
export function ClockOffset({ ms }: { readonly ms: number | null | undefined }) {
  if (ms === null || ms === undefined) return <span class="faint">unknown</span>
  const text = `${ms > 0 ? '+' : ms < 0 ? '−' : ''}${millis(Math.abs(ms))}`
  return Math.abs(ms) > CLOCK_OFFSET_HIGH_MS ? <Badge tone="degraded">{text}</Badge> : <>{text}</>
}
