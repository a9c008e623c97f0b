/** Requests that were admitted and shed by priority, and requests in flight against ceilings. */
import type { InFlightView, StatsView } from '@sluice/client'
import { STEPS_MAX, stepsShown } from '../../apply-tick.js'
import { count, percent, rate } from '../../format.js'
import { hrefs } from '../../router.js'
import { Card, CeilingBar, Link, Sparkline, Table, Text } from '../../ui/index.js'
import { priorityFigures } from './priority-figures.js'

/** The share of a limit in flight from which the least important requests are near their end. */
const NEARLY_FULL = 0.8

export function PrioritiesCard({ stats }: { readonly stats: StatsView }) {
  const { priorities, series } = stats
  const rows = priorities.map((each) => ({ ...each, now: priorityFigures(each, series.stepMs) }))
  const hasShadow = rows.some(({ now }) => now.shadowShed > 0)
  return (
    <Card flush title="Priorities" lead={leadText(hasShadow)}>
      <Table
        caption="Requests by priority"
        rows={rows}
        rowKey={({ priority }) => priority}
        columns={[
          { head: 'Priority', isMain: true, cell: ({ priority }) => <Text value={priority} /> },
          {
            head: 'Shed',
            cell: ({ priority, shed }) => (
              <Sparkline
                values={shed}
                tone="refused"
                steps={stepsShown(shed.length, STEPS_MAX)}
                width={72}
                label={`Shed requests of ${priority}`}
              />
            ),
          },
          { head: 'Admitted/s', isNumber: true, cell: ({ now }) => rate(now.admitted) },
          { head: 'Shed/s', isNumber: true, cell: ({ now }) => rate(now.shed) },
          { head: 'Share', isNumber: true, cell: ({ now }) => percent(now.share) },
          ...(hasShadow
            ? [
                {
                  head: 'Would be',
                  isNumber: true,
                  cell: ({ now }: (typeof rows)[number]) => rate(now.shadowShed),
                },
              ]
            : []),
        ]}
      />
    </Card>
  )
}

const leadText = (hasShadow: boolean): string =>
  hasShadow ? 'Admitted, shed, and what would be shed in shadow' : 'What is admitted and shed'

export function InFlightCard({ inFlight }: { readonly inFlight: readonly InFlightView[] }) {
  return (
    <Card flush title="Requests in flight" lead="A good max is twice the peak of a healthy hour">
      <Table
        caption="Requests in flight against the limits of rules"
        rows={inFlight}
        rowKey={({ rule }) => rule}
        columns={[
          {
            head: 'Rule',
            isMain: true,
            cell: (row) => (
              <div class="stacked-cell">
                <span>
                  <Link href={hrefs.rule(row.rule)}>
                    <Text value={row.rule} max={60} />
                  </Link>{' '}
                  {row.isPerNode && <span class="faint small">busiest node</span>}
                </span>
                {!row.isPerCaller && <Ceilings row={row} />}
              </div>
            ),
          },
          { head: 'Now', isNumber: true, cell: (row) => count(row.inFlight) },
          { head: 'Peak, 1 h', isNumber: true, cell: ({ peak }) => count(peak) },
          {
            head: 'Max',
            isNumber: true,
            cell: ({ max, isPerCaller }) => (isPerCaller ? `${count(max)} each` : count(max)),
          },
        ]}
      />
    </Card>
  )
}

function Ceilings({ row }: { readonly row: InFlightView }) {
  const { rule, inFlight, max, ceilings } = row
  const share = max === 0 ? 0 : inFlight / max
  return (
    <>
      <CeilingBar
        label={`In flight of ${rule}`}
        value={inFlight}
        max={max}
        ceilings={ceilings.map(({ ceiling }) => ceiling)}
        tone={share >= NEARLY_FULL ? 'degraded' : 'accent'}
      />
      {ceilings.length > 0 && (
        <span class="faint small">
          {ceilings
            .map(({ priority, ceiling }) => `${priority} up to ${count(ceiling)}`)
            .join(', ')}
        </span>
      )}
    </>
  )
}
