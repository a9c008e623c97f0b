/** Callers that a shadow rule or a candidate would have refused. */
import type { RuleView } from '@sluice/client'
import { hrefs } from '../../router.js'
import { callerColumn, Card, Empty, ErrorNote, Link, Loading, Table } from '../../ui/index.js'
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
  // Counts of a candidate that was removed are left out.
  const callers = (top.value?.callers ?? []).filter(
    ({ shadowRefusals, candidateRefusals }) =>
      (isShadow && shadowRefusals > 0) || (isCandidate && candidateRefusals > 0),
  )
  return (
    <Card
      class="shadow-refused"
      title="Shadow refusals"
      lead={`Allowed requests that ${refuserText(isShadow, isCandidate)} would have refused`}
      flush
      actions={<Link href={hrefs.callers({ rule: rule.id, by: 'shadow' })}>All callers</Link>}
    >
      {top.error !== undefined && <ErrorNote error={top.error} onRetry={top.reload} />}
      {top.value === undefined && top.error === undefined && <Loading what="Loading callers" />}
      {top.value !== undefined && (
        <Table
          caption={`Shadow refusals by caller: ${rule.id}`}
          rows={callers}
          rowKey={({ hash }) => hash}
          empty={<Empty title="No shadow refusals in this period." />}
          columns={[
            callerColumn,
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
  if (isShadow && isCandidate) return 'the shadow rule or its candidate'
  return isShadow ? 'the shadow rule' : 'the candidate'
}
