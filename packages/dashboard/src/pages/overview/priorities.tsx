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
    <Card flush title="Priorities" lead="The most important first">
      <Table
        caption="Requests by priority"
        rows={rows}
        rowKey={({ priority }) => priority}
        columns={[
          { head: 'Priority', isMain: true, cell: ({ priority }) => <Text value={priority} /> },
          {
            head: 'Shed, 5 min',
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
          { head: 'Admitted /s', isNumber: true, cell: ({ now }) => rate(now.admitted) },
          { head: 'Shed /s', isNumber: true, cell: ({ now }) => rate(now.shed) },
          { head: 'Share shed', isNumber: true, cell: ({ now }) => percent(now.share) },
          ...(hasShadow
            ? [
                {
                  head: 'Would be shed /s',
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
            cell: ({ rule, isPerNode }) => (
              <div class="stacked-cell">
                <Link href={hrefs.rule(rule)}>
                  <Text value={rule} max={60} />
                </Link>
                {isPerNode && <span class="faint small">busiest node</span>}
              </div>
            ),
          },
          { head: 'Against ceilings', cell: (row) => <Ceilings row={row} /> },
          { head: 'Now', isNumber: true, cell: (row) => count(row.inFlight) },
          { head: 'Peak, 1 h', isNumber: true, cell: ({ peak }) => count(peak) },
          { head: 'Max', isNumber: true, cell: ({ max }) => count(max) },
        ]}
      />
    </Card>
  )
}

function Ceilings({ row }: { readonly row: InFlightView }) {
  const { rule, inFlight, max, ceilings } = row
  const share = max === 0 ? 0 : inFlight / max
  return (
    <div class="stacked-cell">
      <CeilingBar
        label={`In flight of ${rule}`}
        value={inFlight}
        max={max}
        ceilings={ceilings.map(({ ceiling }) => ceiling)}
        tone={share >= NEARLY_FULL ? 'degraded' : 'accent'}
      />
      {ceilings.length > 0 && (
        <span class="faint small">
          {ceilings.map(({ priority, ceiling }) => `${priority} ${count(ceiling)}`).join(', ')}
        </span>
      )}
    </div>
  )
}
