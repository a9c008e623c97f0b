/** Loads all rules, and whether the user can change them. */
import type { RuleView } from '@sluice/client'
import { useEffect, useState } from 'preact/hooks'
import { api, redirectIfLoggedOut, hasRole, useResource } from '../../api.js'

/** Rules per request; the server returns no more. */
const PAGE_LENGTH = 1000
/** A rule set has at most ten thousand rules. */
const PAGES_MAX = 10

export interface AllRules {
  readonly rules: readonly RuleView[] | undefined
  /** Whether more pages are loading. */
  readonly isLoading: boolean
  readonly error: unknown
  readonly reload: () => void
}

/** Shows the first page while the others load. A new `version` loads all of them again. */
export function useRules(version: number | undefined): AllRules {
  const [state, setState] = useState<Omit<AllRules, 'reload'>>({
    rules: undefined,
    isLoading: true,
    error: undefined,
  })
  const [reloadCount, setReloadCount] = useState(0)
  useEffect(() => {
    let isCurrent = true
    setState((old) => ({ ...old, isLoading: true }))
    const show = (rules: readonly RuleView[], isLoading: boolean) => {
      // A complete list stays until its reload is as long.
      setState((old) =>
        isLoading && (old.rules?.length ?? 0) > rules.length
          ? old
          : { rules, isLoading, error: undefined },
      )
    }
    readPages(show, () => isCurrent).catch((error: unknown) => {
      if (isCurrent && !redirectIfLoggedOut(error))
        setState((old) => ({ ...old, isLoading: false, error }))
    })
    return () => {
      isCurrent = false
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
  /** Why rules cannot be changed; undefined: they can, or it is not yet known. */
  readonly reason: string | undefined
}

/** Whether the role of the user and the rule store allow changes. */
export function useEditAccess(): EditAccess {
  const nodes = useResource(() => api.listNodes(), [])
  if (!hasRole('edit')) {
    return { isAllowed: false, reason: 'Your token is read-only.' }
  }
  const readOnly = nodes.value?.readOnly ?? undefined
  return { isAllowed: nodes.value !== undefined && readOnly === undefined, reason: readOnly }
}
