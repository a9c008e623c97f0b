/** Other limits on trial: what they would do, beside those in force. */
import type { RuleStatsView, RuleView } from '@sluice/client'
import { useState } from 'preact/hooks'
import { api } from '../../api.js'
import { count, duration, percent } from '../../format.js'
import { Button, Row, Stack, Table, Text, TextArea, toast } from '../../ui/index.js'
import { isRecord, limitsText, ruleLimitsText } from '../rules/rule-text.js'
import type { EditAccess } from '../rules/use-rules.js'
import { PromoteDialog } from './actions.js'
import { ChangeDialog } from './change-dialog.js'
import { parseLimits, writeLimits } from './parse-limits.js'
import { addsRefusals, compareCandidate, CANDIDATE_BLIND_SPOT } from './candidate-comparison.js'

interface CandidateTabProps {
  readonly rule: RuleView
  readonly stats: RuleStatsView | undefined
  readonly access: EditAccess
  readonly onChanged: (rule: RuleView) => void
}

type Action = 'set' | 'remove' | 'promote'

export function CandidateTab(props: CandidateTabProps) {
  const { rule, stats, access } = props
  const candidate = isRecord(rule.candidate) ? rule.candidate : undefined
  const [text, setText] = useState(writeLimits(candidate?.['limits'] ?? rule['limits']))
  const [isSubmitted, setSubmitted] = useState(false)
  const [open, setOpen] = useState<Action>()
  const { limits, problem } = parseLimits(text)
  const tiers = candidate?.['tiers']
  return (
    <Stack>
      <p class="soft">
        A candidate is counted and judged beside the limits in force, and never refuses anybody.
      </p>
      {candidate !== undefined && (
        <ComparisonSection rule={rule} candidate={candidate} stats={stats} />
      )}
      {access.isAllowed && (
        <>
          <TextArea
            label={candidate === undefined ? 'Limits to try' : 'Other limits to try'}
            value={text}
            onInput={(value) => {
              setText(value)
              setSubmitted(false)
            }}
            rows={3}
            mono
            hint={
              tiers === undefined
                ? 'One on each line, such as 5/second. Tiers are set in the text of the rule.'
                : 'One on each line. Its tiers stay as they are.'
            }
            error={isSubmitted ? problem : undefined}
          />
          <Row>
            <Button
              kind={candidate === undefined ? 'primary' : 'plain'}
              onClick={() => {
                setSubmitted(true)
                if (problem === undefined) setOpen('set')
              }}
            >
              {candidate === undefined ? 'Try these limits' : 'Try these instead'}
            </Button>
            {candidate !== undefined && (
              <>
                <Button kind="primary" onClick={() => setOpen('promote')}>
                  Promote
                </Button>
                <Button kind="danger" onClick={() => setOpen('remove')}>
                  Remove candidate
                </Button>
              </>
            )}
          </Row>
          <CandidateDialogs
            {...props}
            limits={limits}
            open={open}
            onClose={() => setOpen(undefined)}
          />
        </>
      )}
    </Stack>
  )
}

interface CandidateDialogsProps extends Omit<CandidateTabProps, 'editing'> {
  readonly limits: readonly unknown[]
  readonly open: Action | undefined
  readonly onClose: () => void
}

function CandidateDialogs({
  rule,
  stats,
  onChanged,
  limits,
  open,
  onClose: close,
}: CandidateDialogsProps) {
  const tiers = isRecord(rule.candidate) ? rule.candidate['tiers'] : undefined
  const change = { ifMatch: rule.version }
  return (
    <>
      <ChangeDialog
        title={`Try other limits for ${rule.id}`}
        confirm="Try them"
        isOpen={open === 'set'}
        onClose={close}
        run={async (why) => {
          const input = tiers === undefined ? { limits } : { limits, tiers }
          onChanged(await api.putCandidate(rule.id, input, { ...change, why }))
          toast('The candidate is on trial', 'shadow')
        }}
      >
        <p>
          <Text value={limitsText(limits)} max={300} mono /> are counted in shadow from now on.
          Nobody is refused by them.
        </p>
      </ChangeDialog>
      <ChangeDialog
        title={`Remove the candidate of ${rule.id}`}
        confirm="Remove candidate"
        isDanger
        isOpen={open === 'remove'}
        onClose={close}
        run={async (why) => {
          onChanged(await api.deleteCandidate(rule.id, { ...change, why }))
          toast('The candidate is gone')
        }}
      >
        <p>Its counters end. The limits in force stay as they are.</p>
      </ChangeDialog>
      <PromoteDialog
        rule={rule}
        stats={stats}
        isOpen={open === 'promote'}
        onClose={close}
        onChanged={onChanged}
      />
    </>
  )
}

interface ComparisonSectionProps {
  readonly rule: RuleView
  readonly candidate: Readonly<Record<string, unknown>>
  readonly stats: RuleStatsView | undefined
}

interface ComparisonRow {
  readonly name: string
  readonly limits: string
  readonly refused: number
  readonly total: number
  /** Beside what is refused already. */
  readonly isAdditional?: boolean
}

/** The two side by side, over the same time. */
function ComparisonSection({ rule, candidate, stats }: ComparisonSectionProps) {
  const comparison = compareCandidate(stats)
  const {
    allowed = 0,
    refused = 0,
    shadowRefused = 0,
    evaluated: asked = 0,
    wouldRefuse: would = 0,
  } = comparison ?? {}
  const isAdditional = comparison !== undefined && addsRefusals(comparison, rule['mode'])
  const rows: readonly ComparisonRow[] = [
    {
      name: 'In force',
      limits: ruleLimitsText(rule),
      refused: refused + shadowRefused,
      total: allowed + refused,
    },
    {
      name: 'Candidate',
      limits: ruleLimitsText(candidate),
      refused: would,
      // It is asked only about calls that are let through now: all of them where nothing refuses.
      total: asked,
      isAdditional,
    },
  ]
  return (
    <Stack>
      <p class="soft small">
        {comparison === undefined
          ? 'No call was seen since it is on trial.'
          : `Both over the last ${duration(comparison.spanMs)}.`}{' '}
        {isAdditional && refused > 0 && CANDIDATE_BLIND_SPOT}
      </p>
      <ComparisonTable rows={rows} />
    </Stack>
  )
}

function ComparisonTable({ rows }: { readonly rows: readonly ComparisonRow[] }) {
  return (
    <Table
      caption="The limits in force and the candidate, over the same time"
      rows={rows}
      rowKey={({ name }) => name}
      columns={[
        { head: 'Limits', isMain: true, cell: ({ name }) => <b>{name}</b> },
        { head: 'Text', cell: ({ limits }) => <Text value={limits} max={120} mono /> },
        {
          head: 'Refused',
          isNumber: true,
          cell: ({ refused: number, isAdditional }) =>
            isAdditional === true ? `${count(number)} more would be` : count(number),
        },
        {
          head: 'Share',
          isNumber: true,
          cell: ({ refused: number, total, isAdditional }) => {
            if (total === 0) return '–'
            return `${percent(number / total)} of ${isAdditional === true ? 'what passes' : 'all'}`
          },
        },
      ]}
    />
  )
}
