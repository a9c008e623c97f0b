/** A rule as text: checked while it is typed, told what it changes, saved over what was seen. */
import { AdminError, type RuleView } from '@sluice/client'
import { useState } from 'preact/hooks'
import { api, leaveIfOut } from '../../api.js'
import '../../styles/rule-editor.css'
import { Badge, Button, ErrorNote, Row, TextField } from '../../ui/index.js'
import type { Editing } from '../rules/use-rules.js'
import { WHY_LENGTH_MAX, whyOf } from './change-dialog.js'
import { CodeField } from './code-field.js'
import { Conflict } from './conflict.js'
import { DiffView } from './diff-view.js'
import { verdictOf } from './place.js'
import { type Checked, useChecked } from './use-checked.js'
import { writeRule } from './yaml.js'

/** What is edited, and the version it was read at. */
export interface Original {
  readonly text: string
  readonly version: number
}

interface RuleEditorProps {
  /** Undefined: it is a new rule. */
  readonly id?: string | undefined
  readonly original: Original
  readonly editing: Editing
  readonly onSaved: (rule: RuleView) => void
  readonly onCancel?: (() => void) | undefined
}

export function RuleEditor({ id, original, editing, onSaved, onCancel }: RuleEditorProps) {
  const [base, setBase] = useState(original)
  const [text, setText] = useState(original.text)
  const isTouched = id === undefined || text !== base.text
  // Somebody else's change comes in by itself where there is nothing of one's own to lose.
  if (!isTouched && original.version > base.version) {
    setBase(original)
    setText(original.text)
  }
  const isBehind = id !== undefined && original.version > base.version
  const checked = useChecked(text, id, original.version)
  const saving = useSaving(id, (rule) => {
    const saved = { text: writeRule(rule), version: rule.version }
    setBase(saved)
    // As it is kept: comments and the like are not.
    if (id !== undefined) setText(saved.text)
    onSaved(rule)
  })
  const take = (theirs: Original, isKept: boolean) => {
    setBase(theirs)
    if (!isKept) setText(theirs.text)
    saving.forget()
  }
  return (
    <div class="editor">
      {(isBehind || saving.isConflict) && id !== undefined && (
        <Conflict
          id={id}
          base={base}
          mine={text}
          onReload={(theirs) => take(theirs, false)}
          onKeep={(theirs) => take(theirs, true)}
        />
      )}
      <div class="editor-columns">
        <CodeField
          label="Rule"
          value={text}
          onInput={setText}
          isDisabled={!editing.isAllowed}
          errors={checked.view?.errors ?? []}
          warnings={checked.view?.warnings ?? []}
        />
        <Side checked={checked} isTouched={isTouched} isAllowed={editing.isAllowed} />
      </div>
      {saving.error !== undefined && !saving.isConflict && <ErrorNote error={saving.error} />}
      {editing.isAllowed && (
        <Foot
          save={id === undefined ? 'Create rule' : 'Save'}
          isBusy={saving.isBusy}
          canSave={isTouched && isGood(checked) && !isBehind}
          onSave={(why) => void saving.save(text, base.version, why)}
          onUndo={id === undefined ? undefined : () => setText(base.text)}
          canUndo={isTouched}
          onCancel={onCancel}
        />
      )}
    </div>
  )
}

/** Sends the text, as a new rule or over the version that was seen. */
function useSaving(id: string | undefined, onSaved: (rule: RuleView) => void) {
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>()
  const save = async (text: string, version: number, why: string | undefined) => {
    setBusy(true)
    setError(undefined)
    try {
      const rule =
        id === undefined
          ? await api.createRule(text, { why })
          : await api.replaceRule(id, text, { why, ifMatch: version })
      onSaved(rule)
    } catch (failure) {
      if (!leaveIfOut(failure)) setError(failure)
    } finally {
      setBusy(false)
    }
  }
  const isConflict = error instanceof AdminError && error.code === 'version_conflict'
  return { isBusy, error, isConflict, save, forget: () => setError(undefined) }
}

interface FootProps {
  readonly save: string
  readonly isBusy: boolean
  readonly canSave: boolean
  readonly canUndo: boolean
  readonly onSave: (why: string | undefined) => void
  readonly onUndo: (() => void) | undefined
  readonly onCancel: (() => void) | undefined
}

function Foot({ save, isBusy, canSave, canUndo, onSave, onUndo, onCancel }: FootProps) {
  const [why, setWhy] = useState('')
  return (
    <div class="editor-foot">
      <TextField
        label="Why"
        value={why}
        onInput={(value) => setWhy(value.slice(0, WHY_LENGTH_MAX))}
        placeholder="more room for partners"
      />
      <Row>
        <Button
          kind="primary"
          isDisabled={!canSave}
          isBusy={isBusy}
          onClick={() => {
            onSave(whyOf(why))
            setWhy('')
          }}
        >
          {save}
        </Button>
        {onUndo !== undefined && (
          <Button kind="quiet" isDisabled={!canUndo} onClick={onUndo}>
            Undo all
          </Button>
        )}
        {onCancel !== undefined && (
          <Button kind="quiet" onClick={onCancel}>
            Cancel
          </Button>
        )}
      </Row>
    </div>
  )
}

interface SideProps {
  readonly checked: Checked
  readonly isTouched: boolean
  readonly isAllowed: boolean
}

function Side({ checked, isTouched, isAllowed }: SideProps) {
  const diff = checked.isPending ? null : (checked.view?.diff ?? null)
  return (
    <section class="editor-side" aria-label="What it would change">
      <Verdict checked={checked} isTouched={isTouched} />
      {!isTouched && isAllowed && (
        <p class="soft small">
          Change the text, and see here which fields become another and whether counters go on or
          start anew. Nothing happens before you save.
        </p>
      )}
      {diff !== null && isTouched && <DiffView diff={diff} />}
    </section>
  )
}

const isGood = ({ isPending, view }: Checked): boolean => !isPending && view?.valid === true

interface VerdictProps {
  readonly checked: Checked
  readonly isTouched: boolean
}

/** Said aloud when it changes, and not with every key. */
function Verdict({ checked, isTouched }: VerdictProps) {
  const { view, error, isPending } = checked
  const [errors, warnings] = [view?.errors.length ?? 0, view?.warnings.length ?? 0]
  if (error !== undefined) return <ErrorNote error={error} />
  const tone = errors > 0 ? 'refused' : warnings > 0 ? 'degraded' : 'allowed'
  return (
    <div class="verdict">
      <h3>{isTouched ? 'What it would change' : 'As it is in force'}</h3>
      <span role="status" aria-live="polite">
        {view === undefined ? (
          <span class="faint small">Checking…</span>
        ) : (
          <Badge tone={tone}>{verdictOf(errors, warnings)}</Badge>
        )}
      </span>
      {isPending && view !== undefined && <span class="spinner" aria-hidden="true" />}
    </div>
  )
}
