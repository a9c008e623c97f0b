/** Other limits on trial: what they would do, beside those in force. */
import type { RuleStatsView, RuleView } from '@sluice/client'
import { useState } from 'preact/hooks'
import { api } from '../../api.js'
import { count, duration, percent } from '../../format.js'
import { Button, Row, Stack, Table, Text, TextArea, toast } from '../../ui/index.js'
import { isRecord, limitsText, ruleLimitsText } from '../rules/rule-text.js'
import type { Editing } from '../rules/use-rules.js'
import { Promote } from './actions.js'
import { ChangeDialog } from './change-dialog.js'
import { readLimits, writeLimits } from './read-limits.js'
import { isBeside, trialOf, UNTOLD } from './trial.js'

interface CandidateTabProps {
  readonly rule: RuleView
  readonly stats: RuleStatsView | undefined
  readonly editing: Editing
  readonly onChanged: (rule: RuleView) => void
}

type Action = 'set' | 'remove' | 'promote'

export function CandidateTab(props: CandidateTabProps) {
  const { rule, stats, editing } = props
  const candidate = isRecord(rule.candidate) ? rule.candidate : undefined
  const [text, setText] = useState(writeLimits(candidate?.['limits'] ?? rule['limits']))
  const [isTried, setTried] = useState(false)
  const [open, setOpen] = useState<Action>()
  const { limits, problem } = readLimits(text)
  const tiers = candidate?.['tiers']
  return (
    <Stack>
      <p class="soft">
        A candidate is counted and judged beside the limits in force, and never refuses anybody.
      </p>
      {candidate !== undefined && <Compared rule={rule} candidate={candidate} stats={stats} />}
      {editing.isAllowed && (
        <>
          <TextArea
            label={candidate === undefined ? 'Limits to try' : 'Other limits to try'}
            value={text}
            onInput={(value) => {
              setText(value)
              setTried(false)
            }}
            rows={3}
            mono
            hint={
              tiers === undefined
                ? 'One on each line, such as 5/second. Tiers are set in the text of the rule.'
                : 'One on each line. Its tiers stay as they are.'
            }
            error={isTried ? problem : undefined}
          />
          <Row>
            <Button
              kind={candidate === undefined ? 'primary' : 'plain'}
              onClick={() => {
                setTried(true)
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
          <Dialogs {...props} limits={limits} open={open} onClose={() => setOpen(undefined)} />
        </>
      )}
    </Stack>
  )
}

interface DialogsProps extends Omit<CandidateTabProps, 'editing'> {
  readonly limits: readonly unknown[]
  readonly open: Action | undefined
  readonly onClose: () => void
}

function Dialogs({ rule, stats, onChanged, limits, open, onClose: close }: DialogsProps) {
  const tiers = isRecord(rule.candidate) ? rule.candidate['tiers'] : undefined
  const told = { ifMatch: rule.version }
  return (
    <>
      <ChangeDialog
        title={`Try other limits for ${rule.id}`}
        confirm="Try them"
        isOpen={open === 'set'}
        onClose={close}
        run={async (why) => {
          const input = tiers === undefined ? { limits } : { limits, tiers }
          onChanged(await api.putCandidate(rule.id, input, { ...told, why }))
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
          onChanged(await api.deleteCandidate(rule.id, { ...told, why }))
          toast('The candidate is gone')
        }}
      >
        <p>Its counters end. The limits in force stay as they are.</p>
      </ChangeDialog>
      <Promote
        rule={rule}
        stats={stats}
        isOpen={open === 'promote'}
        onClose={close}
        onChanged={onChanged}
      />
    </>
  )
}

interface ComparedProps {
  readonly rule: RuleView
  readonly candidate: Readonly<Record<string, unknown>>
  readonly stats: RuleStatsView | undefined
}

interface Side {
  readonly name: string
  readonly limits: string
  readonly refused: number
  readonly all: number
  /** Beside what is refused already. */
  readonly isMore?: boolean
}

/** The two side by side, over the same time. */
function Compared({ rule, candidate, stats }: ComparedProps) {
  const trial = trialOf(stats)
  const { allowed = 0, refused = 0, shadowRefused = 0, asked = 0, would = 0 } = trial ?? {}
  const isMore = trial !== undefined && isBeside(trial, rule['mode'])
  const sides: readonly Side[] = [
    {
      name: 'In force',
      limits: ruleLimitsText(rule),
      refused: refused + shadowRefused,
      all: allowed + refused,
    },
    {
      name: 'Candidate',
      limits: ruleLimitsText(candidate),
      refused: would,
      // It is asked only about calls that are let through now: all of them where nothing refuses.
      all: asked,
      isMore,
    },
  ]
  return (
    <Stack>
      <p class="soft small">
        {trial === undefined
          ? 'No call was seen since it is on trial.'
          : `Both over the last ${duration(trial.spanMs)}.`}{' '}
        {isMore && refused > 0 && UNTOLD}
      </p>
      <Sides sides={sides} />
    </Stack>
  )
}

function Sides({ sides }: { readonly sides: readonly Side[] }) {
  return (
    <Table
      caption="The limits in force and the candidate, over the same time"
      rows={sides}
      rowKey={({ name }) => name}
      columns={[
        { head: 'Limits', isMain: true, cell: ({ name }) => <b>{name}</b> },
        { head: 'Text', cell: ({ limits }) => <Text value={limits} max={120} mono /> },
        {
          head: 'Refused',
          isNumber: true,
          cell: ({ refused: number, isMore }) =>
            isMore === true ? `${count(number)} more would be` : count(number),
        },
        {
          head: 'Share',
          isNumber: true,
          cell: ({ refused: number, all, isMore }) => {
            if (all === 0) return '–'
            return `${percent(number / all)} of ${isMore === true ? 'what passes' : 'all'}`
          },
        },
      ]}
    />
  )
}
