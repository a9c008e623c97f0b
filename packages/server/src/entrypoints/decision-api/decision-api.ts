/** The decision API, with forward-auth and the health endpoints on the same listener. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Attributes } from '@sluice/core'
import {
  sendJson,
  sendProblem,
  sendText,
  flatHeaders,
  type HttpProblem,
} from '../http/responses.js'
import { ErrorReporter } from '../http/error-reporter.js'
import { limitUnreadBody } from '../http/unread-body.js'
import { createTokens, isFromPage, type Rights, type Tokens } from './api-authorization.js'
import { JsonEndpoint } from '../envoy/json-endpoint.js'
import type { RateLimitService } from '../envoy/rate-limit-service.js'
import { ForwardAuth, type ForwardAuthDeps } from '../forward-auth/forward-auth.js'
import {
  sendAndClose,
  CROSS_SITE,
  UNSUPPORTED_ENCODING,
  needsAdmin,
  TOO_LARGE,
  UNAUTHORIZED,
} from './api-problems.js'
import { readBody, readJson } from './read-body.js'
import { findRoute, type Route, ROUTES, type Verb } from './routes.js'
import { type VerbContext, Verbs } from './verbs.js'

export interface Readiness {
  readonly ready: boolean
  /** Why it is not ready. Never the store: a node without its store decides by posture. */
  readonly reasons: readonly string[]
  /** The state of the store, as JSON. */
  readonly store: unknown
}

export interface DecisionApiDeps extends Omit<ForwardAuthDeps, 'errorReporter'> {
  readonly readiness: () => Readiness
  readonly adminToken: string
  /** Decides the requests of `/json`; undefined: there is no such path. */
  readonly rateLimitService?: RateLimitService | undefined
  /** Masks secret attributes as the gateway does; see identity/masked-value.ts. */
  readonly hideSecrets: (attributes: Attributes) => Attributes
}

export interface Api {
  /**
   * Answers one request, for the events `request` and `checkContinue` of the server. A client that
   * waits for `100 Continue` gets it only after its token was checked.
   */
  handle(request: IncomingMessage, response: ServerResponse): void
}

export function createApi(deps: DecisionApiDeps): Api {
  return new DecisionApi(deps)
}

/** A request with the rights of its sender. */
interface VerbRequest extends VerbContext {
  readonly verb: Verb
  readonly body: Buffer
}

class DecisionApi implements Api {
  readonly #deps: DecisionApiDeps
  readonly #errorReporter: ErrorReporter
  readonly #tokens: Tokens
  readonly #verbs: Verbs
  readonly #forwardAuth: ForwardAuth
  readonly #json: JsonEndpoint | undefined

  constructor(deps: DecisionApiDeps) {
    const { config, adminToken } = deps
    const errorReporter = new ErrorReporter({ ...deps, component: 'decision API' })
    this.#deps = deps
    this.#errorReporter = errorReporter
    this.#tokens = createTokens({ apiToken: config.api.token, adminToken })
    this.#verbs = new Verbs(deps.decider, errorReporter, deps.hideSecrets)
    this.#forwardAuth = new ForwardAuth({ ...deps, errorReporter })
    const { rateLimitService: service } = deps
    this.#json = service && new JsonEndpoint({ service, errorReporter })
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    const route = findRoute(request.url ?? '')
    if (route === undefined) return this.refuse(request, response, NOT_FOUND)
    const { serves } = route
    if (serves === 'forward-auth') {
      const answered = this.#forwardAuth.handle(request, response)
      answered.catch((error: unknown) => this.fail(response, error))
      return
    }
    const rights = this.#tokens.rightsOf(request.headers.authorization)
    const problem = findProblem(route, request, rights)
    if (problem !== undefined) return this.refuse(request, response, problem)
    if (serves === 'health') return this.respond(request, response, 200, { status: 'ok' })
    if (serves === 'readiness') return this.respondReadiness(request, response)
    if (serves === 'rate-limit-json') return this.serveJson(rights, request, response)
    this.serve(serves, rights, request, response)
  }

  private serve(
    verb: Verb,
    rights: Rights,
    request: IncomingMessage,
    response: ServerResponse,
  ): void {
    readBody(request, response, (body) => {
      if (body === undefined) return sendAndClose(request, response, TOO_LARGE)
      const traced = this.#deps.telemetry?.follow(request)
      void this.answer({ verb, rights, body, traced }, response)
    })
  }

  private serveJson(rights: Rights, request: IncomingMessage, response: ServerResponse): void {
    const endpoint = this.#json
    if (endpoint === undefined) return this.refuse(request, response, NOT_FOUND)
    readBody(request, response, (body) => {
      if (body === undefined) return sendAndClose(request, response, TOO_LARGE)
      void endpoint.answer(body, { mayGiveBack: rights === 'admin' }).then((answer) => {
        if (answer !== 'forbidden') return sendText(response, answer)
        sendProblem(response, needsAdmin('A request that gives hits back', rights))
      })
    })
  }

  /** Never rejects. */
  private async answer(request: VerbRequest, response: ServerResponse): Promise<void> {
    const { verb, body } = request
    try {
      const answered = this.#verbs[verb](readJson(body), request)
      const answer = answered instanceof Promise ? await answered : answered
      if ('problem' in answer) return sendProblem(response, answer.problem)
      const nowMs = this.#deps.responseClock.now()
      if ('decision' in answer) {
        return sendJson(response, 200, answer.body, flatHeaders(answer.decision, nowMs))
      }
      const isDecision = 'policies' in answer
      sendJson(response, 200, answer, isDecision ? flatHeaders(answer, nowMs) : [])
    } catch (error) {
      this.fail(response, error)
    }
  }

  private respondReadiness(request: IncomingMessage, response: ServerResponse): void {
    const { ready, reasons, store } = this.#deps.readiness()
    const status = ready ? 'ready' : 'not ready'
    this.respond(request, response, ready ? 200 : 503, { status, reasons, store })
  }

  private respond(
    request: IncomingMessage,
    response: ServerResponse,
    status: number,
    body: object,
  ): void {
    limitUnreadBody(request, response)
    sendJson(response, status, body, ['Cache-Control', 'no-store'])
  }

  private refuse(request: IncomingMessage, response: ServerResponse, problem: HttpProblem): void {
    limitUnreadBody(request, response)
    sendProblem(response, problem)
  }

  private fail(response: ServerResponse, error: unknown): void {
    const problem = this.#errorReporter.problemOf(error)
    if (response.headersSent) response.destroy()
    else sendProblem(response, problem)
  }
}

const NOT_FOUND: HttpProblem = {
  status: 404,
  detail: `Not found. Paths of this API: ${ROUTES.map(({ path }) => path).join(', ')}`,
  error: 'not_found',
}

/** Why a request is refused before its body is read. */
function findProblem(
  { path, access, methods }: Route,
  { method = '', headers }: IncomingMessage,
  rights: Rights,
): HttpProblem | undefined {
  if (isFromPage(headers)) return CROSS_SITE
  if (!methods.includes(method)) {
    const allow = methods.join(', ')
    const detail = `Allowed methods: ${allow}.`
    return { status: 405, detail, error: 'method_not_allowed', headers: ['Allow', allow] }
  }
  if (access === 'open') return undefined
  if (rights === undefined) return UNAUTHORIZED
  if (access === 'admin' && rights !== 'admin') return needsAdmin(path, rights)
  const encoding = headers['content-encoding']
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') return UNSUPPORTED_ENCODING
  return undefined
}
