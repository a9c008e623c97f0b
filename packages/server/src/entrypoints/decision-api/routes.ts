/** The routes of the decision API listener, in one table. */
import { originForm } from '../http/request-target.js'

/** Who may call: all clients, clients with a token or the admin token, or trusted proxies. */
type Access = 'open' | 'token' | 'admin' | 'proxy'

export interface Route {
  readonly path: string
  readonly serves: Action
  readonly access: Access
  /** Empty: any. */
  readonly methods: readonly string[]
}

export type Verb =
  | 'check'
  | 'peek'
  | 'explain'
  | 'refund'
  | 'reset'
  | 'reserve'
  | 'settle'
  | 'extend'
  | 'cancel'
type Action = Verb | 'forward-auth' | 'rate-limit-json' | 'health' | 'readiness'

const POST = ['POST']
const GET = ['GET', 'HEAD']

export const ROUTES: readonly Route[] = [
  { path: '/v1/check', serves: 'check', access: 'token', methods: POST },
  { path: '/v1/peek', serves: 'peek', access: 'token', methods: POST },
  { path: '/v1/explain', serves: 'explain', access: 'token', methods: POST },
  { path: '/v1/refund', serves: 'refund', access: 'token', methods: POST },
  { path: '/v1/reset', serves: 'reset', access: 'admin', methods: POST },
  { path: '/v1/reserve', serves: 'reserve', access: 'token', methods: POST },
  { path: '/v1/settle', serves: 'settle', access: 'token', methods: POST },
  { path: '/v1/extend', serves: 'extend', access: 'token', methods: POST },
  { path: '/v1/cancel', serves: 'cancel', access: 'token', methods: POST },
  { path: '/v1/forward-auth', serves: 'forward-auth', access: 'proxy', methods: [] },
  { path: '/json', serves: 'rate-limit-json', access: 'token', methods: POST },
  { path: '/healthz', serves: 'health', access: 'open', methods: GET },
  { path: '/readyz', serves: 'readiness', access: 'open', methods: GET },
]

const BY_PATH: ReadonlyMap<string, Route> = new Map(ROUTES.map((route) => [route.path, route]))

/** First looks up the unchanged URL, since it is almost always only the path. */
export function findRoute(url: string): Route | undefined {
  return BY_PATH.get(url) ?? findByPath(originForm(url))
}

function findByPath(url: string): Route | undefined {
  const query = url.indexOf('?')
  const path = query === -1 ? url : url.slice(0, query)
  const route = BY_PATH.get(path)
  if (route !== undefined) return route
  return path.startsWith(`${FORWARD_AUTH}/`) ? BY_PATH.get(FORWARD_AUTH) : undefined
}

const FORWARD_AUTH = '/v1/forward-auth'

/**
 * What follows the path of forward-auth, where Envoy appends the path of the call. Undefined if it
 * is only a slash or a query, which proxies add to any address.
 */
export function pathBelow(url: string): string | undefined {
  const rest = originForm(url).slice(FORWARD_AUTH.length)
  return rest.length > 1 && rest.charCodeAt(0) === SLASH && rest.charCodeAt(1) !== QUESTION_MARK
    ? rest
    : undefined
}

const SLASH = 47
const QUESTION_MARK = 63
