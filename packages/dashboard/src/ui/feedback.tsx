/** Figures, badges, notes, and loading, empty and error states. */
import { AdminError, UnreachableError } from '@sluice/client'
import type { ComponentChildren } from 'preact'
import { Button } from './button.js'
import { Text } from './text.js'
import { classes, type Tone } from './tone.js'

interface StatProps {
  readonly label: string
  readonly value: ComponentChildren
  readonly unit?: string | undefined
  readonly hint?: ComponentChildren
  readonly tone?: Tone | undefined
  readonly size?: 'big' | 'normal' | undefined
}

export function Stat({ label, value, unit, hint, tone = 'neutral', size = 'normal' }: StatProps) {
  return (
    <div class={classes('stat', `stat-${size}`, `tone-${tone}`)}>
      <div class="stat-label">{label}</div>
      <div class="stat-value">
        {value}
        {unit !== undefined && <span class="stat-unit"> {unit}</span>}
      </div>
      {hint !== undefined && <div class="stat-hint">{hint}</div>}
    </div>
  )
}

/** Icons of the tones, so that no meaning depends on colour alone. */
const SIGNS: Readonly<Record<Tone, string>> = {
  neutral: 'M8 5.5a2.5 2.5 0 1 1 0 5 2.5 2.5 0 0 1 0-5z',
  accent: 'M8 3.5 12.5 8 8 12.5 3.5 8z',
  allowed: 'M6.6 12.2 2.8 8.4l1.4-1.4 2.4 2.4 5.2-5.2 1.4 1.4z',
  refused: 'M4.4 3 8 6.6 11.6 3 13 4.4 9.4 8l3.6 3.6-1.4 1.4L8 9.4 4.4 13 3 11.6 6.6 8 3 4.4z',
  shadow: 'M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2zm0 1.6v8.8a4.4 4.4 0 0 0 0-8.8z',
  degraded: 'M8 2.2 14.4 13H1.6zM7.2 6v3.6h1.6V6zm0 4.4v1.5h1.6v-1.5z',
}

export function Sign({ tone }: { readonly tone: Tone }) {
  return (
    <svg class="sign" viewBox="0 0 16 16" width="12" height="12" aria-hidden="true">
      <path d={SIGNS[tone]} fill="currentColor" fill-rule="evenodd" />
    </svg>
  )
}

interface BadgeProps {
  readonly tone: Tone
  readonly children: ComponentChildren
  readonly title?: string | undefined
}

export function Badge({ tone, children, title }: BadgeProps) {
  return (
    <span class={`badge tone-${tone}`} title={title}>
      <Sign tone={tone} />
      <span>{children}</span>
    </span>
  )
}

const MODES: Readonly<Record<string, readonly [Tone, string]>> = {
  enforce: ['accent', 'Requests over the limit are refused'],
  shadow: ['shadow', 'Requests are counted and evaluated, but never refused'],
  off: ['neutral', 'Not evaluated'],
}

/** A badge with the mode of a rule. */
export function ModeBadge({ mode }: { readonly mode: string }) {
  const [tone, title] = MODES[mode] ?? (['neutral', undefined] as const)
  return (
    <Badge tone={tone} title={title}>
      <Text value={mode} max={20} />
    </Badge>
  )
}

export function Empty({
  title,
  children,
}: {
  readonly title: string
  readonly children?: ComponentChildren
}) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children !== undefined && <div class="empty-more">{children}</div>}
    </div>
  )
}

export function Loading({ what = 'Loading' }: { readonly what?: string }) {
  return (
    <p class="loading" role="status">
      <span class="spinner" aria-hidden="true" />
      {what}…
    </p>
  )
}

interface NoteProps {
  readonly tone: Tone
  readonly title?: string | undefined
  readonly children?: ComponentChildren
}

export function Note({ tone, title, children }: NoteProps) {
  return (
    <div class={`note tone-${tone}`}>
      <Sign tone={tone} />
      <div class="note-body">
        {title !== undefined && <p class="note-title">{title}</p>}
        {children}
      </div>
    </div>
  )
}

/** Warns that statistics do not include the other processes. */
export function SingleProcessNote() {
  return (
    <Note tone="degraded" title="Statistics of one process only">
      <p>Redis does not answer, so the statistics of the other processes are unavailable.</p>
    </Note>
  )
}

/** Problems listed at most; a rule set can have thousands. */
const PROBLEMS_SHOWN_MAX = 20

interface ErrorNoteProps {
  readonly error: unknown
  readonly onRetry?: (() => void) | undefined
}

/** An error as the server reports it, with the position of each problem. */
export function ErrorNote({ error, onRetry }: ErrorNoteProps) {
  const problems = error instanceof AdminError ? error.errors : []
  return (
    <div class="note tone-refused" role="alert">
      <Sign tone="refused" />
      <div class="note-body">
        <p class="note-title">{errorTitle(error)}</p>
        <p>
          <Text value={errorDetail(error)} max={600} />
        </p>
        {problems.length > 0 && (
          <ul class="problems">
            {problems.slice(0, PROBLEMS_SHOWN_MAX).map((problem, index) => (
              <li key={index}>
                {problem.field !== '' && <Text value={problem.field} mono />}{' '}
                <Text value={problem.message} max={400} />
                {problem.line !== undefined && <span class="faint"> line {problem.line}</span>}
                {problem.suggestion !== undefined && (
                  <span>
                    {' '}
                    Did you mean <Text value={problem.suggestion} mono />?
                  </span>
                )}
              </li>
            ))}
          </ul>
        )}
        {problems.length > PROBLEMS_SHOWN_MAX && (
          <p class="faint">and {problems.length - PROBLEMS_SHOWN_MAX} more</p>
        )}
        {onRetry !== undefined && (
          <p>
            <Button size="small" onClick={onRetry}>
              Try again
            </Button>
          </p>
        )}
      </div>
    </div>
  )
}

function errorTitle(error: unknown): string {
  if (error instanceof UnreachableError) {
    return error.isUncertain
      ? 'No answer: the change may have been applied'
      : 'The server does not answer'
  }
  if (!(error instanceof AdminError)) return 'Something went wrong'
  if (error.status === 403) return 'Your token does not allow this'
  if (error.status === 404) return 'Not found'
  if (error.status === 409 || error.status === 412) return 'Someone else changed it first'
  return error.status === 429
    ? 'Too many requests: wait a moment'
    : 'The server refused the request'
}

function errorDetail(error: unknown): string {
  if (error instanceof AdminError) return error.detail
  return error instanceof Error ? error.message : String(error)
}
