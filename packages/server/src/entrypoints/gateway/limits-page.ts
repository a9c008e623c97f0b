/** `GET /_sluice/limits`: shows callers what they have left, without spending any of it. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { canonicalPath, foldPath } from '@sluice/core'
import { createLimiter, type Limiter, memoryStore } from '@sluice/limiter'
import {
  sendJson,
  sendProblem,
  refusalResponse,
  send,
  type HttpProblem,
  type RefusalOptions,
} from '../http/responses.js'

const PAGE = '/_sluice/limits'
const RESERVED = '/_sluice'

/** Paths that the gateway answers itself and never forwards. */
export function isReservedPath(path: string): boolean {
  if (path.charCodeAt(1) !== 95) return false
  const folded = foldPath(path)
  return folded === RESERVED || folded.startsWith(`${RESERVED}/`)
}

export interface LimitsPage {
  answer(
    request: IncomingMessage,
    response: ServerResponse,
    query: LimitsPageRequest,
  ): Promise<void>
}

interface LimitsPageRequest {
  readonly path: string
  readonly attributes: Readonly<Record<string, string>>
  readonly peer: string
  /** Set if the caller cannot be identified; it is sent instead of the limits. */
  readonly refusal: HttpProblem | undefined
}

const METHOD = /^[A-Za-z]{1,32}$/
const METHOD_DEFAULT = 'GET'

/** The call that the query names, `?method=POST&path=/v1/login`; undefined: none. */
function readNamedCall(
  url: string,
): { readonly method: string; readonly path: string } | HttpProblem | undefined {
  const start = url.indexOf('?')
  if (start === -1) return undefined
  const query = new URLSearchParams(url.slice(start))
  const [method, path] = [query.get('method'), query.get('path')]
  if (path === null) {
    if (method === null) return undefined
    return { status: 400, detail: 'The query names a method without a path.' }
  }
  if (method !== null && !METHOD.test(method)) {
    return { status: 400, detail: 'The method in the query is not an HTTP method.' }
  }
  const found = canonicalPath(path)
  if (!found.ok) {
    return { status: 400, detail: `path: ${found.reason}`, error: 'CALL_PATH_INVALID' }
  }
  return { method: (method ?? METHOD_DEFAULT).toUpperCase(), path: found.path }
}

/**
 * The page has limits of its own, since it reads every counter of the caller. With rules by route
 * these may be a thousand, which take Redis milliseconds; so it limits requests and counters.
 */
const OWN_RULES = [
  { id: 'sluice-limits-page', by: ['ip'], limits: [{ max: 10, window: '1s', burst: 20 }] },
  {
    id: 'sluice-limits-page-counters',
    by: ['ip'],
    cost: { attribute: 'counters' },
    limits: [{ max: 500, window: '1s', burst: 2000 }],
  },
]
const CALLERS_MAX = 10_000

/**
 * Estimates how many counters the next response reads, by the largest of recent responses. The
 * actual number is known only afterwards.
 */
class AnswerSize {
  #counters = 1

  get expected(): number {
    return this.#counters
  }

  /** Records the counters of a response. The estimate falls slowly, as rules may be removed. */
  record(counters: number): void {
    this.#counters = Math.max(1, counters, this.#counters - 1)
  }
}

export function createLimitsPage(
  limiter: Limiter,
  refusalOptions: () => RefusalOptions,
): LimitsPage {
  const own = createLimiter({
    rules: OWN_RULES,
    store: memoryStore({ maxCounters: OWN_RULES.length * CALLERS_MAX }),
  })
  const [allLimits, limitsOfCall] = [new AnswerSize(), new AnswerSize()]
  return {
    async answer(request, response, { path, attributes, peer, refusal }) {
      const named = readNamedCall(request.url ?? '')
      const size = named === undefined ? allLimits : limitsOfCall
      // Checked first, so that guessing keys costs budget too.
      const ownDecision = own.checkSync({
        attributes: { ip: attributes['ip'] ?? peer, counters: String(size.expected) },
      })
      if (!ownDecision.allowed)
        return send(response, refusalResponse(ownDecision, refusalOptions()))
      if (refusal !== undefined) return sendProblem(response, refusal)
      if (foldPath(path) !== PAGE) {
        return sendProblem(response, {
          status: 404,
          detail: `Not found. The only page is ${PAGE}.`,
        })
      }
      if (request.method !== 'GET' && request.method !== 'HEAD') {
        const headers = ['Allow', 'GET, HEAD']
        return sendProblem(response, {
          status: 405,
          detail: 'Allowed methods: GET, HEAD.',
          headers,
        })
      }
      if (named !== undefined && 'status' in named) return sendProblem(response, named)
      const policies =
        named === undefined
          ? await limiter.limits({ attributes })
          : (await limiter.peek({ attributes: { ...attributes, ...named } })).policies()
      size.record(policies.length)
      const limits = policies.map(
        ({ rule, limitName, route, limit, windowMs, window, zone, remaining, resetAfterMs }) => ({
          rule,
          limitName,
          ...(route !== undefined && { route }),
          limit,
          windowMs,
          ...(window !== undefined && { window, zone }),
          remaining,
          resetAfterMs,
        }),
      )
      sendJson(response, 200, { limits }, ['Cache-Control', 'no-store'])
    },
  }
}
