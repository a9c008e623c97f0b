/** The decision API and forward-auth: the listener that other programs ask. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Attributes } from '@sluice/core'
import { answerJson, answerProblem, flatHeaders, type ProblemAnswer } from '../http/answer.js'
import { Failures } from '../http/failures.js'
import { limitUnreadBody } from '../http/unread-body.js'
import { createTokens, isFromPage, type Rights, type Tokens } from './access.js'
import { ForwardAuth, type ForwardAuthParts } from './forward-auth.js'
import {
  answerAndClose,
  CROSS_SITE,
  ENCODED,
  needsAdmin,
  TOO_LARGE,
  UNAUTHORIZED,
} from './problems.js'
import { readBody, readJson } from './read-body.js'
import { findRoute, type Route, ROUTES, type Verb } from './routes.js'
import { type Asking, Verbs } from './verbs.js'

export interface Readiness {
  readonly ready: boolean
  /** Why not. Never the store: a node without its store still decides, by posture. */
  readonly reasons: readonly string[]
  /** What is told of the store beside it, as JSON. */
  readonly store: unknown
}

export interface ApiParts extends ForwardAuthParts {
  readonly readiness: () => Readiness
  readonly adminToken: string
  /** Makes secret attributes what they are at every door; see identity/secret-form.ts. */
  readonly hideSecrets: (attributes: Attributes) => Attributes
}

export interface Api {
  /**
   * Answers one request. For the server's `request` and `checkContinue` alike: who waits for leave
   * to send its body gets it only after its token was found good.
   */
  handle(request: IncomingMessage, response: ServerResponse): void
}

export function createApi(parts: ApiParts): Api {
  return new DecisionApi(parts)
}

/** What was asked for, by whom. */
interface Question extends Asking {
  readonly verb: Verb
  readonly body: Buffer
}

class DecisionApi implements Api {
  readonly #parts: ApiParts
  readonly #failures: Failures
  readonly #tokens: Tokens
  readonly #verbs: Verbs
  readonly #forwardAuth: ForwardAuth

  constructor(parts: ApiParts) {
    const { config, adminToken } = parts
    const failures = new Failures({ ...parts, place: 'decision API' })
    this.#parts = parts
    this.#failures = failures
    this.#tokens = createTokens({ apiToken: config.api.token, adminToken })
    this.#verbs = new Verbs(parts.decider, failures, parts.hideSecrets)
    this.#forwardAuth = new ForwardAuth(parts)
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    const route = findRoute(request.url ?? '')
    if (route === undefined) return this.refuse(request, response, NOT_FOUND)
    const { serves } = route
    if (serves === 'forward-auth') {
      const answered = this.#forwardAuth.answer(request, response)
      answered.catch((error: unknown) => this.fail(response, error))
      return
    }
    const rights = this.#tokens.rightsOf(request.headers.authorization)
    const problem = findProblem(route, request, rights)
    if (problem !== undefined) return this.refuse(request, response, problem)
    if (serves === 'health') return this.tell(request, response, 200, { status: 'ok' })
    if (serves === 'readiness') return this.tellReadiness(request, response)
    this.serve(serves, rights, request, response)
  }

  private serve(
    verb: Verb,
    rights: Rights,
    request: IncomingMessage,
    response: ServerResponse,
  ): void {
    readBody(request, response, (body) => {
      if (body === undefined) return answerAndClose(request, response, TOO_LARGE)
      const traced = this.#parts.telemetry?.follow(request)
      void this.answer({ verb, rights, body, traced }, response)
    })
  }

  /** Never rejects. */
  private async answer(question: Question, response: ServerResponse): Promise<void> {
    const { verb, body } = question
    try {
      const answered = this.#verbs[verb](readJson(body), question)
      const answer = answered instanceof Promise ? await answered : answered
      if ('problem' in answer) return answerProblem(response, answer.problem)
      const isDecision = 'policies' in answer
      const headers = isDecision ? flatHeaders(answer, this.#parts.responseClock.now()) : []
      answerJson(response, 200, answer, headers)
    } catch (error) {
      this.fail(response, error)
    }
  }

  private tellReadiness(request: IncomingMessage, response: ServerResponse): void {
    const { ready, reasons, store } = this.#parts.readiness()
    const status = ready ? 'ready' : 'not ready'
    this.tell(request, response, ready ? 200 : 503, { status, reasons, store })
  }

  private tell(
    request: IncomingMessage,
    response: ServerResponse,
    status: number,
    body: object,
  ): void {
    limitUnreadBody(request, response)
    answerJson(response, status, body, ['Cache-Control', 'no-store'])
  }

  private refuse(request: IncomingMessage, response: ServerResponse, problem: ProblemAnswer): void {
    limitUnreadBody(request, response)
    answerProblem(response, problem)
  }

  private fail(response: ServerResponse, error: unknown): void {
    const problem = this.#failures.problemOf(error)
    if (response.headersSent) response.destroy()
    else answerProblem(response, problem)
  }
}

const NOT_FOUND: ProblemAnswer = {
  status: 404,
  detail: `Accepted: ${ROUTES.map(({ path }) => path).join(', ')}`,
  error: 'not_found',
}

/** Why a request is turned away before a byte of its body was read. */
function findProblem(
  { path, access, methods }: Route,
  { method = '', headers }: IncomingMessage,
  rights: Rights,
): ProblemAnswer | undefined {
  if (isFromPage(headers)) return CROSS_SITE
  if (!methods.includes(method)) {
    const allow = methods.join(', ')
    const detail = `Accepted: ${allow}`
    return { status: 405, detail, error: 'method_not_allowed', headers: ['Allow', allow] }
  }
  if (access === 'open') return undefined
  if (rights === undefined) return UNAUTHORIZED
  if (access === 'admin' && rights !== 'admin') return needsAdmin(path, rights)
  const encoding = headers['content-encoding']
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') return ENCODED
  return undefined
}
