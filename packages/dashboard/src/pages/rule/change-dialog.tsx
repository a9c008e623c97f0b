/** A change that is confirmed, and told why. */
import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { leaveIfOut } from '../../api.js'
import { Button, Dialog, ErrorNote, TextField } from '../../ui/index.js'

/** As many characters as the history keeps. */
export const WHY_LENGTH_MAX = 500

interface ChangeDialogProps {
  readonly title: string
  readonly confirm: string
  readonly isDanger?: boolean | undefined
  readonly isOpen: boolean
  /** While what it would do is not known, or nothing would be done. */
  readonly isDisabled?: boolean | undefined
  readonly onClose: () => void
  /** Resolves once it is done; what it rejects with is shown, and the dialog stays. */
  readonly run: (why: string | undefined) => Promise<void>
  readonly children: ComponentChildren
}

export function ChangeDialog(props: ChangeDialogProps) {
  const { title, confirm, isDanger = false, isOpen, onClose, run, children } = props
  const [why, setWhy] = useState('')
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>()
  useEffect(() => {
    if (!isOpen) return
    setWhy('')
    setError(undefined)
  }, [isOpen])
  const go = async () => {
    setBusy(true)
    setError(undefined)
    try {
      await run(whyOf(why))
      onClose()
    } catch (failure) {
      if (!leaveIfOut(failure)) setError(failure)
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
          onClick={() => void go()}
        >
          {confirm}
        </Button>
      }
    >
      {children}
      <TextField
        label="Why"
        value={why}
        onInput={(value) => setWhy(value.slice(0, WHY_LENGTH_MAX))}
        placeholder="incident 42"
        hint="Kept in the history, with your name."
      />
      {error !== undefined && <ErrorNote error={error} />}
    </Dialog>
  )
}

/** Blanks are no reason. */
export const whyOf = (text: string): string | undefined => text.trim() || undefined
