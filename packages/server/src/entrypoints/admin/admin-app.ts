/** The admin API as one function from request to response: authenticate, route, run, respond. */
import { z } from 'zod'
import { isLarge } from '../../rules/editor/worker-parse.js'
import { ErrorReporter } from '../http/error-reporter.js'
import { createTokenAuthenticator, requireRole } from './principals.js'
import type { AdminDeps } from './admin-deps.js'
import {
  type AuthContext,
  type Bindings,
  createAuthenticator,
  headerOf,
  type OperationAccess,
} from './authenticate.js'
import { EventStreams } from './event-streams.js'
import { documentOf } from './openapi.js'
import { operation, type Operation, type Reply } from './operation.js'
import { CALL_OPERATIONS } from './operations/call-operations.js'
import { OVERRIDE_OPERATIONS } from './operations/override-operations.js'
import { BASE } from './operations/operation-helpers.js'
import { KEY_OPERATIONS } from './operations/key-operations.js'
import { RULE_OPERATIONS } from './operations/rule-operations.js'
import { SESSION_PATH, sessionOperations } from './operations/session-operations.js'
import { SET_OPERATIONS } from './operations/rule-set-operations.js'
import { SHADOW_OPERATIONS } from './operations/shadow-operations.js'
import { eventsOperation, STATS_OPERATIONS } from './operations/stats-operations.js'
import { createSelfRateLimit } from './self-rate-limit.js'
import {
  AdminError,
  invalid,
  COMMON_RESPONSE_HEADERS,
  problemResponse,
  TooManyError,
  unauthorized,
} from './admin-error.js'
import {
  bodyKindOf,
  notJson,
  readBytes,
  readIfMatch,
  readJson,
  readJsonText,
  readText,
  requireUncompressed,
  type ExpectedVersion,
} from './read-request.js'
import { createSessions } from './sessions.js'

export interface AdminApp {
  /** Every operation that is served. */
  readonly operations: readonly Operation[]
  /** Never rejects. `env` is empty, or absent, where a test sends a request without a socket. */
  fetch(request: Request, env?: Bindings): Promise<Response>
}

export interface AdminAppDeps extends AdminDeps {
  /** Closed by its creator. @default a new one */
  readonly events?: EventStreams | undefined
}

const OPERATIONS: readonly Operation[] = [
  ...RULE_OPERATIONS,
  ...SET_OPERATIONS,
  ...SHADOW_OPERATIONS,
  ...OVERRIDE_OPERATIONS,
  ...KEY_OPERATIONS,
  ...CALL_OPERATIONS,
  ...STATS_OPERATIONS,
]

export function createAdminApp(deps: AdminAppDeps): AdminApp {
  const { rootToken, ruleFollower, clock, responseClock } = deps
  const limits = createSelfRateLimit(clock, responseClock)
  const errorReporter = new ErrorReporter({ ...deps, component: 'admin API' })
  const tokenAuthenticator = createTokenAuthenticator({
    rootToken,
    catalog: ruleFollower.catalog,
    clock,
  })
  const authenticatorDeps = {
    ...deps,
    limits,
    tokenAuthenticator,
    sessions: createSessions({ rootToken, tokenAuthenticator, clock }),
  }
  const operations: Operation[] = [
    ...OPERATIONS,
    eventsOperation(deps.events ?? new EventStreams(deps)),
    ...sessionOperations(authenticatorDeps),
  ]
  operations.push(documentOperation(operations, deps))
  const authenticate = createAuthenticator(authenticatorDeps)
  return {
    operations,
    async fetch(request, env) {
      const route = findRoute(request, operations)
      let headers: Readonly<Record<string, string>> = {}
      let response: Response
      try {
        // An unauthenticated client does not learn which paths exist.
        const authContext = authenticate(request, env, accessOf(route, request))
        headers = authContext.headers
        response = await respond({ request, env, route, authContext }, deps)
      } catch (error) {
        if (error instanceof TooManyError) headers = limits.headersOf(error.decision)
        response = problemResponse(error, errorReporter)
      }
      const all = { ...headers, ...COMMON_RESPONSE_HEADERS }
      for (const [name, value] of Object.entries(all)) response.headers.set(name, value)
      return request.method === 'HEAD' ? new Response(null, response) : response
    },
  }
}

interface Route {
  /** Undefined: the path is unknown, or has no such method. */
  readonly operation: Operation | undefined
  /** Values of the path's parameters, still percent-encoded. */
  readonly params: ReadonlyMap<string, string>
  /** Methods of the path; empty if the path is unknown. */
  readonly methods: readonly string[]
}

/** Matches the encoded path: a decoded segment may contain a slash. */
function findRoute({ url, method }: Request, operations: readonly Operation[]): Route {
  const segments = rawPath(url).split('/')
  const needed = method === 'HEAD' ? 'get' : method.toLowerCase()
  const methods: string[] = []
  let found: Pick<Route, 'operation' | 'params'> = { operation: undefined, params: new Map() }
  for (const each of operations) {
    const params = matchSegments(each.path, segments)
    if (params === undefined) continue
    methods.push(...(each.method === 'get' ? ['GET', 'HEAD'] : [each.method.toUpperCase()]))
    if (each.method === needed) found = { operation: each, params }
  }
  return { ...found, methods }
}

