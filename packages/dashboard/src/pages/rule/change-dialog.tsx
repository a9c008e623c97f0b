/** A dialog that confirms a change and asks for its reason. */
import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { redirectIfLoggedOut } from '../../api.js'
import { Button, Dialog, ErrorNote, TextField } from '../../ui/index.js'

/** Characters that the history stores. */
export const REASON_LENGTH_MAX = 500

interface ChangeDialogProps {
  readonly title: string
  readonly confirm: string
  readonly isDanger?: boolean | undefined
  readonly isOpen: boolean
  /** Set while the effect is unknown, or if there is none. */
  readonly isDisabled?: boolean | undefined
  readonly onClose: () => void
  /** Applies the change. If it rejects, the error is shown and the dialog stays open. */
  readonly run: (reason: string | undefined) => Promise<void>
  readonly children: ComponentChildren
}

export function ChangeDialog(props: ChangeDialogProps) {
  const { title, confirm, isDanger = false, isOpen, onClose, run, children } = props
  const [reason, setReason] = useState('')
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>()
  useEffect(() => {
    if (!isOpen) return
    setReason('')
    setError(undefined)
  }, [isOpen])
  const submit = async () => {
    setBusy(true)
    setError(undefined)
    try {
      await run(reasonOf(reason))
      onClose()
    } catch (failure) {
      if (!redirectIfLoggedOut(failure)) setError(failure)
    } finally {
      setBusy(false)
    }
  }
  return (
    <Dialog
      title={title}
      isOpen={isOpen}
      onClose={onClose}
      actions={
        <Button
          kind={isDanger ? 'danger' : 'primary'}
          isBusy={isBusy}
          isDisabled={props.isDisabled}
          onClick={() => void submit()}
        >
          {confirm}
        </Button>
      }
    >
      {children}
      <TextField
        label="Reason"
        value={reason}
        onInput={(value) => setReason(value.slice(0, REASON_LENGTH_MAX))}
        placeholder="incident 42"
        hint="Stored in the history with your name."
      />
      {error !== undefined && <ErrorNote error={error} />}
    </Dialog>
  )
}

/** The trimmed reason; undefined if it is empty. */
export const reasonOf = (text: string): string | undefined => text.trim() || undefined
