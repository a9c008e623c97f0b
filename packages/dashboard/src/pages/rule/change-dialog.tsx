/** A change that is confirmed, and told why. */
import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { redirectIfLoggedOut } from '../../api.js'
import { Button, Dialog, ErrorNote, TextField } from '../../ui/index.js'

/** As many characters as the history keeps. */
export const REASON_LENGTH_MAX = 500

interface ChangeDialogProps {
  readonly title: string
  readonly confirm: string
  readonly isDanger?: boolean | undefined
  readonly isOpen: boolean
  /** While what it would do is not known, or nothing would be done. */
  readonly isDisabled?: boolean | undefined
  readonly onClose: () => void
  /** Resolves once it is done; what it rejects with is shown, and the dialog stays. */
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
        label="Why"
        value={reason}
        onInput={(value) => setReason(value.slice(0, REASON_LENGTH_MAX))}
        placeholder="incident 42"
        hint="Kept in the history, with your name."
      />
      {error !== undefined && <ErrorNote error={error} />}
    </Dialog>
  )
}

/** Blanks are no reason. */
export const reasonOf = (text: string): string | undefined => text.trim() || undefined
