/** Buttons that change the mode, promote the candidate or delete the rule, each with a dialog. */
import { AdminError, type RuleStatsView, type RuleView } from '@sluice/client'
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { api } from '../../api.js'
import { count, sum } from '../../format.js'
import { hrefs, navigate } from '../../router.js'
import { Button, CheckField, Link, Note, Text, toast } from '../../ui/index.js'
import { allLimitsText, isRecord } from '@sluice/core/text'
import { ChangeDialog } from './change-dialog.js'
import { promotionOutlook, compareCandidate } from './candidate-comparison.js'

type Mode = 'enforce' | 'shadow' | 'off'
type Action = Mode | 'promote' | 'delete'

interface ActionsProps {
  readonly rule: RuleView
  readonly stats: RuleStatsView | undefined
  readonly onChanged: (rule: RuleView) => void
}

const MODES: readonly { readonly mode: Mode; readonly label: string; readonly effect: string }[] = [
  { mode: 'enforce', label: 'Enforce', effect: 'Requests over the limit will be refused.' },
  {
    mode: 'shadow',
    label: 'Shadow',
    effect: 'The rule keeps counting and refuses no requests.',
  },
  { mode: 'off', label: 'Off', effect: 'The rule is no longer evaluated.' },
]

export function RuleActions({ rule, stats, onChanged }: ActionsProps) {
  const [open, setOpen] = useState<Action>()
  const mode = typeof rule['mode'] === 'string' ? rule['mode'] : 'enforce'
  const close = () => setOpen(undefined)
  return (
    <>
      {MODES.filter((each) => each.mode !== mode).map((each) => (
        <Button key={each.mode} size="small" onClick={() => setOpen(each.mode)}>
          {each.label}
        </Button>
      ))}
      {rule.candidate !== undefined && (
        <Button size="small" kind="primary" onClick={() => setOpen('promote')}>
          Promote candidate
        </Button>
      )}
      <Button size="small" kind="danger" onClick={() => setOpen('delete')}>
        Delete
      </Button>
      {MODES.map((each) => (
        <ChangeDialog
          key={each.mode}
          title={`${each.label}: ${rule.id}`}
          confirm={each.label}
          isOpen={open === each.mode}
          onClose={close}
          run={async (reason) => {
            const change = { why: reason, ifMatch: rule.version }
            onChanged(await api.patchRule(rule.id, { mode: each.mode }, change))
            toast(`${rule.id}: mode is now ${each.mode}`, 'allowed')
          }}
        >
          <p>{each.effect} Counters are kept.</p>
          <ModeOutlook rule={rule.id} mode={each.mode} stats={stats} />
        </ChangeDialog>
      ))}
      <PromoteDialog
        rule={rule}
        stats={stats}
        isOpen={open === 'promote'}
        onClose={close}
        onChanged={onChanged}
      />
      <DeleteDialog rule={rule} isOpen={open === 'delete'} onClose={close} />
    </>
  )
}

/** What the change would have meant in the last ten minutes. */
function ModeOutlook({
  rule,
  mode,
  stats,
}: {
  readonly rule: string
  readonly mode: Mode
  readonly stats: RuleStatsView | undefined
}): ComponentChildren {
  const refused = sum(stats?.series.refused ?? [])
  const shadow = sum(stats?.series.shadowRefused ?? [])
  if (mode === 'enforce' && shadow > 0) {
    return (
      <Note tone="degraded">
        In the last 10 minutes it would have refused {count(shadow)} requests.{' '}
        <Link href={hrefs.callers({ rule, by: 'shadow' })}>View callers</Link>
      </Note>
    )
  }
  if (mode !== 'enforce' && refused > 0) {
    return <Note tone="neutral">In the last 10 minutes it refused {count(refused)} requests.</Note>
  }
  return null
}

interface ActionDialogProps {
  readonly rule: RuleView
  readonly isOpen: boolean
  readonly onClose: () => void
}

export function PromoteDialog(props: ActionDialogProps & ActionsProps) {
  const { rule, stats, isOpen, onClose, onChanged } = props
  const candidate = isRecord(rule.candidate) ? rule.candidate : {}
  const comparison = compareCandidate(stats)
  return (
    <ChangeDialog
      title={`Promote the candidate of ${rule.id}`}
      confirm="Promote"
      isOpen={isOpen}
      onClose={onClose}
      run={async (reason) => {
        onChanged(await api.promoteRule(rule.id, { why: reason, ifMatch: rule.version }))
        toast(`${rule.id}: candidate promoted`, 'allowed')
      }}
    >
      <p>
        <Text value={allLimitsText(candidate)} max={300} mono /> replaces{' '}
        <Text value={allLimitsText(rule)} max={300} mono />. Active counters are kept.
      </p>
      {comparison === undefined ? (
        <Note tone="neutral">No requests since the candidate was added.</Note>
      ) : (
        <Note tone={comparison.wouldRefuse > 0 ? 'degraded' : 'neutral'}>
          {promotionOutlook(comparison, rule['mode'])}{' '}
          {comparison.wouldRefuse > 0 && (
            <Link href={hrefs.callers({ rule: rule.id, by: 'shadow' })}>View callers</Link>
          )}
        </Note>
      )}
    </ChangeDialog>
  )
}

function DeleteDialog({ rule, isOpen, onClose }: ActionDialogProps) {
  const [isLastRule, setLastRule] = useState(false)
  const [isConfirmed, setConfirmed] = useState(false)
  return (
    <ChangeDialog
      title={`Delete ${rule.id}`}
      confirm="Delete"
      isDanger
      isOpen={isOpen}
      isDisabled={isLastRule && !isConfirmed}
      onClose={onClose}
      run={async (reason) => {
        try {
          await api.deleteRule(rule.id, {
            why: reason,
            ifMatch: rule.version,
            confirmLastRule: isConfirmed,
          })
        } catch (error) {
          setLastRule(error instanceof AdminError && error.code === 'confirmation_needed')
          throw error
        }
        toast(`${rule.id} deleted; it can be restored from its history`)
        navigate(hrefs.rules)
      }}
    >
      <p>
        This deletes the rule and its candidate
        {rule.overrideCount > 0 && `, with its ${count(rule.overrideCount)} overrides`}. It can be
        restored from its history.
      </p>
      {isLastRule && (
        <CheckField
          label="This is the last rule: allow every request"
          isChecked={isConfirmed}
          onChange={setConfirmed}
        />
      )}
    </ChangeDialog>
  )
}
