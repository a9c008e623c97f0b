/** Form fields, each linked to its label, hint and error. */
import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'
import { classes } from './tone.js'

interface FieldProps {
  readonly label: string
  readonly hint?: ComponentChildren
  readonly error?: ComponentChildren
  readonly isDisabled?: boolean | undefined
  /** Shows the label to screen readers only, where the position explains the field. */
  readonly hasHiddenLabel?: boolean | undefined
}

interface ControlAttributes {
  readonly id: string
  readonly 'aria-describedby': string | undefined
  readonly 'aria-invalid': boolean
}

const isPresent = (part: ComponentChildren): boolean =>
  part !== undefined && part !== null && part !== false && part !== ''

function Field(
  props: FieldProps & { readonly children: (control: ControlAttributes) => ComponentChildren },
) {
  const id = useId()
  const { label, hint, error, hasHiddenLabel = false, children } = props
  const descriptionIds = [
    isPresent(hint) && `${id}-hint`,
    isPresent(error) && `${id}-error`,
  ].filter(Boolean)
  const control: ControlAttributes = {
    id,
    'aria-describedby': descriptionIds.length === 0 ? undefined : descriptionIds.join(' '),
    'aria-invalid': isPresent(error),
  }
  return (
    <div class="field">
      <label for={id} class={classes('field-label', hasHiddenLabel && 'visually-hidden')}>
        {label}
      </label>
      {children(control)}
      {isPresent(hint) && (
        <p class="field-hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      {isPresent(error) && (
        <p class="field-error" id={`${id}-error`} role="alert">
          {error}
        </p>
      )}
    </div>
  )
}

interface TextFieldProps extends FieldProps {
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
  // Preact types each input type separately; the ones used here have the same attributes.
  const kind = { type } as { readonly type: 'text' }
  return (
    <Field {...props}>
      {(control) => (
        <input
          {...control}
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

interface TextAreaProps extends FieldProps {
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
      {(control) => (
        <textarea
          {...control}
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

interface SelectFieldProps extends FieldProps {
  readonly value: string
  readonly options: readonly { readonly value: string; readonly label: string }[]
  readonly onChange: (value: string) => void
}

export function SelectField(props: SelectFieldProps) {
  const { value, options, onChange } = props
  return (
    <Field {...props}>
      {(control) => (
        <select
          {...control}
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
        aria-describedby={isPresent(hint) ? `${id}-hint` : undefined}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      <label for={id}>{label}</label>
      {isPresent(hint) && (
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

/** A choice between a few visible options. */
export function Choice<Value extends string>(props: ChoiceProps<Value>) {
  const { label, value, options, onChange } = props
  const name = useId()
  return (
    <fieldset class="choice">
      <legend class="visually-hidden">{label}</legend>
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
