/** Overrides: limits for single callers. */
import type { OverrideView, RuleView } from '@sluice/client'
import { useEffect, useRef, useState } from 'preact/hooks'
import { api, useResource } from '../../api.js'
import { dateTime } from '../../format.js'
import { rulesVersion } from '../../live.js'
import {
  Button,
  Caller,
  CheckField,
  Empty,
  ErrorNote,
  Loading,
  Stack,
  Table,
  Text,
  TextArea,
  TextField,
  toast,
} from '../../ui/index.js'
import { callerText, countedAttributes, limitsText } from '@sluice/core/text'
import type { EditAccess } from '../rules/use-rules.js'
import { ChangeDialog } from './change-dialog.js'
import { localTimeToIso, parseLimits } from './parse-limits.js'

const PAGE_LENGTH = 100

interface OverridesTabProps {
  readonly rule: RuleView
  readonly access: EditAccess
  /** The caller of an override link from another page. */
  readonly prefill: Readonly<Record<string, string>>
}

export function OverridesTab({ rule, access, prefill }: OverridesTabProps) {
  /** Cursor of each visited page; the last one is shown. */
  const [pageCursors, setPageCursors] = useState<readonly (string | undefined)[]>([undefined])
  const page = useResource(
    () => api.listOverrides(rule.id, { limit: PAGE_LENGTH, after: pageCursors.at(-1) }),
    [rule.id, pageCursors, rulesVersion.value],
  )
  const [removal, setRemoval] = useState<OverrideView>()
  const next = page.value?.next ?? undefined
  return (
    <Stack>
      {access.isAllowed && <OverrideForm rule={rule} prefill={prefill} onAdded={page.reload} />}
      {page.error !== undefined && <ErrorNote error={page.error} onRetry={page.reload} />}
      {page.value === undefined && page.error === undefined && <Loading what="Loading overrides" />}
      {page.value !== undefined && (
        <OverrideList
          rule={rule}
          overrides={page.value.overrides}
          onRemove={access.isAllowed ? setRemoval : undefined}
        />
      )}
      {(next !== undefined || pageCursors.length > 1) && (
        <div class="row">
          <Button
            size="small"
            isDisabled={pageCursors.length < 2}
            onClick={() => setPageCursors(pageCursors.slice(0, -1))}
          >
            Previous
          </Button>
          <Button
            size="small"
            isDisabled={next === undefined}
            onClick={() => setPageCursors([...pageCursors, next])}
          >
            Next
          </Button>
        </div>
      )}
      <ChangeDialog
        title="Remove override"
        confirm="Remove"
        isDanger
        isOpen={removal !== undefined}
        onClose={() => setRemoval(undefined)}
        run={async (reason) => {
          if (removal === undefined) return
          await api.deleteOverride(rule.id, removal.id, { why: reason, ifMatch: removal.version })
          toast(`Override for ${callerText(removal.caller)} removed`)
          page.reload()
        }}
      >
        <p>
          <Caller attributes={removal?.caller ?? {}} /> will have the limits of the rule or its
          tier.
        </p>
      </ChangeDialog>
    </Stack>
  )
}

interface OverrideListProps {
  readonly rule: RuleView
  readonly overrides: readonly OverrideView[]
  /** Undefined: overrides are read-only here. */
  readonly onRemove: ((override: OverrideView) => void) | undefined
}

function OverrideList({ rule, overrides, onRemove }: OverrideListProps) {
  return (
    <Table
      caption={`Overrides of ${rule.id}`}
      rows={overrides}
      rowKey={({ id }) => id}
      empty={
        <Empty title="No overrides">Every caller has the limits of the rule or its tier.</Empty>
      }
      columns={[
        { head: 'Caller', isMain: true, cell: ({ caller }) => <Caller attributes={caller} /> },
        {
          head: 'Limits',
          cell: ({ limits }) => <Text value={limitsText(limits)} max={120} mono />,
        },
        {
          head: 'Until',
          cell: ({ until }) => (until === undefined ? 'until removed' : dateTime(until)),
        },
        {
          head: 'Actions',
          isHeadHidden: true,
          cell: (each) =>
            onRemove !== undefined && (
              <Button size="small" kind="quiet" onClick={() => onRemove(each)}>
                Remove
              </Button>
            ),
        },
      ]}
    />
  )
}

interface OverrideFormProps {
  readonly rule: RuleView
  readonly prefill: Readonly<Record<string, string>>
  readonly onAdded: () => void
}

