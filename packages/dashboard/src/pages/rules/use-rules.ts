/** All rules, page by page, and whether they can be changed here. */
import type { RuleView } from '@sluice/client'
import { useEffect, useRef, useState } from 'preact/hooks'
import { api, redirectIfLoggedOut, hasRole, useResource } from '../../api.js'

/** As many as the server gives at once. */
const PAGE_LENGTH = 1000
/** A set has ten thousand rules at most. */
const PAGES_MAX = 10

export interface AllRules {
  readonly rules: readonly RuleView[] | undefined
  /** Whether more are on their way. */
  readonly isLoading: boolean
  readonly error: unknown
  readonly reload: () => void
}

/** The first page is shown while the others come; another `version` reads all of them again. */
export function useRules(version: number | undefined): AllRules {
  const [state, setState] = useState<Omit<AllRules, 'reload'>>({
    rules: undefined,
    isLoading: true,
    error: undefined,
  })
  const [reloadCount, setReloadCount] = useState(0)
  const latestId = useRef(0)
  useEffect(() => {
    const requestId = ++latestId.current
    const isCurrent = () => requestId === latestId.current
    setState((old) => ({ ...old, isLoading: true }))
    const show = (rules: readonly RuleView[], isLoading: boolean) => {
      // What was whole is not shown in part while it is read again.
      setState((old) =>
        isLoading && (old.rules?.length ?? 0) > rules.length
          ? old
          : { rules, isLoading, error: undefined },
      )
    }
    readPages(show, isCurrent).catch((error: unknown) => {
      if (isCurrent() && !redirectIfLoggedOut(error))
        setState((old) => ({ ...old, isLoading: false, error }))
    })
    return () => {
      latestId.current++
    }
  }, [version, reloadCount])
  return { ...state, reload: () => setReloadCount((old) => old + 1) }
}

async function readPages(
  show: (rules: readonly RuleView[], isLoading: boolean) => void,
  isCurrent: () => boolean,
): Promise<void> {
  const rules: RuleView[] = []
  let after: string | undefined
  for (let page = 1; page <= PAGES_MAX; page++) {
    const response = await api.listRules({ limit: PAGE_LENGTH, after })
    if (!isCurrent()) return
    rules.push(...response.rules)
    after = response.next ?? undefined
    const isLast = after === undefined || page === PAGES_MAX
    show([...rules], !isLast)
    if (isLast) return
  }
}

export interface EditAccess {
  readonly isAllowed: boolean
  /** Why not; undefined: it is, or nobody knows yet. */
  readonly reason: string | undefined
}

/** Whether rules can be changed by this person, and where they come from. */
export function useEditAccess(): EditAccess {
  const nodes = useResource(() => api.listNodes(), [])
  if (!hasRole('edit')) {
    return { isAllowed: false, reason: 'Your token may read, and not change anything.' }
  }
  const readOnly = nodes.value?.readOnly ?? undefined
  return { isAllowed: nodes.value !== undefined && readOnly === undefined, reason: readOnly }
}
