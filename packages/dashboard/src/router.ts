/** Which page is shown, read from the address. */
import { computed, signal } from '@preact/signals'

type PageName =
  | 'overview'
  | 'rules'
  | 'callers'
  | 'nodes'
  | 'alerts'
  | 'why'
  | 'playground'
  | 'login'
  | 'unknown'

export type Route =
  | { readonly name: PageName; readonly query: URLSearchParams }
  | { readonly name: 'rule'; readonly id: string; readonly query: URLSearchParams }

const PAGES: ReadonlyMap<string, PageName> = new Map([
  ['/', 'overview'],
  ['/rules', 'rules'],
  ['/callers', 'callers'],
  ['/nodes', 'nodes'],
  ['/alerts', 'alerts'],
  ['/why', 'why'],
  ['/playground', 'playground'],
  ['/login', 'login'],
])

export function readRoute(path: string, search: string): Route {
  const query = new URLSearchParams(search)
  const trimmed = path.length > 1 ? path.replace(/\/+$/, '') || '/' : path
  const id = /^\/rules\/([^/]+)$/.exec(trimmed)?.[1]
  if (id === undefined) return { name: PAGES.get(trimmed) ?? 'unknown', query }
  try {
    return { name: 'rule', id: decodeURIComponent(id), query }
  } catch {
    return { name: 'unknown', query }
  }
}

/** A longer value cannot be told by an address: servers refuse it. */
const VALUE_LENGTH_MAX = 1000

function queryOf(values: Readonly<Record<string, string | undefined>>, prefix = ''): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined && value !== '' && value.length <= VALUE_LENGTH_MAX) {
      query.set(prefix + name, value)
    }
  }
  return query.size === 0 ? '' : `?${query.toString()}`
}

type QueryValues = Readonly<Record<string, string | undefined>>

/** The addresses of the pages. */
export const hrefs = {
  overview: '/',
  rules: '/rules',
  nodes: '/nodes',
  alerts: '/alerts',
  rule: (id: string) => `/rules/${encodeURIComponent(id)}`,
  /** The rule's page with the form of an override, filled with the caller. */
  override: (id: string, caller: QueryValues) =>
    `/rules/${encodeURIComponent(id)}${queryOf(caller, 'override.')}`,
  callers: (
    values: { readonly rule?: string | undefined; readonly by?: string | undefined } = {},
  ) => `/callers${queryOf({ ...values })}`,
  /** `about`: the rule that is asked about, where it is one. */
  why: (attributes: QueryValues = {}, rule?: string) => `/why${queryOf({ ...attributes, rule })}`,
  /** Why a rule refuses a caller: the page finds a call of the caller that meets the rule. */
  whyRefused: (rule: string, caller: QueryValues, plan: string | null) =>
    `/why${queryOf({ plan: plan ?? undefined, ...caller, rule, meet: '1' })}`,
  playground: (values: QueryValues = {}) => `/playground${queryOf(values)}`,
  /** `back`: where to go once let in. */
  login: (back?: string) => `/login${queryOf({ back: isLocalHref(back) ? back : undefined })}`,
} as const

/**
 * Whether an address is one of ours: `//elsewhere` and `/\elsewhere` are not, and browsers read
 * over tabs and line ends between the two.
 */
export const isLocalHref = (href: string | undefined | null): href is string =>
  typeof href === 'string' && /^\/(?![/\\])[^\p{Cc}]*$/u.test(href) && !href.startsWith('/login')

const address = signal(typeof location === 'undefined' ? '/' : location.pathname + location.search)

export const route = computed<Route>(() => {
  const [path, search] = splitQuery(address.value)
  return readRoute(path, search)
})

/** Path and query, as the address bar has them. */
export const currentHref = computed(() => address.value)

function splitQuery(text: string): readonly [string, string] {
  const at = text.indexOf('?')
  return at === -1 ? [text, ''] : [text.slice(0, at), text.slice(at)]
}

/** Goes to a page without loading anything anew. */
export function navigate(href: string, { replace = false }: { readonly replace?: boolean } = {}) {
  if (replace) history.replaceState(null, '', href)
  else history.pushState(null, '', href)
  address.value = location.pathname + location.search
}

export function startRouter(): void {
  addEventListener('popstate', () => {
    address.value = location.pathname + location.search
  })
}
