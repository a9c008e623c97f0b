/** The table of rules. */
import { count, percent, rate } from '../../format.js'
import { hrefs } from '../../router.js'
import {
  Badge,
  type Column,
  Link,
  ModeBadge,
  ShareBar,
  Sparkline,
  Table,
  Text,
  RelativeTime,
} from '../../ui/index.js'
import type { RuleRow } from './rule-rows.js'

const COLUMNS: readonly Column<RuleRow>[] = [
  {
    head: 'Rule',
    isMain: true,
    cell: (row) => (
      <div class="rule-name">
        <Link href={hrefs.rule(row.id)}>
          <Text value={row.id} mono />
        </Link>
        <span class="faint small">
          <Text value={row.description || row.match} max={90} />
        </span>
      </div>
    ),
  },
  {
    head: 'Mode',
    cell: (row) => (
      <span class="rule-mode">
        <ModeBadge mode={row.mode} />
        {row.coordination !== 'exact' && (
          <span class="faint small">
            <Text value={row.coordination} max={20} />
          </span>
        )}
      </span>
    ),
  },
  {
    head: 'Limits',
    cell: (row) => (
      <div class="rule-limits">
        <Text value={row.limits} max={80} />
        <span class="faint small">
          by <Text value={row.by} max={60} />
          {row.overrideCount > 0 &&
            `, ${count(row.overrideCount)} override${row.overrideCount === 1 ? '' : 's'}`}
        </span>
      </div>
    ),
  },
  {
    head: 'Requests/s',
    isNumber: true,
    cell: (row) => rate(row.decisionsPerSecond),
  },
  { head: 'Refused, 10 min', cell: (row) => <RefusedShare row={row} /> },
  { head: 'Candidate', cell: (row) => <CandidateCell row={row} /> },
]

export function RulesTable({ rows }: { readonly rows: readonly RuleRow[] }) {
  return (
    <Table
      caption="Rules, with mode, limits and refusals in the last 10 minutes"
      columns={COLUMNS}
      rows={rows}
      rowKey={(row) => row.id}
    />
  )
}

function RefusedShare({ row }: { readonly row: RuleRow }) {
  const { allowed, refused, shadowRefused } = row
  const total = allowed + refused + shadowRefused
  if (total === 0) return <span class="faint">no requests</span>
  const isShadow = shadowRefused > refused
  const refusals = isShadow ? shadowRefused : refused
  const tone = isShadow ? 'shadow' : 'refused'
  const segments = [
    { label: isShadow ? 'would be refused' : 'refused', value: refusals, tone } as const,
    { label: 'allowed', value: Math.max(0, total - refusals), tone: 'allowed' } as const,
  ]
  return (
    <div class="rule-refused">
      <div class="rule-share">
        <span class="nowrap">
          <b>{percent(refusals / total)}</b>{' '}
          <span class="faint small">
            {count(refusals)}
            {isShadow && ' in shadow'}
          </span>
        </span>
        <ShareBar label={`Decisions by ${row.id}`} segments={segments} />
        {row.refusingSince !== null && (
          <span class="faint small nowrap">
            started <RelativeTime at={row.refusingSince} />
          </span>
        )}
      </div>
      <Sparkline
        values={row.refusals}
        tone={tone}
        width={60}
        label={`Refusals by ${row.id} in the last 10 minutes, ${count(row.refusals.at(-1) ?? 0)} in the last step`}
      />
    </div>
  )
}

/** Refusals by the candidate, next to those by the active limits over the same time. */
function CandidateCell({ row }: { readonly row: RuleRow }) {
  const { candidate } = row
  if (candidate === undefined) return <span class="faint no-value">–</span>
  return (
    <div class="rule-candidate">
      <Badge tone="shadow" title="Candidate limits, counted alongside the active ones">
        <Text value={candidate.limits} max={40} />
      </Badge>
      <span class="small">
        <b>{count(candidate.wouldRefuse)}</b>{' '}
        <span class="faint">{candidate.isAdditional ? 'more refusals,' : 'refusals,'}</span>{' '}
        <span class="faint nowrap">{count(candidate.refused)} now</span>
      </span>
    </div>
  )
}