function OverrideForm({ rule, prefill, onAdded }: OverrideFormProps) {
  const by = countedAttributes(rule['by'])
  const [caller, setCaller] = useState(prefill)
  const [text, setText] = useState('')
  const [isUnlimited, setUnlimited] = useState(false)
  const [until, setUntil] = useState('')
  const [isSubmitted, setSubmitted] = useState(false)
  const [isOpen, setOpen] = useState(false)
  const parsed = isUnlimited ? { limits: [], problem: undefined } : parseLimits(text)
  const missing = by.filter((name) => valueOf(caller, name) === '')
  const fullCaller = Object.fromEntries(by.map((name) => [name, valueOf(caller, name)]))
  const form = useRef<HTMLFormElement>(null)
  // With a caller filled in, the limits are the next field.
  useEffect(() => {
    if (Object.keys(prefill).length > 0) form.current?.querySelector('textarea')?.focus()
  }, [])
  const submit = (event: Event) => {
    event.preventDefault()
    setSubmitted(true)
    if (missing.length === 0 && parsed.problem === undefined) setOpen(true)
  }
  return (
    <form ref={form} class="override-form" onSubmit={submit} aria-label="Add an override">
      <CallerFields
        by={by}
        caller={caller}
        missing={isSubmitted ? missing : []}
        onChange={setCaller}
      />
      <TextArea
        label="Limits, one per line"
        value={text}
        onInput={setText}
        rows={2}
        mono
        placeholder="100/second"
        isDisabled={isUnlimited}
        error={isSubmitted ? parsed.problem : undefined}
      />
      <TextField
        label="Until"
        type="datetime-local"
        value={until}
        onInput={setUntil}
        hint="In your time zone. Empty: until removed."
      />
      <div class="override-foot">
        <CheckField label="Unlimited" isChecked={isUnlimited} onChange={setUnlimited} />
        <Button type="submit" kind="primary">
          Add override{' '}
        </Button>
      </div>
      <AddOverrideDialog
        rule={rule}
        caller={fullCaller}
        limits={parsed.limits}
        until={localTimeToIso(until)}
        isOpen={isOpen}
        onClose={() => setOpen(false)}
        onDone={() => {
          setCaller({})
          setText('')
          setSubmitted(false)
          onAdded()
        }}
      />
    </form>
  )
}

interface CallerFieldsProps {
  readonly by: readonly string[]
  readonly caller: Readonly<Record<string, string>>
  readonly missing: readonly string[]
  readonly onChange: (caller: Readonly<Record<string, string>>) => void
}

/** One field for each attribute that the rule counts by. */
function CallerFields({ by, caller, missing, onChange }: CallerFieldsProps) {
  return (
    <>
      {by.map((name) => (
        <TextField
          key={name}
          label={name}
          value={valueOf(caller, name)}
          onInput={(value) => onChange({ ...caller, [name]: value })}
          mono
          hint={name === 'ip' ? 'An address, or a network such as 203.0.113.0/24' : undefined}
          error={missing.includes(name) ? 'Required' : undefined}
        />
      ))}
    </>
  )
}

interface AddOverrideDialogProps {
  readonly rule: RuleView
  readonly caller: Readonly<Record<string, string>>
  readonly limits: readonly unknown[]
  readonly until: string | undefined
  readonly isOpen: boolean
  readonly onClose: () => void
  readonly onDone: () => void
}

function AddOverrideDialog({
  rule,
  caller,
  limits,
  until,
  isOpen,
  onClose,
  onDone: onGiven,
}: AddOverrideDialogProps) {
  return (
    <ChangeDialog
      title="Add override"
      confirm="Add override"
      isOpen={isOpen}
      onClose={onClose}
      run={async (reason) => {
        const input = { caller, limits, ...(until !== undefined && { until }) }
        await api.addOverride(rule.id, input, { why: reason })
        toast(`Override for ${callerText(caller)} added`, 'allowed')
        onGiven()
      }}
    >
      <p>
        <Caller attributes={caller} /> has <Text value={limitsText(limits)} max={200} mono />{' '}
        {until === undefined ? 'until removed' : `until ${dateTime(until)}`}.
      </p>
    </ChangeDialog>
  )
}

/** Own properties only: an attribute may be called `constructor`. */
function valueOf(caller: Readonly<Record<string, string>>, name: string): string {
  return Object.hasOwn(caller, name) ? (caller[name] ?? '') : ''
}
