/** Buttons and links. */
import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { navigate } from '../router.js'
import { classes } from './tone.js'

type Kind = 'primary' | 'plain' | 'quiet' | 'danger'

interface ButtonProps {
  readonly children: ComponentChildren
  readonly onClick?: (() => void) | undefined
  readonly kind?: Kind | undefined
  readonly size?: 'small' | undefined
  readonly type?: 'button' | 'submit' | undefined
  readonly isDisabled?: boolean | undefined
  /** Disables the button while a request is running, so that it is not sent twice. */
  readonly isBusy?: boolean | undefined
  /** Accessible name, where the visible content is not enough. */
  readonly label?: string | undefined
}

export function Button(props: ButtonProps) {
  const { children, onClick, kind = 'plain', size, type = 'button', isBusy = false } = props
  return (
    <button
      class={classes('button', `button-${kind}`, size === 'small' && 'button-small')}
      type={type}
      onClick={onClick}
      disabled={props.isDisabled === true || isBusy}
      aria-busy={isBusy}
      aria-label={props.label}
    >
      {isBusy && <span class="spinner" aria-hidden="true" />}
      {children}
    </button>
  )
}

/** Whether a click should navigate in this tab, and not open a new one. */
const isPlainClick = (event: MouseEvent): boolean =>
  event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey

interface LinkProps {
  readonly href: string
  readonly children: ComponentChildren
  readonly class?: string | undefined
  readonly isCurrent?: boolean | undefined
  readonly label?: string | undefined
}

/** A link to another page of the dashboard. */
export function Link({ href, children, class: name, isCurrent = false, label }: LinkProps) {
  const onLinkClick = (event: MouseEvent) => {
    if (!isPlainClick(event)) return
    event.preventDefault()
    navigate(href)
  }
  return (
    <a
      href={href}
      class={name}
      onClick={onLinkClick}
      aria-current={isCurrent ? 'page' : undefined}
      aria-label={label}
    >
      {children}
    </a>
  )
}

interface LinkButtonProps extends Pick<ButtonProps, 'children' | 'kind' | 'size' | 'label'> {
  readonly href: string
}

export function LinkButton({ href, children, kind = 'plain', size, label }: LinkButtonProps) {
  const name = classes('button', `button-${kind}`, size === 'small' && 'button-small')
  return (
    <Link href={href} class={name} label={label}>
      {children}
    </Link>
  )
}

const FEEDBACK_MS = 2000

interface CopyButtonProps {
  readonly text: string | (() => string)
  readonly label?: string | undefined
}

export function CopyButton({ text, label = 'Copy' }: CopyButtonProps) {
  const [feedback, setFeedback] = useState<string>()
  useEffect(() => {
    if (feedback === undefined) return
    const timer = setTimeout(() => setFeedback(undefined), FEEDBACK_MS)
    return () => clearTimeout(timer)
  }, [feedback])
  const copy = () => {
    // Browsers offer the clipboard only over TLS and on localhost.
    const clipboard = navigator.clipboard as Clipboard | undefined
    const write = clipboard?.writeText(typeof text === 'string' ? text : text())
    if (write === undefined) setFeedback('Clipboard unavailable')
    else
      write.then(
        () => setFeedback('Copied'),
        () => setFeedback('Clipboard unavailable'),
      )
  }
  return (
    <>
      <Button size="small" kind="quiet" onClick={copy}>
        {feedback ?? label}
      </Button>
      <span class="visually-hidden" role="status">
        {feedback}
      </span>
    </>
  )
}
