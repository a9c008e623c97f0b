/** A text editor with line numbers, which marks the lines that have problems. */
import { useId, useRef } from 'preact/hooks'
import type { ProblemView } from '@sluice/client'
import { Sign, Text } from '../../ui/index.js'
import { problemMessage, placeOffset, type CursorPlace, problemPlace } from './cursor-place.js'

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
  const marks = lineMarks(errors, warnings, value)
  const focusPlace = (place: CursorPlace) => {
    const offset = placeOffset(place, value)
    field.current?.focus()
    field.current?.setSelectionRange(offset, offset)
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
        <Problems kind="error" problems={errors} text={value} onSelect={focusPlace} />
        <Problems kind="warning" problems={warnings} text={value} onSelect={focusPlace} />
      </div>
    </div>
  )
}

/** The CSS class of each line that has a problem. */
function lineMarks(
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
      const place = problemPlace(problem, text)
      if (place !== undefined) marks.set(place.line, `mark-${kind}`)
    }
  }
  return marks
}

interface ProblemsProps {
  readonly kind: 'error' | 'warning'
  readonly problems: readonly ProblemView[]
  readonly text: string
  readonly onSelect: (place: CursorPlace) => void
}

function Problems({ kind, problems, text, onSelect }: ProblemsProps) {
  if (problems.length === 0) return null
  const tone = kind === 'error' ? 'refused' : 'degraded'
  return (
    <ul class={`code-problems tone-${tone}`} aria-label={kind === 'error' ? 'Errors' : 'Warnings'}>
      {problems.slice(0, PROBLEMS_SHOWN_MAX).map((problem, index) => {
        const place = problemPlace(problem, text)
        return (
          <li key={index}>
            <Sign tone={tone} />
            {place === undefined ? (
              <span class="code-place">rule</span>
            ) : (
              <button type="button" class="code-place" onClick={() => onSelect(place)}>
                {place.line}:{place.column}
                <span class="visually-hidden"> go to line</span>
              </button>
            )}
            <Text value={problemMessage(problem)} max={500} />
          </li>
        )
      })}
    </ul>
  )
}
