/** Tables of the refusing rules and the refused callers. */
import type { RuleStatsView, StatsView, TopCallerView } from '@sluice/client'
import { api, useResource } from '../../api.js'
import { nowMs, usePolling } from '../../clock.js'
import { count, duration, perSecond, percent, rate, refusedShare, timeOf } from '../../format.js'
import { RULE_STEPS_MAX, stepsShown } from '../../apply-tick.js'
import { hrefs } from '../../router.js'
import {
  Card,
  Empty,
  ErrorNote,
  isHashOnly,
  Link,
  LinkButton,
  Loading,
  Sparkline,
  Table,
  Text,
  TopCaller,
  RelativeTime,
} from '../../ui/index.js'
import { RECENT_S } from './headline-figures.js'

const ROWS_MAX = 6
/** Callers are counted over minutes, so more frequent polling shows nothing new. */
const CALLERS_EVERY_MS = 10_000

/** Over the same time as the headline figures, which is one step of a rule. */
const refusalRate = (rule: RuleStatsView): number => perSecond(rule.series, 'refused', RECENT_S)

interface RefusingRulesProps {
  readonly stats: StatsView
  readonly hasNoRules: boolean
}

export function RefusingRules({ stats, hasNoRules }: RefusingRulesProps) {
  const rules = stats.rules
    .filter((rule) => refusalRate(rule) > 0 || rule.refusingSince !== null)
    .toSorted((one, other) => refusalRate(other) - refusalRate(one))
    .slice(0, ROWS_MAX)
  return (
    <Card
      flush
      title="Refusing rules"
      lead="Last 10 minutes"
      actions={
        <LinkButton href={hrefs.rules} size="small" kind="quiet">
          All rules
        </LinkButton>
      }
    >
      <Table
        caption="Refusing rules, most refusals first"
        rows={rules}
        rowKey={({ rule }) => rule}
        empty={
          hasNoRules ? (
            <Empty title="No rules.">Every request is allowed.</Empty>
          ) : (
            <Empty title="No refusals.">All callers are within their limits.</Empty>
          )
        }
        columns={[
          {
            head: 'Rule',
            isMain: true,
            cell: ({ rule }) => (
              <Link href={hrefs.rule(rule)}>
                <Text value={rule} max={60} />
              </Link>
            ),
          },
          {
            head: 'Refusals',
            cell: ({ rule, series }) => (
              <Sparkline
                values={series.refused}
                tone="refused"
                steps={stepsShown(series.refused.length, RULE_STEPS_MAX)}
                width={72}
                label={`Refusals by ${rule}`}
              />
            ),
          },
          { head: 'Per second', isNumber: true, cell: (rule) => rate(refusalRate(rule)) },
          { head: 'Share', isNumber: true, cell: ({ series }) => percent(refusedShare(series)) },
          {
            head: 'Duration',
            isNumber: true,
            cell: ({ refusingSince }) => <RefusingFor since={refusingSince} />,
          },
        ]}
      />
    </Card>
  )
}

/** Only the largest unit, for a narrow column. */
const shortDuration = (ms: number): string => duration(ms).split(' ', 2).join(' ')

function RefusingFor({ since }: { readonly since: string | null }) {
  if (since === null) return <span class="faint">ended</span>
  return <RelativeTime at={since}>{shortDuration(nowMs.value - timeOf(since))}</RelativeTime>
}

export function RefusedCallers() {
  const pollCount = usePolling(CALLERS_EVERY_MS)
  const top = useResource(() => api.top({ by: 'refusals', limit: ROWS_MAX }), [pollCount])
  return (
    <Card
      flush
      title="Refused callers"
      lead="Last 5 to 10 minutes"
      actions={
        <LinkButton href={hrefs.callers()} size="small" kind="quiet">
          All callers
        </LinkButton>
      }
    >
      {top.value !== undefined ? (
        <RefusedCallersTable callers={top.value.callers.filter(({ refusals }) => refusals > 0)} />
      ) : top.error !== undefined ? (
        <ErrorNote error={top.error} onRetry={top.reload} />
      ) : (
        <Loading />
      )}
    </Card>
  )
}

function RefusedCallersTable({ callers }: { readonly callers: readonly TopCallerView[] }) {
  return (
    <Table
      caption="Refused callers, most refusals first"
      rows={callers}
      rowKey={({ rule, hash }) => `${rule} ${hash}`}
      empty={<Empty title="No refused callers in this period." />}
      columns={[
        {
          head: 'Caller',
          isMain: true,
          cell: (row) => (
            <div class="stacked-cell">
              <TopCaller row={row} />
              <span class="faint small">
                by <Text value={row.rule} max={60} />
              </span>
            </div>
          ),
        },
        { head: 'Refusals', isNumber: true, cell: ({ refusals }) => count(refusals) },
        {
          head: 'Exhausted for',
          isNumber: true,
          cell: ({ zeroSince }) =>
            zeroSince === null ? (
              <span class="faint">–</span>
            ) : (
              duration(nowMs.value - timeOf(zeroSince))
            ),
        },
        {
          head: 'More',
          isHeadHidden: true,
          cell: (row) =>
            !isHashOnly(row) && (
              <LinkButton href={hrefs.whyRefused(row.rule, row.caller, row.plan)} size="small">
                Why?
              </LinkButton>
            ),
        },
      ]}
    />
  )
}
