/** A field for text of several lines with their numbers, and marks where something is wrong. */
import { useId, useRef } from 'preact/hooks'
import type { ProblemView } from '@sluice/client'
import { Sign, Text } from '../../ui/index.js'
import { messageOf, offsetOf, type Place, placeOf } from './place.js'

const ROWS_MIN = 10
const ROWS_MAX = 400
const PROBLEMS_SHOWN_MAX = 30

interface CodeFieldProps {
  readonly label: string
  readonly value: string
  readonly onInput: (value: string) => void
  readonly isDisabled: boolean
  readonly errors: readonly ProblemView[]
  readonly warnings: readonly ProblemView[]
}

export function CodeField({ label, value, onInput, isDisabled, errors, warnings }: CodeFieldProps) {
  const id = useId()
  const field = useRef<HTMLTextAreaElement>(null)
  const lines = value.split('\n').length
  const rows = Math.min(ROWS_MAX, Math.max(ROWS_MIN, lines))
  const marks = marksOf(errors, warnings, value)
  const go = (place: Place) => {
    const at = offsetOf(place, value)
    field.current?.focus()
    field.current?.setSelectionRange(at, at)
  }
  return (
    <div class="code-field">
      <label class="field-label" for={id}>
        {label}
      </label>
      <div class="code-area">
        <div class="code-numbers" aria-hidden="true">
          {Array.from({ length: rows }, (_, index) => (
            <span key={index} class={marks.get(index + 1)}>
              {index < lines ? index + 1 : ''}
            </span>
          ))}
        </div>
        <textarea
          ref={field}
          id={id}
          class="code-text"
          rows={rows}
          value={value}
          disabled={isDisabled}
          wrap="off"
          spellcheck={false}
          autoCapitalize="none"
          autoComplete="off"
          aria-invalid={errors.length > 0}
          aria-describedby={`${id}-problems`}
          onInput={(event) => onInput(event.currentTarget.value)}
        />
      </div>
      <div id={`${id}-problems`}>
        <Problems kind="error" problems={errors} text={value} onGo={go} />
        <Problems kind="warning" problems={warnings} text={value} onGo={go} />
      </div>
    </div>
  )
}

/** By line: what is wrong there. */
function marksOf(
  errors: readonly ProblemView[],
  warnings: readonly ProblemView[],
  text: string,
): ReadonlyMap<number, string> {
  const marks = new Map<number, string>()
  for (const [kind, problems] of [
    ['warning', warnings],
    ['error', errors],
  ] as const) {
    for (const problem of problems) {
      const place = placeOf(problem, text)
      if (place !== undefined) marks.set(place.line, `mark-${kind}`)
    }
  }
  return marks
}

interface ProblemsProps {
  readonly kind: 'error' | 'warning'
  readonly problems: readonly ProblemView[]
  readonly text: string
  readonly onGo: (place: Place) => void
}

function Problems({ kind, problems, text, onGo }: ProblemsProps) {
  if (problems.length === 0) return null
  const tone = kind === 'error' ? 'refused' : 'degraded'
  return (
    <ul class={`code-problems tone-${tone}`} aria-label={kind === 'error' ? 'Errors' : 'Warnings'}>
      {problems.slice(0, PROBLEMS_SHOWN_MAX).map((problem, index) => {
        const place = placeOf(problem, text)
        return (
          <li key={index}>
            <Sign tone={tone} />
            {place === undefined ? (
              <span class="code-place">rule</span>
            ) : (
              <button type="button" class="code-place" onClick={() => onGo(place)}>
                {place.line}:{place.column}
                <span class="unseen"> go there</span>
              </button>
            )}
            <Text value={messageOf(problem)} max={500} />
          </li>
        )
      })}
    </ul>
  )
}
