/** The table of callers, with the actions for each. */
import type { TopCallerView, TopOrder } from '@sluice/client'
import { hasRole } from '../../api.js'
import { nowMs } from '../../clock.js'
import { count, duration, timeOf } from '../../format.js'
import { hrefs } from '../../router.js'
import {
  callerColumn,
  Badge,
  type Column,
  Empty,
  isHashOnly,
  Link,
  LinkButton,
  Meter,
  Table,
  Text,
  RelativeTime,
} from '../../ui/index.js'

const HOURS = 24
/** A caller exhausted for longer raises an alert. */
const ZERO_LONG_MS = 300_000

const EMPTY_TEXTS: Readonly<Record<TopOrder, readonly [string, string]>> = {
  refusals: [
    'No refused callers in this period.',
    'No enforced rule refused a request in the last minutes.',
  ],
  use: ['No callers in this period.', 'Callers appear here with their first request.'],
  zero: ['No exhausted callers.', 'Every caller had budget left at one of its last requests.'],
  hours: [
    'No callers at the limit for hours.',
    'Callers at their limit in at least half of the last 24 hours appear here.',
  ],
  shadow: [
    'No shadow refusals in this period.',
    'No shadow rule and no candidate would have refused a request in the last minutes.',
  ],
}

interface CallersTableProps {
  readonly callers: readonly TopCallerView[]
  readonly by: TopOrder
}

export function CallersTable({ callers, by }: CallersTableProps) {
  const [title, description] = EMPTY_TEXTS[by]
  return (
    <Table
      caption="Callers"
      rows={callers}
      rowKey={({ rule, hash }) => `${rule} ${hash}`}
      empty={<Empty title={title}>{description}</Empty>}
      columns={[
        callerColumn,
        {
          head: 'Rule',
          cell: ({ rule }) => (
            <Link href={hrefs.rule(rule)}>
              <Text value={rule} max={60} />
            </Link>
          ),
        },
        ...figureColumns(by),
        {
          head: 'Last request',
          isNumber: true,
          cell: ({ lastSeen }) => <RelativeTime at={lastSeen} />,
        },
        { head: 'Actions', isHeadHidden: true, cell: (row) => <Actions row={row} /> },
      ]}
    />
  )
}

function figureColumns(by: TopOrder): readonly Column<TopCallerView>[] {
  const refusals: Column<TopCallerView> = {
    head: 'Refusals',
    isNumber: true,
    cell: ({ refusals: value, error }) => (
      <EstimatedCount value={value} error={by === 'refusals' ? error : 0} />
    ),
  }
  const use: Column<TopCallerView> = {
    head: 'Usage',
    isNumber: true,
    cell: ({ use: value, error }) => (
      <EstimatedCount value={value} error={by === 'use' ? error : 0} />
    ),
  }
  const zero: Column<TopCallerView> = {
    head: 'Exhausted for',
    isNumber: true,
    cell: ({ zeroSince }) => <TimeAtZero since={zeroSince} />,
  }
  if (by === 'shadow') return [...shadowColumns(), use]
  const hours: Column<TopCallerView> = {
    head: 'Hours at limit',
    isNumber: true,
    cell: ({ hoursAtLimit }) => <HoursAtLimit value={hoursAtLimit} />,
  }
  return by === 'hours' ? [hours, refusals, use] : [refusals, use, zero]
}

/** Columns for allowed requests that a shadow rule or a candidate would have refused. */
export function shadowColumns({
  isShadow = true,
  isCandidate = true,
}: {
  readonly isShadow?: boolean
  readonly isCandidate?: boolean
} = {}): readonly Column<TopCallerView>[] {
  const column = (head: string, valueOf: (caller: TopCallerView) => number) => ({
    head,
    isNumber: true,
    cell: (caller: TopCallerView) => {
      const value = valueOf(caller)
      // The error is of both counts together; a caller rarely has both.
      const error = Math.min(value, caller.error)
      return value === 0 ? (
        <span class="faint">–</span>
      ) : (
        <EstimatedCount value={value} error={error} />
      )
    },
  })
  return [
    ...(isShadow ? [column('By the shadow rule', ({ shadowRefusals }) => shadowRefusals)] : []),
    ...(isCandidate
      ? [column('By the candidate', ({ candidateRefusals }) => candidateRefusals)]
      : []),
  ]
}

/** A count that may be too high, with its possible range as the title. */
function EstimatedCount({ value, error }: { readonly value: number; readonly error: number }) {
  if (error <= 0) return <>{count(value)}</>
  return (
    <span title={`Between ${count(Math.max(0, value - error))} and ${count(value)}`}>
      <span class="faint">≤ </span>
      {count(value)}
    </span>
  )
}

function TimeAtZero({ since }: { readonly since: string | null }) {
  if (since === null) return <span class="faint">–</span>
  const ms = nowMs.value - timeOf(since)
  const text = duration(ms)
  return ms > ZERO_LONG_MS ? <Badge tone="refused">{text}</Badge> : <>{text}</>
}

function HoursAtLimit({ value }: { readonly value: number }) {
  return (
    <span class="hours">
      <Meter label="Hours at limit" value={value / HOURS} tone="refused" />
      {value} of {HOURS}
    </span>
  )
}

/** Whether all callers share the counter: then there is no caller to override. */
const isSharedCounter = (caller: TopCallerView['caller']): boolean =>
  Object.keys(caller).length === 0

function Actions({ row }: { readonly row: TopCallerView }) {
  return (
    <span class="actions">
      {!isHashOnly(row) && (
        <LinkButton href={hrefs.whyRefused(row.rule, row.caller, row.plan)} size="small">
          Why?
        </LinkButton>
      )}
      {hasRole('edit') && !isSharedCounter(row.caller) && (
        <LinkButton href={hrefs.override(row.rule, row.caller)} size="small" kind="quiet">
          Override
        </LinkButton>
      )}
    </span>
  )
}
