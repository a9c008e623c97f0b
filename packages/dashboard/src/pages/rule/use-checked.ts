/** A text that is looked at by the server a moment after the last key. */
import type { ValidatedView } from '@sluice/client'
import { useEffect, useRef, useState } from 'preact/hooks'
import { api, leaveIfOut } from '../../api.js'

/** Long enough that nobody is interrupted in a word. */
const PAUSE_MS = 300

export interface Checked {
  /** The text that was looked at; undefined: none yet. */
  readonly text: string | undefined
  readonly view: ValidatedView | undefined
  readonly error: unknown
  /** Whether another text waits for its answer. */
  readonly isPending: boolean
}

/** `version`: of what it is compared with; another one is compared with anew. */
export function useChecked(text: string, id: string | undefined, version: number): Checked {
  const [state, setState] = useState<Omit<Checked, 'isPending'>>({
    text: undefined,
    view: undefined,
    error: undefined,
  })
  const latest = useRef(0)
  useEffect(() => {
    const mine = ++latest.current
    const timer = setTimeout(() => {
      api.validateRule(text, id).then(
        (view) => {
          if (mine === latest.current) setState({ text, view, error: undefined })
        },
        (error: unknown) => {
          if (mine !== latest.current || leaveIfOut(error)) return
          setState({ text, view: undefined, error })
        },
      )
    }, PAUSE_MS)
    return () => {
      clearTimeout(timer)
      latest.current++
    }
  }, [text, id, version])
  return { ...state, isPending: state.text !== text }
}
