/** The server, as one client that the whole page shares, and who is logged in. */
import { AdminError, createAdminClient, type Role, type SessionView } from '@sluice/client'
import { signal } from '@preact/signals'
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { currentHref, hrefs, navigate } from './router.js'

/** Null: nobody is; undefined: not asked yet. */
export const session = signal<SessionView | null | undefined>(undefined)

export const api = createAdminClient({
  url: location.origin,
  fetch: (url, init) => fetch(url, { ...init, credentials: 'same-origin' }),
  csrf: () => session.value?.csrf,
  // A person who waits is told; the button is still there.
  retries: 0,
})

const RANK: Readonly<Record<Role, number>> = { read: 0, edit: 1, admin: 2 }

/** Whether who is logged in may do what needs this role. */
export function hasRole(role: Role): boolean {
  const ownRole = session.value?.role
  return ownRole !== undefined && RANK[ownRole] >= RANK[role]
}

/** Whether anybody is logged in, asked once when the page opens. */
export async function openSession(): Promise<void> {
  try {
    session.value = await api.session()
  } catch (error) {
    if (!(error instanceof AdminError) || !LOGGED_OUT_STATUSES.includes(error.status)) throw error
    session.value = null
  }
}

/** 429: somebody at this address guesses tokens. A right one is still let in, so ask for it. */
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

/** Sessions end; whoever was in the middle of something comes back to it. */
export function redirectIfLoggedOut(error: unknown): boolean {
  if (!(error instanceof AdminError) || error.status !== 401) return false
  session.value = null
  navigate(hrefs.login(currentHref.value), { replace: true })
  return true
}

export interface Resource<T> {
  /** The last that came: it stays while the next is on its way. */
  readonly value: T | undefined
  readonly error: unknown
  readonly isLoading: boolean
  readonly reload: () => void
  /** For what a change has answered already. */
  readonly set: (value: T) => void
}

/**
 * What `load` brings, again whenever one of `deps` is another. An answer that comes late is
 * dropped.
 */
export function useResource<T>(load: () => Promise<T>, deps: readonly unknown[]): Resource<T> {
  const [state, setState] = useState<{ value?: T; error?: unknown; isLoading: boolean }>({
    isLoading: true,
  })
  const [reloadCount, setReloadCount] = useState(0)
  const latestId = useRef(0)
  useEffect(() => {
    const requestId = ++latestId.current
    setState((old) => ({ ...old, isLoading: true }))
    load().then(
      (value) => {
        if (requestId === latestId.current) setState({ value, isLoading: false })
      },
      (error: unknown) => {
        if (requestId !== latestId.current || redirectIfLoggedOut(error)) return
        setState((old) => ({ ...old, error, isLoading: false }))
      },
    )
    return () => {
      latestId.current++
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
