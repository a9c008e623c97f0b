/** A text that is looked at by the server a moment after the last key. */
import type { ValidatedView } from '@sluice/client'
import { useEffect, useRef, useState } from 'preact/hooks'
import { api, redirectIfLoggedOut } from '../../api.js'

/** Long enough that nobody is interrupted in a word. */
const DEBOUNCE_MS = 300

export interface Validation {
  /** The text that was looked at; undefined: none yet. */
  readonly text: string | undefined
  readonly view: ValidatedView | undefined
  readonly error: unknown
  /** Whether another text waits for its answer. */
  readonly isPending: boolean
}

/** `version`: of what it is compared with; another one is compared with anew. */
export function useValidation(text: string, id: string | undefined, version: number): Validation {
  const [state, setState] = useState<Omit<Validation, 'isPending'>>({
    text: undefined,
    view: undefined,
    error: undefined,
  })
  const latestId = useRef(0)
  useEffect(() => {
    const requestId = ++latestId.current
    const timer = setTimeout(() => {
      api.validateRule(text, id).then(
        (view) => {
          if (requestId === latestId.current) setState({ text, view, error: undefined })
        },
        (error: unknown) => {
          if (requestId !== latestId.current || redirectIfLoggedOut(error)) return
          setState({ text, view: undefined, error })
        },
      )
    }, DEBOUNCE_MS)
    return () => {
      clearTimeout(timer)
      latestId.current++
    }
  }, [text, id, version])
  return { ...state, isPending: state.text !== text }
}
