/** The shared admin client, the session, and the hook that loads data. */
import { AdminError, createAdminClient, type Role, type SessionView } from '@sluice/client'
import { signal } from '@preact/signals'
import { useCallback, useEffect, useState } from 'preact/hooks'
import { currentHref, hrefs, navigate } from './router.js'

/** Null: not logged in. Undefined: not yet known. */
export const session = signal<SessionView | null | undefined>(undefined)

export const api = createAdminClient({
  url: location.origin,
  fetch: (url, init) => fetch(url, { ...init, credentials: 'same-origin' }),
  csrf: () => session.value?.csrf,
  // Errors are shown to the user, who can retry.
  retries: 0,
})

const RANK: Readonly<Record<Role, number>> = { read: 0, edit: 1, admin: 2 }

/** Whether the role of the session includes this one. */
export function hasRole(role: Role): boolean {
  const ownRole = session.value?.role
  return ownRole !== undefined && RANK[ownRole] >= RANK[role]
}

/** Loads the session when the page opens. */
export async function openSession(): Promise<void> {
  try {
    session.value = await api.session()
  } catch (error) {
    if (!(error instanceof AdminError) || !LOGGED_OUT_STATUSES.includes(error.status)) throw error
    session.value = null
  }
}

/** 429: a client at this address guesses tokens; a valid token from the login still works. */
const LOGGED_OUT_STATUSES: readonly number[] = [401, 429]

export async function signIn(token: string): Promise<void> {
  session.value = await api.login(token)
}

export async function signOut(): Promise<void> {
  try {
    await api.logout()
  } finally {
    session.value = null
    navigate(hrefs.login())
  }
}

/** Redirects to the login page if the session has ended. The login returns to the current page. */
export function redirectIfLoggedOut(error: unknown): boolean {
  if (!(error instanceof AdminError) || error.status !== 401) return false
  session.value = null
  navigate(hrefs.login(currentHref.value), { replace: true })
  return true
}

export interface Resource<T> {
  /** The last value; it stays while the next one loads. */
  readonly value: T | undefined
  readonly error: unknown
  readonly isLoading: boolean
  readonly reload: () => void
  /** Replaces the value with one that a change has returned. */
  readonly set: (value: T) => void
}

/** Loads a value, and loads it again whenever one of `deps` changes. Late responses are dropped. */
export function useResource<T>(load: () => Promise<T>, deps: readonly unknown[]): Resource<T> {
  const [state, setState] = useState<{ value?: T; error?: unknown; isLoading: boolean }>({
    isLoading: true,
  })
  const [reloadCount, setReloadCount] = useState(0)
  useEffect(() => {
    let isCurrent = true
    setState((old) => ({ ...old, isLoading: true }))
    load().then(
      (value) => {
        if (isCurrent) setState({ value, isLoading: false })
      },
      (error: unknown) => {
        if (!isCurrent || redirectIfLoggedOut(error)) return
        setState((old) => ({ ...old, error, isLoading: false }))
      },
    )
    return () => {
      isCurrent = false
    }
  }, [...deps, reloadCount])
  return {
    value: state.value,
    error: state.error,
    isLoading: state.isLoading,
    reload: useCallback(() => setReloadCount((old) => old + 1), []),
    set: useCallback((value: T) => setState({ value, isLoading: false }), []),
  }
}
