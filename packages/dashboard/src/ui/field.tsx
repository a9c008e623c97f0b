/** What is typed, chosen and ticked, each tied to its label, hint and error. */
import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'
import { classes } from './tone.js'

interface Common {
  readonly label: string
  readonly hint?: ComponentChildren
  readonly error?: ComponentChildren
  readonly isDisabled?: boolean | undefined
  /** For screen readers only: where the place says what it is. */
  readonly hasHiddenLabel?: boolean | undefined
}

interface Tied {
  readonly id: string
  readonly 'aria-describedby': string | undefined
  readonly 'aria-invalid': boolean
}

const isThere = (part: ComponentChildren): boolean =>
  part !== undefined && part !== null && part !== false && part !== ''

function Field(props: Common & { readonly children: (tied: Tied) => ComponentChildren }) {
  const id = useId()
  const { label, hint, error, hasHiddenLabel = false, children } = props
  const described = [isThere(hint) && `${id}-hint`, isThere(error) && `${id}-error`].filter(Boolean)
  const tied: Tied = {
    id,
    'aria-describedby': described.length === 0 ? undefined : described.join(' '),
    'aria-invalid': isThere(error),
  }
  return (
    <div class="field">
      <label for={id} class={classes('field-label', hasHiddenLabel && 'unseen')}>
        {label}
      </label>
      {children(tied)}
      {isThere(hint) && (
        <p class="field-hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      {isThere(error) && (
        <p class="field-error" id={`${id}-error`} role="alert">
          {error}
        </p>
      )}
    </div>
  )
}

interface TextFieldProps extends Common {
  readonly value: string
  readonly onInput: (value: string) => void
  readonly type?: 'text' | 'password' | 'number' | 'search' | 'datetime-local' | undefined
  readonly placeholder?: string | undefined
  readonly mono?: boolean | undefined
  readonly isRequired?: boolean | undefined
  readonly autoComplete?: string | undefined
  readonly min?: number | undefined
  readonly max?: number | undefined
  readonly step?: number | 'any' | undefined
}

export function TextField(props: TextFieldProps) {
  const { value, onInput, type = 'text', mono = false } = props
  // The types have a shape for each kind of input; these kinds do not differ in it.
  const kind = { type } as { readonly type: 'text' }
  return (
    <Field {...props}>
      {(tied) => (
        <input
          {...tied}
          class={classes('input', mono && 'mono')}
          {...kind}
          value={value}
          placeholder={props.placeholder}
          required={props.isRequired}
          disabled={props.isDisabled}
          autoComplete={props.autoComplete ?? 'off'}
          autoCapitalize="none"
          spellcheck={false}
          min={props.min}
          max={props.max}
          step={props.step}
          onInput={(event) => onInput(event.currentTarget.value)}
        />
      )}
    </Field>
  )
}

interface TextAreaProps extends Common {
  readonly value: string
  readonly onInput: (value: string) => void
  readonly rows?: number | undefined
  readonly mono?: boolean | undefined
  readonly placeholder?: string | undefined
}

export function TextArea(props: TextAreaProps) {
  const { value, onInput, rows = 6, mono = false } = props
  return (
    <Field {...props}>
      {(tied) => (
        <textarea
          {...tied}
          class={classes('input', mono && 'mono')}
          rows={rows}
          value={value}
          placeholder={props.placeholder}
          disabled={props.isDisabled}
          autoCapitalize="none"
          spellcheck={false}
          onInput={(event) => onInput(event.currentTarget.value)}
        />
      )}
    </Field>
  )
}

interface SelectFieldProps extends Common {
  readonly value: string
  readonly options: readonly { readonly value: string; readonly label: string }[]
  readonly onChange: (value: string) => void
}

export function SelectField(props: SelectFieldProps) {
  const { value, options, onChange } = props
  return (
    <Field {...props}>
      {(tied) => (
        <select
          {...tied}
          class="input"
          value={value}
          disabled={props.isDisabled}
          onChange={(event) => onChange(event.currentTarget.value)}
        >
          {options.map((option) => (
            <option key={option.value} value={option.value}>
              {option.label}
            </option>
          ))}
        </select>
      )}
    </Field>
  )
}

interface CheckFieldProps {
  readonly label: string
  readonly isChecked: boolean
  readonly onChange: (isChecked: boolean) => void
  readonly hint?: ComponentChildren
  readonly isDisabled?: boolean | undefined
}

export function CheckField({ label, isChecked, onChange, hint, isDisabled }: CheckFieldProps) {
  const id = useId()
  return (
    <div class="field check">
      <input
        id={id}
        type="checkbox"
        checked={isChecked}
        disabled={isDisabled}
        aria-describedby={isThere(hint) ? `${id}-hint` : undefined}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      <label for={id}>{label}</label>
      {isThere(hint) && (
        <p class="field-hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </div>
  )
}

interface ChoiceProps<Value extends string> {
  readonly label: string
  readonly value: Value
  readonly options: readonly { readonly value: Value; readonly label: string }[]
  readonly onChange: (value: Value) => void
}

/** One of a few, all of them seen. */
export function Choice<Value extends string>(props: ChoiceProps<Value>) {
  const { label, value, options, onChange } = props
  const name = useId()
  return (
    <fieldset class="choice">
      <legend class="unseen">{label}</legend>
      {options.map((option) => (
        <label key={option.value}>
          <input
            type="radio"
            name={name}
            checked={option.value === value}
            onChange={() => onChange(option.value)}
          />
          <span>{option.label}</span>
        </label>
      ))}
    </fieldset>
  )
}
