/** The candidate of a rule: its limits, compared with the active ones. */
import type { RuleStatsView, RuleView } from '@sluice/client'
import { useState } from 'preact/hooks'
import { api } from '../../api.js'
import { count, duration, percent } from '../../format.js'
import { Button, Row, Stack, Table, Text, TextArea, toast } from '../../ui/index.js'
import { isRecord, limitsText, ruleLimitsText } from '@sluice/core/text'
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
        A candidate is counted and evaluated alongside the active limits. It never refuses a
        request.
      </p>
      {candidate !== undefined && (
        <ComparisonSection rule={rule} candidate={candidate} stats={stats} />
      )}
      {access.isAllowed && (
        <>
          <TextArea
            label={candidate === undefined ? 'Candidate limits' : 'New candidate limits'}
            value={text}
            onInput={(value) => {
              setText(value)
              setSubmitted(false)
            }}
            rows={3}
            mono
            hint={
              tiers === undefined
                ? 'One per line, such as 5/second. Tiers are set in the YAML of the rule.'
                : 'One per line. Tiers do not change.'
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
              {candidate === undefined ? 'Add candidate' : 'Replace candidate'}
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
        title={`Add a candidate to ${rule.id}`}
        confirm="Add candidate"
        isOpen={open === 'set'}
        onClose={close}
        run={async (why) => {
          const input = tiers === undefined ? { limits } : { limits, tiers }
          onChanged(await api.putCandidate(rule.id, input, { ...change, why }))
          toast('Candidate added', 'shadow')
        }}
      >
        <p>
          <Text value={limitsText(limits)} max={300} mono /> will be counted in shadow. No request
          is refused by a candidate.
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
          toast('Candidate removed')
        }}
      >
        <p>Its counters are deleted. The active limits do not change.</p>
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
  /** Whether `refused` comes on top of what the active limits refuse. */
  readonly isAdditional?: boolean
}

/** The active limits and the candidate over the same time. */
function ComparisonSection({ rule, candidate, stats }: ComparisonSectionProps) {
  const comparison = compareCandidate(stats)
  const {
    allowed = 0,
    refused = 0,
    shadowRefused = 0,
    evaluated = 0,
    wouldRefuse = 0,
  } = comparison ?? {}
  const isAdditional = comparison !== undefined && addsRefusals(comparison, rule['mode'])
  const rows: readonly ComparisonRow[] = [
    {
      name: 'Active',
      limits: ruleLimitsText(rule),
      refused: refused + shadowRefused,
      total: allowed + refused + shadowRefused,
    },
    {
      name: 'Candidate',
      limits: ruleLimitsText(candidate),
      refused: wouldRefuse,
      // A candidate only evaluates calls that the active limits allow.
      total: evaluated,
      isAdditional,
    },
  ]
  return (
    <Stack>
      <p class="soft small">
        {comparison === undefined
          ? 'No requests since the candidate was added.'
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
      caption="Active limits and candidate, over the same time"
      rows={rows}
      rowKey={({ name }) => name}
      columns={[
        { head: 'Limits', isMain: true, cell: ({ name }) => <b>{name}</b> },
        { head: 'Definition', cell: ({ limits }) => <Text value={limits} max={120} mono /> },
        {
          head: 'Refused',
          isNumber: true,
          cell: ({ refused: number, isAdditional }) =>
            isAdditional === true ? `${count(number)} more` : count(number),
        },
        {
          head: 'Share',
          isNumber: true,
          cell: ({ refused: number, total, isAdditional }) => {
            if (total === 0) return '–'
            return `${percent(number / total)} of ${isAdditional === true ? 'allowed' : 'requests'}`
          },
        },
      ]}
    />
  )
}
