/** Whom a rule in shadow, or a candidate, would have refused: known before it refuses anybody. */
import type { RuleView } from '@sluice/client'
import { hrefs } from '../../router.js'
import { Card, Empty, ErrorNote, Link, Loading, Table, TopCaller } from '../../ui/index.js'
import { shadowColumns } from '../callers/callers-table.js'
import { CallerActions, useTopCallers } from './side-cards.js'

interface ShadowRefusedProps {
  readonly rule: RuleView
  readonly canChange: boolean
}

export function ShadowRefused({ rule, canChange }: ShadowRefusedProps) {
  const top = useTopCallers(rule.id, 'shadow')
  const isShadow = rule['mode'] === 'shadow'
  const isCandidate = rule.candidate !== undefined
  // What a candidate that is gone would have refused is of no use any more.
  const callers = (top.value?.callers ?? []).filter(
    ({ shadowRefusals, candidateRefusals }) =>
      (isShadow && shadowRefusals > 0) || (isCandidate && candidateRefusals > 0),
  )
  return (
    <Card
      class="shadow-refused"
      title="Would have been refused"
      lead={`By ${refuserText(isShadow, isCandidate)}, of calls that passed`}
      flush
      actions={<Link href={hrefs.callers({ rule: rule.id, by: 'shadow' })}>All of them</Link>}
    >
      {top.error !== undefined && <ErrorNote error={top.error} onRetry={top.reload} />}
      {top.value === undefined && top.error === undefined && <Loading what="Reading callers" />}
      {top.value !== undefined && (
        <Table
          caption={`Callers that would have been refused: ${rule.id}`}
          rows={callers}
          rowKey={({ hash }) => hash}
          empty={<Empty title="Nobody would have been refused">In the last minutes.</Empty>}
          columns={[
            {
              head: 'Caller',
              isMain: true,
              cell: (row) => <TopCaller row={row} />,
            },
            ...shadowColumns({ isShadow, isCandidate }),
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

function refuserText(isShadow: boolean, isCandidate: boolean): string {
  if (isShadow && isCandidate) return 'the rule in shadow or its candidate'
  return isShadow ? 'the rule in shadow' : 'the candidate'
}
