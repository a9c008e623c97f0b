/** Cards of a rule: settings, most refused callers and remaining budget. */
import type { RuleStatsView, RuleView, TopCallerView, TopOrder } from '@sluice/client'
import { api, useResource } from '../../api.js'
import { nowMs } from '../../clock.js'
import { count, duration, percent, compact, sum, timeOf } from '../../format.js'
import { lastTick, rulesVersion } from '../../live.js'
import { hrefs } from '../../router.js'
import {
  callerColumn,
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
  RelativeTime,
} from '../../ui/index.js'
import { allLimitsText, byText, headroomText, matchText, valueText } from '@sluice/core/text'
import { ceilingsText, storeFailureText } from '../rules/rule-text.js'

interface CardProps {
  readonly rule: RuleView
  readonly stats: RuleStatsView | undefined
}

export function RuleSettings({ rule, stats }: CardProps) {
  const items = [
    { term: 'Matches', value: <Text value={matchText(rule['match'])} max={200} /> },
    { term: 'Counts by', value: <Text value={byText(rule['by'])} /> },
    { term: 'Limits', value: <Text value={allLimitsText(rule)} max={400} /> },
    ...capacityItems(rule),
    { term: 'Coordination', value: <Text value={valueText(rule['coordination'] ?? 'exact')} /> },
    { term: 'On store failure', value: <Text value={storeFailureText(rule['posture'])} /> },
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
          'not refusing'
        ) : (
          <RelativeTime at={stats.refusingSince} />
        ),
    },
  ]
  return (
    <Card title="Settings">
      <Definitions items={items} />
    </Card>
  )
}

/** Only of rules that keep something free, or protect capacity. */
function capacityItems(rule: RuleView) {
  const headroom = headroomText(rule['headroom'])
  return [
    ...(headroom === undefined
      ? []
      : [
          { term: 'Headroom', value: <Text value={headroom} max={200} /> },
          { term: 'Ceilings', value: <Ceilings headroom={rule['headroom']} /> },
        ]),
    ...(rule['protects'] === 'capacity'
      ? [{ term: 'Protects', value: 'capacity: refused requests are shed' }]
      : []),
  ]
}

/** What each priority of the rule set may use of the limits. */
function Ceilings({ headroom }: { readonly headroom: unknown }) {
  const set = useResource(() => api.listRules({ limit: 1 }), [rulesVersion.value])
  if (set.value === undefined) return set.error === undefined ? <>…</> : <>unknown</>
  const { priorities = [] } = set.value
  return priorities.length === 0 ? (
    <>none: the rule set has no priorities</>
  ) : (
    <Text value={ceilingsText(headroom, priorities)} max={300} />
  )
}

const SHARE_LABELS = [
  'exhausted',
  'up to 10 %',
  '10 to 25 %',
  '25 to 50 %',
  '50 to 75 %',
  'more than 75 %',
]

/** Distribution of the budget that was left after each decision. */
export function RemainingBudget({ stats }: { readonly stats: RuleStatsView | undefined }) {
  const shares = stats?.left ?? []
  const all = sum(shares)
  return (
    <Card
      title="Remaining budget"
      lead="Share of the tightest limit left after each decision, last 10 minutes"
    >
      {all === 0 ? (
        <Empty title="No data yet" />
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
/** Top callers change slowly, so they are not reloaded with every tick. */
const REFRESH_MS = 10_000

/** The top callers of a rule, reloaded regularly. */
export function useTopCallers(rule: string, by: TopOrder) {
  const step = Math.floor((lastTick.value?.endMs ?? 0) / REFRESH_MS)
  return useResource(() => api.top({ rule, by, limit: CALLERS_SHOWN }), [rule, by, step])
}

interface CallerActionsProps {
  readonly caller: TopCallerView
  readonly canChange: boolean
}

/** Links to the explanation and the override of a caller. */
export function CallerActions({ caller: row, canChange }: CallerActionsProps) {
  const { rule, caller, plan } = row
  if (isHashOnly(row)) return null
  return (
    <>
      <LinkButton href={hrefs.whyRefused(rule, caller, plan)} kind="quiet" size="small">
        Why?
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
      {top.value === undefined && top.error === undefined && <Loading what="Loading callers" />}
      {top.value !== undefined && (
        <Table
          caption={`Callers that ${rule.id} refused most`}
          rows={callers}
          rowKey={({ hash }) => hash}
          empty={<Empty title="No refused callers in this period." />}
          columns={[
            callerColumn,
            { head: 'Refused', isNumber: true, cell: ({ refusals }) => compact(refusals) },
            {
              head: 'Exhausted for',
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
