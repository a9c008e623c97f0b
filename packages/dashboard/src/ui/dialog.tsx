/** A modal dialog. */
import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef } from 'preact/hooks'
import { Button } from './button.js'

interface DialogProps {
  readonly title: string
  readonly isOpen: boolean
  readonly onClose: () => void
  readonly children: ComponentChildren
  /** Buttons in the footer, after the Close button. */
  readonly actions?: ComponentChildren
}

/** Uses the native element, which traps the focus, restores it, and closes on Escape. */
export function Dialog({ title, isOpen, onClose, children, actions }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  const id = useId()
  useEffect(() => {
    const element = dialog.current
    if (element === null) return
    if (isOpen && !element.open) element.showModal()
    if (!isOpen && element.open) element.close()
  }, [isOpen])
  return (
    <dialog ref={dialog} class="dialog" aria-labelledby={id} onClose={onClose}>
      {isOpen && (
        <>
          <div class="dialog-head">
            <h2 id={id}>{title}</h2>
          </div>
          <div class="dialog-body">{children}</div>
          <div class="dialog-actions">
            <Button kind="quiet" onClick={onClose}>
              Close
            </Button>
            {actions}
          </div>
        </>
      )}
    </dialog>
  )
}
