/** Routes: the page for an address, and the addresses of pages. */
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

/** Longer values are left out: servers refuse URLs that are too long. */
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
  /** The page of the rule with the override form, filled in with the caller. */
  override: (id: string, caller: QueryValues) =>
    `/rules/${encodeURIComponent(id)}${queryOf(caller, 'override.')}`,
  callers: (
    values: { readonly rule?: string | undefined; readonly by?: string | undefined } = {},
  ) => `/callers${queryOf({ ...values })}`,
  /** `rule`: the rule in question, if any. */
  why: (attributes: QueryValues = {}, rule?: string) => `/why${queryOf({ ...attributes, rule })}`,
  /** Why a rule refuses a caller: the page fills in a request that matches the rule. */
  whyRefused: (rule: string, caller: QueryValues, plan: string | null) =>
    `/why${queryOf({ plan: plan ?? undefined, ...caller, rule, meet: '1' })}`,
  playground: (values: QueryValues = {}) => `/playground${queryOf(values)}`,
  /** `back`: the page to open after the login. */
  login: (back?: string) => `/login${queryOf({ back: isLocalHref(back) ? back : undefined })}`,
} as const

/**
 * Whether an address belongs to this dashboard. `//elsewhere` and `/\elsewhere` do not, and
 * browsers ignore tabs and line breaks between the two characters.
 */
export const isLocalHref = (href: string | undefined | null): href is string =>
  typeof href === 'string' && /^\/(?![/\\])[^\p{Cc}]*$/u.test(href) && !href.startsWith('/login')

const address = signal(typeof location === 'undefined' ? '/' : location.pathname + location.search)

export const route = computed<Route>(() => {
  const [path, search] = splitQuery(address.value)
  return readRoute(path, search)
})

/** Path and query of the current page. */
export const currentHref = computed(() => address.value)

function splitQuery(text: string): readonly [string, string] {
  const at = text.indexOf('?')
  return at === -1 ? [text, ''] : [text.slice(0, at), text.slice(at)]
}

/** Opens a page without reloading the document. */
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
