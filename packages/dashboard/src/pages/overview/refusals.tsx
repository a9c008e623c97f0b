/** Which rules refuse, since when, and whom. */
import type { RuleStatsView, StatsView, TopCallerView } from '@sluice/client'
import { api, useLoaded } from '../../api.js'
import { nowMs, useRounds } from '../../clock.js'
import { count, duration, perSecond, percent, rate, refusedShare, timeOf } from '../../format.js'
import { RULE_STEPS_MAX, stepsShown } from '../../live-state.js'
import { hrefs } from '../../router.js'
import {
  Card,
  Empty,
  ErrorNote,
  isUnnamed,
  Link,
  LinkButton,
  Loading,
  Sparkline,
  Table,
  Text,
  TopCaller,
  When,
} from '../../ui/index.js'
import { NOW_S } from './pulse.js'

const SHOWN = 6
/** Callers are counted over minutes: to ask more often shows nothing new. */
const CALLERS_EVERY_MS = 10_000

/** Of as long as the figures at the head of the page are: one step of a rule. */
const refusing = (rule: RuleStatsView): number => perSecond(rule.series, 'refused', NOW_S)

interface RefusingRulesProps {
  readonly seen: StatsView
  readonly hasNoRules: boolean
}

export function RefusingRules({ seen, hasNoRules }: RefusingRulesProps) {
  const rules = seen.rules
    .filter((rule) => refusing(rule) > 0 || rule.refusingSince !== null)
    .toSorted((one, other) => refusing(other) - refusing(one))
    .slice(0, SHOWN)
  return (
    <Card
      flush
      title="Rules that refuse"
      lead="The last ten minutes"
      actions={
        <LinkButton href={hrefs.rules} size="small" kind="quiet">
          All rules
        </LinkButton>
      }
    >
      <Table
        caption="Rules that refuse, most refusals first"
        rows={rules}
        rowKey={({ rule }) => rule}
        empty={
          hasNoRules ? (
            <Empty title="There is no rule.">Every call is allowed.</Empty>
          ) : (
            <Empty title="No rule refuses anybody.">Everybody is within their limits.</Empty>
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
                label={`Refusals of ${rule}`}
              />
            ),
          },
          { head: 'Now /s', isNumber: true, cell: (rule) => rate(refusing(rule)) },
          { head: 'Share', isNumber: true, cell: ({ series }) => percent(refusedShare(series)) },
          {
            head: 'For',
            isNumber: true,
            cell: ({ refusingSince }) => <For since={refusingSince} />,
          },
        ]}
      />
    </Card>
  )
}

/** The first unit is enough beside others. */
const roughly = (ms: number): string => duration(ms).split(' ', 2).join(' ')

function For({ since }: { readonly since: string | null }) {
  if (since === null) return <span class="faint">paused</span>
  return <When at={since}>{roughly(nowMs.value - timeOf(since))}</When>
}

export function RefusedCallers() {
  const round = useRounds(CALLERS_EVERY_MS)
  const top = useLoaded(() => api.top({ by: 'refusals', limit: SHOWN }), [round])
  return (
    <Card
      flush
      title="Callers that are refused"
      lead="The last five to ten minutes"
      actions={
        <LinkButton href={hrefs.callers()} size="small" kind="quiet">
          All callers
        </LinkButton>
      }
    >
      {top.value !== undefined ? (
        <CallerTable callers={top.value.callers.filter(({ refusals }) => refusals > 0)} />
      ) : top.error !== undefined ? (
        <ErrorNote error={top.error} onRetry={top.reload} />
      ) : (
        <Loading />
      )}
    </Card>
  )
}

function CallerTable({ callers }: { readonly callers: readonly TopCallerView[] }) {
  return (
    <Table
      caption="Callers that are refused, most refusals first"
      rows={callers}
      rowKey={({ rule, hash }) => `${rule} ${hash}`}
      empty={<Empty title="Nobody is refused." />}
      columns={[
        {
          head: 'Caller',
          isMain: true,
          cell: (row) => (
            <div class="who-rule">
              <TopCaller row={row} />
              <span class="faint small">
                by <Text value={row.rule} max={60} />
              </span>
            </div>
          ),
        },
        { head: 'Refusals', isNumber: true, cell: ({ refusals }) => count(refusals) },
        {
          head: 'At zero for',
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
            !isUnnamed(row) && (
              <LinkButton href={hrefs.whyRefused(row.rule, row.caller, row.plan)} size="small">
                Why?
              </LinkButton>
            ),
        },
      ]}
    />
  )
}
