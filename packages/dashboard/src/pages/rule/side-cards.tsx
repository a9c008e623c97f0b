/** What a rule says, whom it refuses, and how much it leaves to callers. */
import type { RuleStatsView, RuleView, TopCallerView, TopOrder } from '@sluice/client'
import { api, useResource } from '../../api.js'
import { nowMs } from '../../clock.js'
import { count, duration, percent, compact, sum, timeOf } from '../../format.js'
import { lastTick } from '../../live.js'
import { hrefs } from '../../router.js'
import {
  Card,
  Definitions,
  Empty,
  ErrorNote,
  isHashOnly,
  Link,
  LinkButton,
  Loading,
  Table,
  Text,
  TopCaller,
  RelativeTime,
} from '../../ui/index.js'
import { allLimitsText, byText, matchText, valueToText } from '../rules/rule-text.js'

interface CardProps {
  readonly rule: RuleView
  readonly stats: RuleStatsView | undefined
}

const settingText = (value: unknown, otherwise: string) => (
  <Text value={value === undefined ? otherwise : valueToText(value)} max={120} />
)

export function RuleSettings({ rule, stats }: CardProps) {
  const items = [
    { term: 'Matches', value: <Text value={matchText(rule['match'])} max={200} /> },
    { term: 'Counts by', value: <Text value={byText(rule['by'])} /> },
    { term: 'Limits', value: <Text value={allLimitsText(rule)} max={400} /> },
    { term: 'Coordination', value: settingText(rule['coordination'], 'exact') },
    { term: 'Without the store', value: settingText(rule['posture'], 'local') },
    { term: 'Version', value: count(rule.version) },
    {
      term: 'Distinct callers, 5 min',
      value:
        stats?.callers === null || stats === undefined ? '–' : `about ${compact(stats.callers)}`,
    },
    {
      term: 'Refusing since',
      value:
        stats?.refusingSince === null || stats === undefined ? (
          'not now'
        ) : (
          <RelativeTime at={stats.refusingSince} />
        ),
    },
  ]
  return (
    <Card title="What it says">
      <Definitions items={items} />
    </Card>
  )
}

const SHARE_LABELS = [
  'nothing left',
  'up to 10 %',
  '10 to 25 %',
  '25 to 50 %',
  '50 to 75 %',
  'more than 75 %',
]

/** How much was left of the limit after each decision, as bars. */
export function RemainingBudget({ stats }: { readonly stats: RuleStatsView | undefined }) {
  const shares = stats?.left ?? []
  const all = sum(shares)
  return (
    <Card
      title="What is left to callers"
      lead="Of the tightest limit, after each decision of the last ten minutes"
    >
      {all === 0 ? (
        <Empty title="Nothing to tell yet" />
      ) : (
        <ul class="remaining-bars">
          {shares.map((value, index) => (
            <li key={SHARE_LABELS[index]}>
              <span class="remaining-label">{SHARE_LABELS[index] ?? ''}</span>
              <svg
                class="remaining-bar"
                viewBox="0 0 100 10"
                preserveAspectRatio="none"
                aria-hidden="true"
              >
                <rect
                  class={index === 0 ? 'remaining-none' : 'remaining-some'}
                  width={Math.max(value === 0 ? 0 : 0.5, (100 * value) / all)}
                  height="10"
                />
              </svg>
              <span class="remaining-share">{percent(value / all)}</span>
            </li>
          ))}
        </ul>
      )}
    </Card>
  )
}

interface MostRefusedCallersProps {
  readonly rule: RuleView
  readonly canChange: boolean
}

const CALLERS_SHOWN = 8
/** Top callers move slowly; every tick would be five times as often as they do. */
const REFRESH_MS = 10_000

/** The first callers of a rule, read again as they move. */
export function useTopCallers(rule: string, by: TopOrder) {
  const step = Math.floor((lastTick.value?.endMs ?? 0) / REFRESH_MS)
  return useResource(() => api.top({ rule, by, limit: CALLERS_SHOWN }), [rule, by, step])
}

interface CallerActionsProps {
  readonly caller: TopCallerView
  readonly canChange: boolean
}

/** What can be done about a caller of a rule. */
export function CallerActions({ caller: row, canChange }: CallerActionsProps) {
  const { rule, caller, plan } = row
  if (isHashOnly(row)) return null
  return (
    <>
      <LinkButton href={hrefs.whyRefused(rule, caller, plan)} kind="quiet" size="small">
        Why
      </LinkButton>
      {canChange && (
        <LinkButton href={hrefs.override(rule, caller)} kind="quiet" size="small">
          Override
        </LinkButton>
      )}
    </>
  )
}

export function MostRefusedCallers({ rule, canChange }: MostRefusedCallersProps) {
  const top = useTopCallers(rule.id, 'refusals')
  const callers = (top.value?.callers ?? []).filter(({ refusals }) => refusals > 0)
  return (
    <Card
      title="Most refused callers"
      flush
      actions={<Link href={hrefs.callers({ rule: rule.id })}>All callers</Link>}
    >
      {top.error !== undefined && <ErrorNote error={top.error} onRetry={top.reload} />}
      {top.value === undefined && top.error === undefined && <Loading what="Reading callers" />}
      {top.value !== undefined && (
        <Table
          caption={`Callers that ${rule.id} refused most`}
          rows={callers}
          rowKey={({ hash }) => hash}
          empty={<Empty title="Nobody was refused">In the last minutes.</Empty>}
          columns={[
            {
              head: 'Caller',
              isMain: true,
              cell: (row) => <TopCaller row={row} />,
            },
            { head: 'Refused', isNumber: true, cell: ({ refusals }) => compact(refusals) },
            {
              head: 'At zero for',
              cell: ({ zeroSince }) =>
                zeroSince === null ? (
                  <span class="no-value">–</span>
                ) : (
                  <span class="nowrap">{duration(nowMs.value - timeOf(zeroSince))}</span>
                ),
            },
            {
              head: 'Actions',
              isHeadHidden: true,
              cell: (caller) => <CallerActions caller={caller} canChange={canChange} />,
            },
          ]}
        />
      )}
    </Card>
  )
}
