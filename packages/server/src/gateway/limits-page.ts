/** `GET /_sluice/limits`: what the asking caller has left, told without spending any of it. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { foldPath } from '@sluice/core'
import { createLimiter, type Limiter, memoryStore } from '@sluice/limiter'
import {
  answerJson,
  answerProblem,
  answerRefusal,
  type ProblemAnswer,
  type RefusalOptions,
} from '../http/answer.js'

const PAGE = '/_sluice/limits'
const RESERVED = '/_sluice'

/** Paths that the gateway answers itself and never forwards. */
export function isOwnPath(path: string): boolean {
  if (path.charCodeAt(1) !== 95) return false
  const folded = foldPath(path)
  return folded === RESERVED || folded.startsWith(`${RESERVED}/`)
}

export interface LimitsPage {
  answer(request: IncomingMessage, response: ServerResponse, asked: Asked): Promise<void>
}

interface Asked {
  readonly path: string
  readonly attributes: Readonly<Record<string, string>>
  readonly peer: string
  /** Why nobody is told anything: who asks is in doubt. */
  readonly refusal: ProblemAnswer | undefined
}

/** Asking is limited too: it reads every counter that the caller has. */
const OWN_RULES = [
  { id: 'sluice-limits-page', by: ['ip'], limits: [{ max: 10, window: '1s', burst: 20 }] },
]
const CALLERS_MAX = 10_000

export function createLimitsPage(
  limiter: Limiter,
  refusalOptions: () => RefusalOptions,
): LimitsPage {
  const own = createLimiter({ rules: OWN_RULES, store: memoryStore({ maxCounters: CALLERS_MAX }) })
  return {
    async answer(request, response, { path, attributes, peer, refusal }) {
      // First of all: whatever is answered here, guessing is not free.
      const asking = own.checkSync({ attributes: { ip: attributes['ip'] ?? peer } })
      if (!asking.allowed) return answerRefusal(response, asking, refusalOptions())
      if (refusal !== undefined) return answerProblem(response, refusal)
      if (foldPath(path) !== PAGE) {
        return answerProblem(response, { status: 404, detail: `Accepted: ${PAGE}` })
      }
      if (request.method !== 'GET' && request.method !== 'HEAD') {
        const headers = ['Allow', 'GET, HEAD']
        return answerProblem(response, { status: 405, detail: 'Accepted: GET, HEAD', headers })
      }
      const policies = await limiter.limits({ attributes })
      const limits = policies.map(
        ({ rule, limitName, limit, windowMs, remaining, resetAfterMs }) => ({
          rule,
          limitName,
          limit,
          windowMs,
          remaining,
          resetAfterMs,
        }),
      )
      answerJson(response, 200, { limits }, ['Cache-Control', 'no-store'])
    },
  }
}
