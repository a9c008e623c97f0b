/** The admin API: every request is let in, or not, before anybody looks where it wants to go. */
import { OpenAPIHono, z } from '@hono/zod-openapi'
import type { Context } from 'hono'
import { isLarge } from '../../rules/editor/worker-parse.js'
import { ErrorReporter } from '../http/error-reporter.js'
import { createTokenAuthenticator, requireRole } from './principals.js'
import type { AdminDeps } from './admin-deps.js'
import {
  type Bindings,
  createAuthenticator,
  type Authenticator,
  type AuthContext,
} from './authenticate.js'
import { EventStreams } from './event-streams.js'
import { documentOf, register } from './openapi.js'
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

type AdminEnv = {
  /** Empty, or not there at all, where a test asks without a socket. */
  Bindings: NonNullable<Bindings>
  Variables: { authContext: AuthContext; headers: Readonly<Record<string, string>> }
}

type AdminContext = Context<AdminEnv>
export type AdminApp = OpenAPIHono<AdminEnv>

export interface AdminAppDeps extends AdminDeps {
  /** Ended by whoever made it. @default one of its own */
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
  // Paths are matched as they were sent: a segment that is decoded first may be another one.
  const app: AdminApp = new OpenAPIHono<AdminEnv>({ getPath: ({ url }: Request) => rawPath(url) })
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
  const operations = [
    ...OPERATIONS,
    eventsOperation(deps.events ?? new EventStreams(deps)),
    ...sessionOperations(authenticatorDeps),
    documentOperation(app, deps),
  ]
  app.use('*', async (context, next) => {
    await next()
    finish(context)
  })
  app.use('*', authenticateRequests(createAuthenticator(authenticatorDeps), operations))
  for (const each of operations) serve(app, each, deps)
  register(app.openAPIRegistry, operations)
  app.notFound((context) => problemResponse(unknownRoute(context, operations), errorReporter))
  app.onError((error, context) => {
    if (error instanceof TooManyError) context.set('headers', limits.headersOf(error.decision))
    return problemResponse(error, errorReporter)
  })
  return app
}

function rawPath(url: string): string {
  const start = url.indexOf('/', url.indexOf('://') + 3)
  const path = start === -1 ? '/' : url.slice(start)
  return path.split(/[?#]/, 1)[0] ?? '/'
}

/** Also of an answer that is a problem. */
function finish(context: AdminContext): void {
  const { headers } = context.res
  const own = { ...context.get('headers'), ...COMMON_RESPONSE_HEADERS }
  for (const [name, value] of Object.entries(own)) headers.set(name, value)
}

/** Before anybody looks where a request wants to go; what that is tells only how it counts. */
function authenticateRequests(authenticate: Authenticator, operations: readonly Operation[]) {
  return async (context: AdminContext, next: () => Promise<void>): Promise<void> => {
    const { req, env } = context
    const requested = findOperations(req.path, operations).find(isMethod(req.method))
    const authContext = authenticate(req, env, {
      isOpen: requested?.isOpen === true,
      writes: requested?.writes === true,
      isSessionProbe: req.path === SESSION_PATH && req.method === 'GET',
    })
    context.set('headers', authContext.headers)
    context.set('authContext', authContext)
    await next()
  }
}

const isMethod =
  (sent: string) =>
  ({ method }: Operation): boolean =>
    method === (sent === 'HEAD' ? 'get' : sent.toLowerCase())

/** All that a path is for, whatever the method. */
function findOperations(path: string, operations: readonly Operation[]): readonly Operation[] {
  const segments = path.split('/')
  return operations.filter((each) => matchSegments(each.path, segments) !== undefined)
}

/** The parameters of a path as it spells them; undefined if it is another one. */
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

function unknownRoute({ req }: AdminContext, operations: readonly Operation[]): AdminError {
  const found = findOperations(req.path, operations)
  if (found.length === 0) {
    return new AdminError('not_found', `Accepted: what ${BASE}/openapi.json lists.`)
  }
  const methods = found.flatMap(({ method }) => (method === 'get' ? ['GET', 'HEAD'] : [method]))
  const allow = methods.map((method) => method.toUpperCase()).join(', ')
  return new AdminError('method_not_allowed', `Accepted: ${allow}`, { headers: { Allow: allow } })
}

function serve(app: AdminApp, each: Operation, deps: AdminDeps): void {
  const path = each.path.replaceAll(/\{(\w+)\}/g, ':$1')
  app.on([each.method], [path], async (context) => {
    const { req } = context
    const { principal, sender } = context.get('authContext')
    if (each.isOpen !== true) {
      if (principal === undefined) throw unauthorized()
      requireRole(principal, each.role, `${each.method.toUpperCase()} ${each.path}`)
    }
    const params = matchSegments(each.path, req.path.split('/')) ?? new Map<string, string>()
    const { searchParams: search } = new URL(req.url)
    const ifMatch = expectedVersionOf(each, req.header('if-match'))
    const body = await readRequestBody(context, each, search, deps)
    return responseOf(await each.run({ params, search, ifMatch, principal, sender, body }, deps))
  })
}

/** A writer that sends a version relies on it: where nobody looks at it, it is not taken. */
function expectedVersionOf(
  { ifMatch, writes, method, path }: Operation,
  header: string | undefined,
): ExpectedVersion {
  if (ifMatch === undefined && writes !== true) return undefined
  const version = readIfMatch(header)
  if (ifMatch !== undefined || typeof version !== 'number') return version
  const what = `${method.toUpperCase()} ${path}`
  throw invalid('If-Match', `"${version}"`, `none, or *: ${what} looks at no version`)
}

/** A text where it is YAML. */
async function readRequestBody(
  { req, env }: AdminContext,
  { body }: Operation,
  search: URLSearchParams,
  deps: AdminDeps,
): Promise<unknown> {
  if (body === undefined) return undefined
  const kind = bodyKindOf(req.header('content-type'), body.kinds)
  requireUncompressed(req.header('content-encoding'))
  const length = req.header('content-length')
  if (req.header('expect') !== undefined && Number(length ?? 0) <= body.bytesMax) {
    env?.outgoing?.writeContinue()
  }
  const bytes = await readBytes(req.raw.body, length, body.bytesMax)
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

function documentOperation(app: AdminApp, deps: AdminDeps): Operation {
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
    run: () => ({ status: 200, body: (made ??= documentOf(app, deps.node().release)) }),
  })
}