function accessOf({ operation: served }: Route, { url, method }: Request): OperationAccess {
  return {
    isOpen: served?.isOpen === true,
    writes: served?.writes === true,
    isSessionProbe: rawPath(url) === SESSION_PATH && method === 'GET',
  }
}

function rawPath(url: string): string {
  const start = url.indexOf('/', url.indexOf('://') + 3)
  const path = start === -1 ? '/' : url.slice(start)
  return path.split(/[?#]/, 1)[0] ?? '/'
}

/** The parameters of a path, still encoded; undefined if the path does not match. */
function matchSegments(
  template: string,
  segments: readonly string[],
): ReadonlyMap<string, string> | undefined {
  const steps = template.split('/')
  if (steps.length !== segments.length) return undefined
  const params = new Map<string, string>()
  for (const [index, step] of steps.entries()) {
    const segment = segments[index] ?? ''
    if (!step.startsWith('{')) {
      if (step !== segment) return undefined
    } else if (segment === '') return undefined
    else params.set(step.slice(1, -1), segment)
  }
  return params
}

function unknownRoute({ methods }: Route): AdminError {
  if (methods.length === 0) {
    return new AdminError(
      'not_found',
      `There is no such endpoint. ${BASE}/openapi.json lists all of them.`,
    )
  }
  const allow = methods.join(', ')
  return new AdminError('method_not_allowed', `Allowed methods: ${allow}.`, {
    headers: { Allow: allow },
  })
}

interface AuthenticatedRequest {
  readonly request: Request
  readonly env: Bindings
  readonly route: Route
  readonly authContext: AuthContext
}

async function respond(
  { request, env, route, authContext }: AuthenticatedRequest,
  deps: AdminDeps,
): Promise<Response> {
  const { operation: served, params } = route
  if (served === undefined) throw unknownRoute(route)
  const { principal, sender } = authContext
  if (served.isOpen !== true) {
    if (principal === undefined) throw unauthorized()
    requireRole(principal, served.role, `${served.method.toUpperCase()} ${served.path}`)
  }
  const { searchParams: search } = new URL(request.url)
  const ifMatch = expectedVersionOf(served, headerOf(request, 'if-match'))
  const body = await readRequestBody(request, env, served.body, search, deps)
  return responseOf(await served.run({ params, search, ifMatch, principal, sender, body }, deps))
}

/** Refuses a version that the operation would ignore: its sender relies on it. */
function expectedVersionOf(
  { ifMatch, writes, method, path }: Operation,
  header: string | undefined,
): ExpectedVersion {
  if (ifMatch === undefined && writes !== true) return undefined
  const version = readIfMatch(header)
  if (ifMatch !== undefined || typeof version !== 'number') return version
  const what = `${method.toUpperCase()} ${path}`
  throw invalid('If-Match', `"${version}"`, `none, or *: ${what} ignores versions`)
}

/** The parsed JSON; YAML stays text. */
async function readRequestBody(
  request: Request,
  env: Bindings,
  body: Operation['body'],
  search: URLSearchParams,
  deps: AdminDeps,
): Promise<unknown> {
  if (body === undefined) return undefined
  const kind = bodyKindOf(headerOf(request, 'content-type'), body.kinds)
  requireUncompressed(headerOf(request, 'content-encoding'))
  const length = headerOf(request, 'content-length')
  if (request.headers.has('expect') && Number(length ?? 0) <= body.bytesMax) {
    env?.outgoing?.writeContinue()
  }
  const bytes = await readBytes(request.body, length, body.bytesMax)
  if (kind === 'yaml') return readText(bytes)
  if (body.readLarge === undefined || !isLarge(bytes)) return readJson(bytes)
  const text = readJsonText(bytes)
  return body.readLarge(text, search, deps).catch((error: unknown) => {
    throw error instanceof SyntaxError ? notJson(text, error) : error
  })
}

function responseOf({ status, body, etag, location, headers }: Reply): Response {
  const isYaml = typeof body === 'string'
  const isAsItIs = isYaml || body instanceof ReadableStream
  return new Response(isAsItIs ? body : JSON.stringify(body), {
    status,
    headers: {
      'Content-Type': isYaml ? 'application/yaml' : 'application/json',
      ...(etag !== undefined && { ETag: `"${etag}"` }),
      ...(location !== undefined && { Location: location }),
      ...headers,
    },
  })
}

function documentOperation(operations: readonly Operation[], deps: AdminDeps): Operation {
  let made: object | undefined
  return operation({
    method: 'get',
    path: `${BASE}/openapi.json`,
    id: 'getDocument',
    tag: 'Document',
    summary: 'Read this document',
    role: 'read',
    answers: [
      { status: 200, description: 'OpenAPI 3.1.', schema: z.looseObject({ openapi: z.string() }) },
    ],
    run: () => ({ status: 200, body: (made ??= documentOf(operations, deps.node().release)) }),
  })
}
