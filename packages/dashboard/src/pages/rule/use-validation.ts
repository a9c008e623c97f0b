/** Validates the text of a rule on the server, a moment after the last key press. */
import type { ValidatedView } from '@sluice/client'
import { useEffect, useState } from 'preact/hooks'
import { api, redirectIfLoggedOut } from '../../api.js'

/** Pause after the last key press. */
const DEBOUNCE_MS = 300

export interface Validation {
  /** The text that was validated; undefined: none yet. */
  readonly text: string | undefined
  readonly view: ValidatedView | undefined
  readonly error: unknown
  /** Whether the current text is not yet validated. */
  readonly isPending: boolean
}

/** `version` is that of the rule to compare with; a new one validates again. */
export function useValidation(text: string, id: string | undefined, version: number): Validation {
  const [state, setState] = useState<Omit<Validation, 'isPending'>>({
    text: undefined,
    view: undefined,
    error: undefined,
  })
  useEffect(() => {
    let isCurrent = true
    const timer = setTimeout(() => {
      api.validateRule(text, id).then(
        (view) => {
          if (isCurrent) setState({ text, view, error: undefined })
        },
        (error: unknown) => {
          if (!isCurrent || redirectIfLoggedOut(error)) return
          setState({ text, view: undefined, error })
        },
      )
    }, DEBOUNCE_MS)
    return () => {
      clearTimeout(timer)
      isCurrent = false
    }
  }, [text, id, version])
  return { ...state, isPending: state.text !== text }
}
