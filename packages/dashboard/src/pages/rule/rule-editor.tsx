/** Edits a rule as YAML: validates while typing, previews the change, and detects conflicts. */
import { AdminError, type RuleView } from '@sluice/client'
import { useState } from 'preact/hooks'
import { api, redirectIfLoggedOut } from '../../api.js'
import '../../styles/rule-editor.css'
import { Badge, Button, ErrorNote, Row, TextField } from '../../ui/index.js'
import type { EditAccess } from '../rules/use-rules.js'
import { REASON_LENGTH_MAX, reasonOf } from './change-dialog.js'
import { CodeField } from './code-field.js'
import { Conflict } from './conflict.js'
import { DiffView } from './diff-view.js'
import { validationSummary } from './cursor-place.js'
import { type Validation, useValidation } from './use-validation.js'
import { writeRuleYaml } from '@sluice/core/text'

/** The text of a rule, and its version. */
export interface RuleText {
  readonly text: string
  readonly version: number
}

interface RuleEditorProps {
  /** Undefined: it is a new rule. */
  readonly id?: string | undefined
  readonly original: RuleText
  readonly access: EditAccess
  readonly onSaved: (rule: RuleView) => void
  readonly onCancel?: (() => void) | undefined
}

export function RuleEditor({ id, original, access, onSaved, onCancel }: RuleEditorProps) {
  const [base, setBase] = useState(original)
  const [text, setText] = useState(original.text)
  const isModified = id === undefined || text !== base.text
  // Changes by others are applied automatically while the user has not edited the text.
  if (!isModified && original.version > base.version) {
    setBase(original)
    setText(original.text)
  }
  const isBehind = id !== undefined && original.version > base.version
  const validation = useValidation(text, id, original.version)
  const saving = useSave(id, (rule) => {
    const saved = { text: writeRuleYaml(rule), version: rule.version }
    setBase(saved)
    // The stored form, which has no comments.
    if (id !== undefined) setText(saved.text)
    onSaved(rule)
  })
  const rebase = (theirs: RuleText, keepsOwnText: boolean) => {
    setBase(theirs)
    if (!keepsOwnText) setText(theirs.text)
    saving.clearError()
  }
  return (
    <div class="editor">
      {(isBehind || saving.isConflict) && id !== undefined && (
        <Conflict
          id={id}
          base={base}
          ownText={text}
          onDiscard={(theirs) => rebase(theirs, false)}
          onKeep={(theirs) => rebase(theirs, true)}
        />
      )}
      <div class="editor-columns">
        <CodeField
          label="Rule"
          value={text}
          onInput={setText}
          isDisabled={!access.isAllowed}
          errors={validation.view?.errors ?? []}
          warnings={validation.view?.warnings ?? []}
        />
        <ChangePreview
          validation={validation}
          isModified={isModified}
          isAllowed={access.isAllowed}
        />
      </div>
      {saving.error !== undefined && !saving.isConflict && <ErrorNote error={saving.error} />}
      {access.isAllowed && (
        <SaveForm
          save={id === undefined ? 'Create rule' : 'Save'}
          isBusy={saving.isBusy}
          canSave={isModified && isValid(validation) && !isBehind}
          onSave={(reason) => void saving.save(text, base.version, reason)}
          onUndo={id === undefined ? undefined : () => setText(base.text)}
          canUndo={isModified}
          onCancel={onCancel}
        />
      )}
    </div>
  )
}

/** Creates the rule, or replaces the version that was edited. */
function useSave(id: string | undefined, onSaved: (rule: RuleView) => void) {
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>()
  const save = async (text: string, version: number, reason: string | undefined) => {
    setBusy(true)
    setError(undefined)
    try {
      const rule =
        id === undefined
          ? await api.createRule(text, { why: reason })
          : await api.replaceRule(id, text, { why: reason, ifMatch: version })
      onSaved(rule)
    } catch (failure) {
      if (!redirectIfLoggedOut(failure)) setError(failure)
    } finally {
      setBusy(false)
    }
  }
  const isConflict = error instanceof AdminError && error.code === 'version_conflict'
  return { isBusy, error, isConflict, save, clearError: () => setError(undefined) }
}

interface SaveFormProps {
  readonly save: string
  readonly isBusy: boolean
  readonly canSave: boolean
  readonly canUndo: boolean
  readonly onSave: (reason: string | undefined) => void
  readonly onUndo: (() => void) | undefined
  readonly onCancel: (() => void) | undefined
}

function SaveForm({ save, isBusy, canSave, canUndo, onSave, onUndo, onCancel }: SaveFormProps) {
  const [reason, setReason] = useState('')
  return (
    <div class="editor-foot">
      <TextField
        label="Reason"
        value={reason}
        onInput={(value) => setReason(value.slice(0, REASON_LENGTH_MAX))}
        placeholder="higher limit for partners"
      />
      <Row>
        <Button
          kind="primary"
          isDisabled={!canSave}
          isBusy={isBusy}
          onClick={() => {
            onSave(reasonOf(reason))
            setReason('')
          }}
        >
          {save}
        </Button>
        {onUndo !== undefined && (
          <Button kind="quiet" isDisabled={!canUndo} onClick={onUndo}>
            Discard changes
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

interface ChangePreviewProps {
  readonly validation: Validation
  readonly isModified: boolean
  readonly isAllowed: boolean
}

function ChangePreview({ validation, isModified, isAllowed }: ChangePreviewProps) {
  const diff = validation.isPending ? null : (validation.view?.diff ?? null)
  return (
    <section class="editor-side" aria-label="Changes">
      <ValidationStatus validation={validation} isModified={isModified} />
      {!isModified && isAllowed && (
        <p class="soft small">
          Edit the text to see which fields change and whether counters are kept or reset. Nothing
          changes until you save.
        </p>
      )}
      {diff !== null && isModified && <DiffView diff={diff} />}
    </section>
  )
}

const isValid = ({ isPending, view }: Validation): boolean => !isPending && view?.valid === true

interface ValidationStatusProps {
  readonly validation: Validation
  readonly isModified: boolean
}

/** Announced when the result changes, and not with every key press. */
function ValidationStatus({ validation, isModified }: ValidationStatusProps) {
  const { view, error, isPending } = validation
  const [errors, warnings] = [view?.errors.length ?? 0, view?.warnings.length ?? 0]
  if (error !== undefined) return <ErrorNote error={error} />
  const tone = errors > 0 ? 'refused' : warnings > 0 ? 'degraded' : 'allowed'
  return (
    <div class="verdict">
      <h3>{isModified ? 'Changes' : 'Active version'}</h3>
      <span role="status" aria-live="polite">
        {view === undefined ? (
          <span class="faint small">Checking…</span>
        ) : (
          <Badge tone={tone}>{validationSummary(errors, warnings)}</Badge>
        )}
      </span>
      {isPending && view !== undefined && <span class="spinner" aria-hidden="true" />}
    </div>
  )
}
